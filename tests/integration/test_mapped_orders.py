"""Orders in a shop's own tables, on SQLite and PostgreSQL: exact, to the byte, or not used."""

import asyncio
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.orders.mapped.connecting import ForeignDatabase, Late
from support_agent.adapters.orders.mapped.examining import examine
from support_agent.adapters.orders.mapped.orders import MappedOrders
from support_agent.domain.errors import ConfigurationError, OrdersUnavailable
from support_agent.domain.orders import (
    OVERPAID,
    Customer,
    LineKind,
    OrderStatus,
    PaymentMethod,
)
from support_agent.testing.orders_contract import CHECKS, CUSTOMERS, FULL, ORDERS
from support_agent.testing.postgres import drop_database, fresh_database
from tests.cut_line import line_to
from tests.foreign_shop import changed, fill_shop, is_sqlite, make_shop, map_text, open_map, run

OWNER = "C-list"
LINE = "UPDATE ban_hang.chi_tiet_don SET {} WHERE ma_don = 'A100'"
PAID = "UPDATE ban_hang.thanh_toan SET {} WHERE ma_don = 'A100'"
ORDER = "UPDATE ban_hang.don_hang SET {} WHERE ma_don = 'A100'"
SAME_PAYMENT = (
    "INSERT INTO ban_hang.thanh_toan SELECT ma_don, 'P9', 9, cong, ma_giao_dich, hinh_thuc, so_tien,"
    " loai_tien, tinh_trang, khieu_nai FROM ban_hang.thanh_toan WHERE ma_don = 'A100'"
)
A100 = next(order for order in ORDERS if order.id == "A100")


@dataclass
class Foreign:
    """A shop of somebody else with the contract's orders, and a map of it."""

    url: str
    folder: Path

    @property
    def where(self) -> str:
        return "" if is_sqlite(self.url) else "ban_hang."

    def run(self, *statements: str) -> None:
        run(self.url, *(statement.replace("ban_hang.", self.where) for statement in statements))

    def open(self, *changes: tuple[str, str], timeout_s: float = 5) -> MappedOrders:
        named = [tuple(word.replace("ban_hang.", self.where) for word in c) for c in changes]
        text = changed(self.url, *named)
        return open_map(self.url, self.folder / "orders.toml", text, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def postgres_foreign(postgres: str) -> str:
    url = fresh_database(postgres)
    make_shop(url)
    fill_shop(url, CUSTOMERS, ORDERS)
    return url


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Foreign:
    url = f"sqlite:///{tmp_path / 'foreign.db'}"
    make_shop(url)
    fill_shop(url, CUSTOMERS, ORDERS)
    return Foreign(url, tmp_path)


@pytest.fixture
def on_postgres(postgres: str, postgres_foreign: str, tmp_path: Path) -> Iterator[Foreign]:
    url = fresh_database(postgres, template=postgres_foreign)
    yield Foreign(url, tmp_path)
    drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def foreign(request: pytest.FixtureRequest) -> Foreign:
    """Of either kind in turn."""
    made: Foreign = request.getfixturevalue(f"on_{request.param}")
    return made


@pytest.fixture
async def orders(foreign: Foreign) -> AsyncIterator[MappedOrders]:
    opened = foreign.open()
    yield opened
    await opened.aclose()


async def test_the_contract_is_kept(orders):
    await orders.check()
    for check in CHECKS:
        await check(orders)


@pytest.mark.parametrize(
    "status", ["'tren_mat_trang'", "NULL", "''", "'HOAN_TAT'", "'hoan_tat '", "'DELIVERED'"]
)
async def test_a_status_that_is_not_mapped_is_unknown(foreign, orders, status):
    foreign.run(ORDER.format(f"trang_thai = {status}"))

    assert (await orders.get("A100")).status is OrderStatus.UNKNOWN


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (LINE.format("don_gia = 250000.5"), "lines.columns.unit_price is not exact"),
        (LINE.format("don_gia = NULL"), "lines.columns.unit_price is NULL"),
        (LINE.format("giam_gia = -1"), "lines.columns.discount is below 0"),
        (LINE.format("giam_gia = NULL"), "lines.columns.discount is NULL"),
        (LINE.format("don_gia = -1"), "lines.columns.unit_price is below 0"),
        (LINE.format("giam_gia = 250001"), "lines.columns.unit_price is below 0, or below what"),
        (LINE.format("so_luong = NULL"), "lines.columns.quantity is NULL"),
        (LINE.format("so_luong = -1"), "lines.columns.quantity is below 0"),
        (LINE.format("ten_hang = NULL"), "lines.columns.name is NULL"),
        (LINE.format("loai = 'khac'"), "lines.columns.kind is NULL, or a word that the map"),
        (LINE.format("duoc_tra = NULL"), "lines.columns.returnable is NULL"),
        (LINE.format("dong = NULL"), "lines.columns.id is NULL"),
        (LINE.format("dong = '+overpaid'"), "lines.columns.id is there twice"),
        (LINE.format("don_gia = 200000"), "do not add up to orders.columns.total"),
        ("DELETE FROM ban_hang.chi_tiet_don WHERE ma_don = 'A100'", "has no lines"),
        (LINE.format("ma_don = 'a100'"), "has no lines"),
        (PAID.format("so_tien = -5"), "payments.columns.captured is below 0"),
        (PAID.format("so_tien = 0.001"), "payments.columns.captured is not exact"),
        (PAID.format("hinh_thuc = 'xu'"), "payments.columns.method is NULL, or a word"),
        (PAID.format("hinh_thuc = NULL"), "payments.columns.method is NULL, or a word"),
        (PAID.format("tinh_trang = 'cho'"), "payments.columns.status is NULL, or a word"),
        (PAID.format("ma_giao_dich = NULL"), "payments.columns.gateway_payment_id is NULL"),
        (SAME_PAYMENT, "payments.columns.gateway_payment_id is there twice in one order"),
        (PAID.format("loai_tien = 'XYZ'"), "payments.columns.currency is none of"),
        (PAID.format("cong = NULL"), "payments.columns.gateway is NULL"),
        (ORDER.format("tong_tien = NULL"), "orders.columns.total is NULL"),
        (ORDER.format("loai_tien = NULL"), "orders.columns.currency is none of"),
        (ORDER.format("ma_khach = NULL"), "orders.columns.customer_id is NULL"),
        (ORDER.format("ngay_dat = NULL"), "orders.columns.placed_at is NULL"),
        (ORDER.format("phi_giao = -1"), "orders.columns.shipping is below 0"),
        (ORDER.format("giam_ca_don = 250001"), "orders.columns.discount is below 0 or above"),
    ],
)
async def test_what_cannot_be_read_exactly_is_no_order_and_says_why(on_sqlite, statement, why):
    orders = on_sqlite.open()
    on_sqlite.run(statement)

    with pytest.raises(OrdersUnavailable) as told:
        await orders.get("A100")
    listed = await orders.list_for_customer(OWNER, limit=10)

    assert why in str(told.value)
    assert "'A100'" in str(told.value)
    assert {order.id for order in listed} == {"A101", "A102", "A103"}  # the others stay
    await orders.aclose()


async def test_a_numeric_that_is_not_a_number_is_no_amount(on_postgres):
    orders = on_postgres.open()
    on_postgres.run(PAID.format("so_tien = 'NaN'"))

    with pytest.raises(OrdersUnavailable, match="captured is not a finite number"):
        await orders.get("A100")
    await orders.aclose()


@pytest.mark.parametrize("column", ["ngay_dat", "giao_luc", "giao_ngay"])
@pytest.mark.parametrize("moment", ["infinity", "20000-01-01 00:00:00", "0044-03-15 BC"])
async def test_a_date_that_python_has_not_is_no_order(on_postgres, moment, column):
    orders = on_postgres.open()
    on_postgres.run(ORDER.format(f"{column} = '{moment}'"))

    with pytest.raises(OrdersUnavailable):
        await orders.get("A100")
    assert (await orders.get("A101")).id == "A101"
    listed = await orders.list_for_customer(OWNER, limit=10)
    assert {order.id for order in listed} == {"A101", "A102", "A103"}
    told = [remark.detail for remark in (await examine(orders)).remarks if remark.level == "fail"]
    assert [detail for detail in told if "1 of 6 read cannot be used, such as 'A100'" in detail]
    await orders.aclose()


@pytest.mark.parametrize("value", ["'hom qua'", "'2026-13-01'", "1790000000"])
async def test_a_text_that_is_no_date_is_none(on_sqlite, value):
    orders = on_sqlite.open()
    on_sqlite.run(ORDER.format(f"giao_luc = {value}"))

    with pytest.raises(OrdersUnavailable, match=r"orders\.columns\.delivered_at is "):
        await orders.get("A100")
    await orders.aclose()


async def test_text_that_is_no_utf8_is_no_answer(on_sqlite):
    orders = on_sqlite.open()
    on_sqlite.run(LINE.format("ten_hang = CAST(x'ff41' AS TEXT)"))

    with pytest.raises(OrdersUnavailable):
        await orders.get("A100")
    assert (await orders.get("A101")).id == "A101"
    await orders.aclose()


async def test_local_times_are_the_shops_and_days_stay_days(foreign, orders):
    foreign.run(
        ORDER.format("ngay_dat = '2026-10-01 00:30:00', giao_luc = NULL, giao_ngay = '2026-10-02'")
    )

    order = await orders.get("A100")

    assert order.placed_at == datetime(2026, 9, 30, 17, 30, tzinfo=UTC)
    assert (order.delivered_at, type(order.delivered_at)) == (date(2026, 10, 2), date)


async def test_payments_that_took_no_money_are_left_out(foreign, orders):
    foreign.run(PAID.format("tinh_trang = 'that_bai'"))

    assert (await orders.get("A100")).payments == ()


async def test_cash_needs_no_id_at_a_gateway(foreign, orders):
    foreign.run(PAID.format("hinh_thuc = 'khi_nhan', ma_giao_dich = NULL"))

    (payment,) = (await orders.get("A100")).payments

    assert (payment.method, payment.gateway_payment_id) == (PaymentMethod.COD, "+4/A100/P1")


async def test_shipping_and_discount_of_the_whole_order_are_lines_and_shares(foreign, orders):
    foreign.run(
        ORDER.format("phi_giao = 30000, giam_ca_don = 33334, tong_tien = 346666"),
        "INSERT INTO ban_hang.chi_tiet_don SELECT ma_don, '2', 9, ten_hang, so_luong, 100000,"
        " giam_gia, giam_khuyen_mai, nhom_hang, loai, duoc_tra, da_nhan_lai, giao_luc, giao_ngay,"
        " ma_bien_the, la_qua_tang, mau, co FROM ban_hang.chi_tiet_don WHERE ma_don = 'A100'",
    )

    order = await orders.get("A100")

    assert [(line.id, line.total_minor) for line in order.lines] == [
        ("1", 226_190),
        ("2", 90_476),
        ("+shipping", 30_000),
    ]
    assert order.lines[-1].kind is LineKind.SHIPPING
    assert order.total_minor == 346_666


async def test_two_rows_of_one_id_are_no_order_whoever_asks(foreign):
    foreign.run(
        "CREATE VIEW ban_hang.hai_lan AS SELECT * FROM ban_hang.don_hang UNION ALL "
        "SELECT ma_don, 'c-list', trang_thai, loai_tien, ngay_dat, giao_luc, giao_ngay, tong_tien,"
        " phi_giao, giam_ca_don, ghi_chu, ma_khuyen_mai, nguong_khuyen_mai, nguoi_nhan,"
        " dien_thoai, dia_chi, thanh_pho, quoc_gia FROM ban_hang.don_hang WHERE ma_don = 'A100'"
    )
    orders = foreign.open(('"ban_hang.don_hang"', '"ban_hang.hai_lan"'))

    with pytest.raises(OrdersUnavailable, match=r"'A100' cannot be used, .*: its id is there more"):
        await orders.get("A100")
    theirs = await orders.list_for_customer(OWNER, limit=10)
    others = await orders.list_for_customer("c-list", limit=10)
    await orders.aclose()

    assert {order.id for order in theirs} == {"A101", "A102", "A103"}
    assert {order.id for order in others} == {"a100"}


async def test_two_customers_of_one_id_are_none(foreign):
    foreign.run(
        "CREATE VIEW ban_hang.hai_khach AS SELECT * FROM ban_hang.khach_hang UNION ALL "
        "SELECT ma, 'Somebody Else', ngon_ngu FROM ban_hang.khach_hang"
    )
    orders = foreign.open(('"ban_hang.khach_hang"', '"ban_hang.hai_khach"'))

    with pytest.raises(OrdersUnavailable, match="its id is there more than once"):
        await orders.find_customer(OWNER)
    await orders.aclose()


@pytest.mark.parametrize(
    ("kind", "id_type"), [("sqlite", "text COLLATE NOCASE"), ("postgresql", "citext")]
)
async def test_a_column_that_folds_case_gives_nobody_anothers_order(
    request, tmp_path, kind, id_type
):
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'folding.db'}"
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
        run(url, "CREATE EXTENSION citext")
    make_shop(url, id_type=id_type)
    fill_shop(url, [Customer(id="C001", name="Sample")], [replace(A100, customer_id="C001")])
    orders = open_map(url, tmp_path / "orders.toml")

    assert (await orders.get("A100")).customer_id == "C001"
    assert await orders.get("a100") is None
    assert await orders.find_customer("c001") is None
    assert await orders.list_for_customer("c001", limit=5) == ()
    assert len(await orders.list_for_customer("C001", limit=5)) == 1
    await orders.aclose()


async def test_what_a_view_cannot_work_out_is_not_missing(on_postgres):
    on_postgres.run(
        "CREATE VIEW ban_hang.tinh AS SELECT d.*, (1e18 * tong_tien)::numeric(18, 2) AS tong"
        " FROM ban_hang.don_hang d"
    )
    orders = on_postgres.open(('"ban_hang.don_hang"', '"ban_hang.tinh"'), ('"tong_tien"', '"tong"'))
    await orders.check()

    with pytest.raises(OrdersUnavailable):
        await orders.get("A100")
    with pytest.raises(OrdersUnavailable):
        await orders.list_for_customer(OWNER, limit=5)
    assert await orders.get("\u20ac") is None
    with pytest.raises(ConfigurationError, match="cannot work out what the map asks for"):
        await examine(orders)
    await orders.aclose()


async def test_lines_that_point_to_an_inner_key_are_told_and_hide_no_order(on_postgres):
    on_postgres.run("ALTER TABLE ban_hang.chi_tiet_don ADD COLUMN don bigint DEFAULT 7")
    text = map_text(on_postgres.url)
    at = text.index("[lines.columns]")
    text = text[:at] + text[at:].replace('order_id = "ma_don"', 'order_id = "don"', 1)
    orders = open_map(on_postgres.url, on_postgres.folder / "orders.toml", text)

    with pytest.raises(OrdersUnavailable):
        await orders.get("A100")
    with pytest.raises(ConfigurationError, match="whether each order_id holds what orders"):
        await examine(orders)
    await orders.aclose()


ODD_IDS = ("../A100", "A100\0", "\ud800", "A" * 10_000, "' OR '1'='1", "%", "{}", "A100;--", "é")


async def test_an_odd_id_is_simply_not_found(orders):
    for odd in ODD_IDS:
        assert await orders.get(odd) is None
        assert await orders.find_customer(odd) is None
        assert await orders.list_for_customer(odd, limit=5) == ()


@pytest.mark.parametrize("id_type", ["bigint", "uuid", "char(12)", "numeric(12, 0)"])
async def test_ids_may_be_numbers_uuids_and_padded(request, tmp_path, id_type):
    url = fresh_database(request.getfixturevalue("postgres"))
    make_shop(url, id_type=id_type)
    own = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11" if id_type == "uuid" else "1042"
    customer = Customer(id=own, name="Sample")
    fill_shop(url, [customer], [replace(A100, id=own, customer_id=own)])
    orders = open_map(url, tmp_path / "orders.toml")
    await orders.check()

    found = await orders.get(own)

    assert (found.id, found.customer_id, len(found.lines)) == (own, own, 1)
    assert await orders.list_for_customer(own, limit=5) == (found,)
    assert await orders.find_customer(own) == customer
    for other in ("A100", "01042", "1042.0", " 1042", "9" * 30, own.upper() + "x", ""):
        assert await orders.get(other) is None
        assert await orders.list_for_customer(other, limit=5) == ()
    await orders.aclose()
    drop_database(url)


async def test_numbers_on_sqlite_are_ids_too(tmp_path):
    url = f"sqlite:///{tmp_path / 'numbers.db'}"
    make_shop(url, id_type="integer")
    fill_shop(url, [Customer(id="7", name="Sample")], [replace(A100, id="1042", customer_id="7")])
    orders = open_map(url, tmp_path / "orders.toml")

    assert (await orders.get("1042")).customer_id == "7"
    assert [await orders.get(other) for other in ("01042", "1042.0", " 1042")] == [None] * 3
    await orders.aclose()


async def test_a_list_takes_one_statement_a_table(foreign, orders):
    asked: list[str] = []
    await orders.check()

    @sa.event.listens_for(orders._database._engine, "before_cursor_execute")
    def note(_c, _cursor, statement, *_):
        asked.append(statement)

    listed = await orders.list_for_customer(OWNER, limit=10)

    assert len(listed) == 4
    assert len([statement for statement in asked if statement.startswith("SELECT")]) == 3


async def test_what_is_searched_is_found_by_an_index(on_sqlite):
    asked: list[tuple[str, tuple[object, ...]]] = []
    orders = on_sqlite.open()
    await orders.check()

    @sa.event.listens_for(orders._database._engine, "before_cursor_execute")
    def note(_c, _cursor, statement, parameters, *_):
        asked.append((statement, parameters))

    await orders.get("A100")
    await orders.list_for_customer(OWNER, limit=5)
    await orders.find_customer(OWNER)
    await orders.aclose()

    steps = []
    with closing(sqlite3.connect(on_sqlite.url.removeprefix("sqlite:///"))) as connection:
        for statement, parameters in asked:
            if statement.startswith("SELECT"):
                plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                steps += [row[-1] for row in plan]
    assert len([step for step in steps if step.startswith("SEARCH")]) >= 7
    assert [step for step in steps if step.startswith("SCAN")] == []


async def test_what_would_be_cut_off_is_never_taken_for_whole(on_sqlite):
    orders = on_sqlite.open()
    copies = (
        "INSERT INTO chi_tiet_don SELECT ma_don, 'x' || i, i, ten_hang, so_luong, 0, 0, 0, nhom_hang,"
        " loai, duoc_tra, da_nhan_lai, giao_luc, giao_ngay, ma_bien_the, la_qua_tang, mau, co FROM"
        " chi_tiet_don, (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
        " {}) SELECT i FROM n) WHERE ma_don = 'A100'"
    )
    on_sqlite.run(copies.format(1_000))
    with pytest.raises(OrdersUnavailable, match="it has more than 1000 lines"):
        await orders.get("A100")
    assert len(await orders.list_for_customer(OWNER, limit=10)) == 3

    on_sqlite.run(copies.format(5))  # each line of before six times
    with pytest.raises(OrdersUnavailable):
        await orders.list_for_customer(OWNER, limit=10)
    await orders.aclose()


async def test_nothing_can_be_written(foreign, orders):
    for statement in (ORDER.format("ghi_chu = 'x'"), "CREATE TABLE ban_hang.moi (id integer)"):
        written = sa.text(statement.replace("ban_hang.", foreign.where))
        with pytest.raises(DBAPIError, match=r"readonly|read-only"):
            await orders._database.run(lambda c, what=written: c.execute(what))

    assert (await orders.get("A100")).note is None


async def test_a_map_that_does_not_fit_is_told_with_every_key(foreign):
    orders = foreign.open(
        ('"ban_hang.khach_hang"', '"ban_hang.khach_hnag"'),
        ('"trang_thai"', '"trang_thia"'),
        ('unit_price = "don_gia"', 'unit_price = "khong_co"'),
    )

    with pytest.raises(ConfigurationError) as told:
        await orders.check()
    with pytest.raises(OrdersUnavailable, match="the orders map does not fit"):
        await orders.get("A100")
    await orders.aclose()

    problem = str(told.value)
    assert problem.startswith("SUPPORT_AGENT_ORDERS__MAP: does not fit the database: ")
    assert "customers.table: there is no table or view" in problem
    assert "did you mean 'khach_hang'?" in problem
    assert "orders.columns.status: " in problem
    assert "has no column 'trang_thia'; did you mean 'trang_thai'?" in problem
    assert "lines.columns.unit_price: " in problem


@pytest.mark.parametrize("kind", ["double precision", "real"])
async def test_money_in_floating_point_is_refused_before_anything_is_read(foreign, kind):
    foreign.run(
        "ALTER TABLE ban_hang.thanh_toan DROP COLUMN so_tien",
        f"ALTER TABLE ban_hang.thanh_toan ADD COLUMN so_tien {kind}",
    )
    orders = foreign.open()

    with pytest.raises(ConfigurationError, match=r"payments\.columns\.captured: column 'so_tien'"):
        await orders.check()
    await orders.aclose()


async def test_names_that_look_like_sql_are_only_names(foreign):
    evil = 'don_gia"; DROP TABLE don_hang; --'
    orders = foreign.open(('"don_gia"', f"'{evil}'"))

    with pytest.raises(ConfigurationError, match="has no column"):
        await orders.check()
    await orders.aclose()
    opened = foreign.open()
    assert (await opened.get("A100")).id == "A100"
    await opened.aclose()


async def test_names_that_need_quotes_are_quoted(foreign):
    quoted = '"Mã ""đơn"" select"'
    foreign.run(f"ALTER TABLE ban_hang.don_hang RENAME COLUMN ma_don TO {quoted}")
    text = map_text(foreign.url)
    at = text.index("[orders.columns]")
    renamed = text[:at] + text[at:].replace('id = "ma_don"', "id = 'Mã \"đơn\" select'", 1)
    orders = open_map(foreign.url, foreign.folder / "orders.toml", renamed)

    assert (await orders.get("A100")).id == "A100"
    assert len(await orders.list_for_customer(OWNER, limit=9)) == 4
    await orders.aclose()


async def test_what_takes_too_long_is_broken_off_and_the_next_is_answered(foreign):
    database = ForeignDatabase(foreign.url, timeout_s=0.2)
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        if is_sqlite(foreign.url)
        else "SELECT pg_sleep(60)"
    )
    for _ in range(5):  # one more than there are connections
        with pytest.raises((Late, DBAPIError)):
            await database.run(lambda c: c.execute(sa.text(endless)))

    assert await database.run(lambda c: c.execute(sa.text("SELECT 1")).scalar_one()) == 1
    await database.aclose()


async def test_a_deadline_between_two_statements_counts_for_the_second(on_sqlite):
    database = ForeignDatabase(on_sqlite.url, timeout_s=0.1)
    long = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40000000)"
        " SELECT max(i) FROM n"
    )

    def read(connection):
        connection.execute(sa.text("SELECT 1")).all()
        time.sleep(0.2)
        connection.execute(sa.text(long)).all()

    began = time.monotonic()
    with pytest.raises(Late):
        await database.run(read)
    assert time.monotonic() - began < 1
    await database.aclose()


async def test_a_server_that_stands_still_is_left(on_postgres):
    async with line_to(on_postgres.url) as (url, line):
        orders = open_map(url, on_postgres.folder / "orders.toml", timeout_s=0.3)
        assert (await orders.get("A100")).id == "A100"

        line.stands_still = True
        with pytest.raises(OrdersUnavailable, match="it took too long"):
            await orders.get("A100")
        line.stands_still = False

        assert (await orders.get("A100")).id == "A100"
        await orders.aclose()


async def test_a_server_that_is_lost_before_the_end_of_the_transaction_is_left(on_postgres):
    async with line_to(on_postgres.url) as (url, line):
        database = ForeignDatabase(url, timeout_s=0.3)

        def read_all_and_lose_it(connection):
            connection.execute(sa.text("SELECT 1")).all()
            line.stands_still = line.is_mute = True

        asked = asyncio.ensure_future(database.run(read_all_and_lose_it))
        await asyncio.wait([asked], timeout=3)
        in_time = asked.done()
        line.cut()  # whoever still waits is let go
        with pytest.raises((Late, DBAPIError)):
            await asked
        await database.aclose()

    assert in_time


async def test_who_waited_too_long_for_a_connection_does_not_connect(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://reader@127.0.0.1:{silent.getsockname()[1]}/shop"
        database = ForeignDatabase(url, timeout_s=0.1)
        began = time.monotonic()
        asked = (database.run(lambda c: c.execute(sa.text("SELECT 1"))) for _ in range(20))
        told = await asyncio.gather(*asked, return_exceptions=True)
        took = time.monotonic() - began
    await database.aclose()

    assert {type(error) for error in told} == {Late}
    assert took < 3  # the driver's least patience with a connection is 2


async def test_a_locked_shop_is_unavailable(tmp_path):
    path = tmp_path / "foreign.db"
    url = f"sqlite:///{path}"
    make_shop(url)
    orders = open_map(url, tmp_path / "orders.toml", timeout_s=0.1)
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OrdersUnavailable):
            await orders.get("A100")
        with pytest.raises(OrdersUnavailable):
            await orders.check()

    assert await orders.get("A100") is None
    await orders.aclose()


async def test_a_database_that_is_not_there_is_unavailable_and_set_up_wrongly(tmp_path):
    orders = open_map(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "orders.toml")

    with pytest.raises(OrdersUnavailable):
        await orders.get("A100")
    with pytest.raises(ConfigurationError, match=r"SUPPORT_AGENT_ORDERS__URL: .* is no file"):
        await orders.check()
    await orders.aclose()
    assert not (tmp_path / "none.db").exists()


async def test_a_wrong_role_or_database_is_told_without_the_password(postgres, tmp_path):
    url = sa.make_url(postgres).set(username="nobody", password="geheim")  # noqa: S106 - of nobody
    orders = open_map(url.render_as_string(hide_password=False), tmp_path / "orders.toml")

    with pytest.raises(ConfigurationError, match="SUPPORT_AGENT_ORDERS__URL: ") as told:
        await orders.check()
    await orders.aclose()

    assert "geheim" not in str(told.value)


async def test_a_role_without_rights_is_told_at_the_start(on_postgres):
    on_postgres.run(
        "DROP ROLE IF EXISTS khong_quyen",
        "CREATE ROLE khong_quyen LOGIN",
        "GRANT USAGE ON SCHEMA ban_hang TO khong_quyen",
    )
    url = sa.make_url(on_postgres.url).set(username="khong_quyen")
    path = on_postgres.folder / "orders.toml"
    orders = open_map(url.render_as_string(hide_password=False), path)

    with pytest.raises(ConfigurationError, match="permission denied for table"):
        await orders.check()
    await orders.aclose()


async def test_blanks_of_a_padded_word_are_no_other_word(on_postgres):
    on_postgres.run("ALTER TABLE ban_hang.don_hang ALTER trang_thai TYPE char(20)")
    orders = on_postgres.open()

    assert (await orders.get("A100")).status is OrderStatus.PAID
    told = {remark.name: remark for remark in (await examine(orders)).remarks}
    await orders.aclose()

    assert told["orders.columns.status"].level == "ok"


async def test_a_role_that_may_write_one_column_is_told(on_postgres):
    on_postgres.run(
        "DROP ROLE IF EXISTS mot_cot",
        "CREATE ROLE mot_cot LOGIN",
        "GRANT USAGE ON SCHEMA ban_hang TO mot_cot",
        "GRANT SELECT ON ALL TABLES IN SCHEMA ban_hang TO mot_cot",
        "GRANT UPDATE (so_tien) ON ban_hang.thanh_toan TO mot_cot",
    )
    url = sa.make_url(on_postgres.url).set(username="mot_cot")
    path = on_postgres.folder / "orders.toml"
    orders = open_map(url.render_as_string(hide_password=False), path)
    told = {remark.name: remark for remark in (await examine(orders)).remarks}
    await orders.aclose()

    assert told["rights"].level == "fail"
    assert "may write to ban_hang.thanh_toan" in told["rights"].detail


async def test_a_server_that_goes_away_is_unavailable_and_comes_back(on_postgres):
    orders = on_postgres.open()
    assert (await orders.get("A100")).id == "A100"
    on_postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    assert (await orders.get("A100")).id == "A100"
    await orders.aclose()


@pytest.mark.parametrize("url", ["", "mysql://x/y", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_an_address_of_something_else_is_refused(url):
    with pytest.raises(ConfigurationError, match="SUPPORT_AGENT_ORDERS__URL: is not an address"):
        ForeignDatabase(url, timeout_s=1)


def test_the_contracts_order_is_not_overpaid_by_what_lines_lack():
    """What `total` is for: the same order without its lines would be money paid too much."""
    assert FULL.overpaid_minor == 0
    assert replace(FULL, lines=()).overpaid_minor == 400_000
    assert OVERPAID not in {line.id for line in FULL.lines}

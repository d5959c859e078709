"""`orders check`: everything that is wrong with a map or a shop, told before going live."""

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.testing.orders_contract import CUSTOMERS, FULL, ORDERS
from support_agent.testing.postgres import PostgresMissing, fresh_database, postgres_server
from tests.foreign_shop import changed, fill_shop, make_shop, map_text, run


class Foreign:
    """A shop of somebody else, and settings that name it."""

    def __init__(self, url: str, folder: Path, environment) -> None:
        self.url = url
        self.map = folder / "orders.toml"
        self._environment = environment
        make_shop(url)
        fill_shop(url, CUSTOMERS, ORDERS)
        self.say(map_text(url))
        self.at(url)

    def say(self, text: str) -> None:
        self.map.write_text(text, encoding="utf-8")

    def at(self, url: str) -> None:
        self._environment(ORDERS__KIND="mapped", ORDERS__MAP=str(self.map), ORDERS__URL=url)

    def run(self, *statements: str) -> None:
        run(self.url, *statements)


@pytest.fixture
def foreign(cli, tmp_path: Path, environment) -> Foreign:
    return Foreign(f"sqlite:///{tmp_path / 'foreign.db'}", tmp_path, environment)


@pytest.fixture(scope="module")
def server():
    try:
        with postgres_server() as url:
            yield url
    except PostgresMissing as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


def details(told, name: str) -> list[str]:
    return [check["detail"] for check in told["checks"] if check["name"] == name]


def failed(told) -> set[str]:
    return {check["name"] for check in told["checks"] if check["level"] == "fail"}


def test_a_shop_that_fits_is_fine_and_shows_orders_without_what_is_personal(cli, foreign):
    text = cli("orders", "check").stdout
    told = cli.json("orders", "check")

    assert (told["ok"], told["kind"], failed(told)) == (True, "mapped", set())
    assert details(told, "orders") == ["6 were read, each can be used"]
    assert len(told["samples"]) == 5
    full = next(sample for sample in told["samples"] if sample["id"] == FULL.id)
    assert (full["customer_id"], full["total_minor"]) == ("C…", FULL.total_minor)
    assert "OK    columns" in text
    assert "12,99" in text
    for personal in ("Khách Mẫu", "Phố Mẫu", "Giao giờ", "C-full", "C-list"):
        assert personal not in text
        assert personal not in str(told)


def test_missing_tables_and_columns_are_all_listed(cli, foreign):
    foreign.say(
        changed(
            foreign.url,
            ('"khach_hang"', '"khach"'),
            ('"trang_thai"', '"trang_thia"'),
            ('"so_tien"', '"tien"'),
        )
    )

    told = cli.json("orders", "check", code=1)

    assert failed(told) == {"customers.table", "orders.columns.status", "payments.columns.captured"}
    assert details(told, "orders.columns.status") == [
        "'don_hang' has no column 'trang_thia'; did you mean 'trang_thai'?"
    ]
    assert told["samples"] == []
    assert "FAIL  customers.table" in cli("orders", "check", code=1).stdout


def test_what_is_in_the_tables_is_counted(cli, foreign):
    foreign.run(
        "UPDATE don_hang SET trang_thai = 'Cho xu ly' WHERE ma_don IN ('A101', 'A102')",
        "UPDATE don_hang SET trang_thai = NULL WHERE ma_don = 'A103'",
        "UPDATE thanh_toan SET hinh_thuc = 'xu' WHERE ma_don = 'A100'",
        "UPDATE thanh_toan SET ma_giao_dich = 'pay-full-1' WHERE ma_don = 'a100'",
        "UPDATE chi_tiet_don SET ten_hang = NULL WHERE ma_don = 'A101'",
        "UPDATE chi_tiet_don SET dong = '9' WHERE ma_don = 'K-full/1' AND dong = '10'",
        "UPDATE chi_tiet_don SET don_gia = 7.5 WHERE ma_don = 'A103'",
        "DROP INDEX ix_0",
    )

    told = cli.json("orders", "check", code=1)

    assert details(told, "orders.columns.status") == ["not mapped: 'Cho xu ly' (2), NULL (1)"]
    assert details(told, "payments.columns.method") == ["not mapped: 'xu' (1)"]
    assert details(told, "lines.columns.name") == [
        "column 'ten_hang' is NULL in 1 rows, and may not be"
    ]
    doubles = details(told, "doubles")
    assert any("lines.columns.order_id, lines.columns.id: 1 values" in line for line in doubles)
    assert any("gateway_payment_id: 1 values" in line for line in doubles)
    assert any("don_hang.ma_khach" in line for line in details(told, "indexes"))
    unusable = details(told, "orders")
    assert any("such as 'A103': lines.columns.unit_price is not exact" in line for line in unusable)
    assert any("payments.columns.method" in line for line in unusable)


def test_a_total_that_is_not_mapped_is_only_worth_a_word(cli, foreign):
    foreign.say(changed(foreign.url, ('total = "tong_tien"', "")))

    told = cli.json("orders", "check")

    levels = {check["name"]: check["level"] for check in told["checks"]}
    assert (told["ok"], levels["total"]) == (True, "warn")


def test_payments_that_our_gateway_does_not_carry_are_worth_a_word(cli, foreign):
    foreign.run("UPDATE thanh_toan SET cong = 'momo'")

    told = cli.json("orders", "check")

    assert details(told, "gateway") == [
        "refunds at 'momo' are left to a person: PAYMENTS__KIND is 'ledger'"
    ]


def test_double_orders_are_found(cli, foreign):
    foreign.run("CREATE VIEW hai_lan AS SELECT * FROM don_hang UNION ALL SELECT * FROM don_hang")
    foreign.say(changed(foreign.url, ('"don_hang"', '"hai_lan"')))

    told = cli.json("orders", "check", code=1)

    assert "orders.columns.id: 6 values are there more than once" in details(told, "doubles")
    assert "such as" in details(told, "orders")[0]


def test_one_order_is_shown_as_the_product_reads_it(cli, foreign):
    told = cli.json("orders", "check", "--order", "A101")

    assert [sample["id"] for sample in told["samples"]] == ["A101"]
    assert told["samples"][0]["total_minor"] == 1_299
    assert cli.error("orders", "check", "--order", "a101", code=4)["code"] == "ORDER_NOT_FOUND"
    assert cli.error("orders", "check", "--order", "../x", code=4)["code"] == "ORDER_NOT_FOUND"


def test_an_order_that_cannot_be_used_says_why(cli, foreign):
    foreign.run("UPDATE chi_tiet_don SET don_gia = NULL WHERE ma_don = 'A100'")

    error = cli.error("orders", "check", "--order", "A100", code=6)

    assert "lines.columns.unit_price is NULL" in error["message"]


@pytest.mark.parametrize(
    ("settings", "code", "problem"),
    [
        ({"ORDERS__URL": "postgresql://reader@127.0.0.1:1/shop"}, 6, "did not answer"),
        ({"ORDERS__URL": "sqlite:///none.db"}, 2, "is no file"),
        ({"ORDERS__URL": "mysql://reader@127.0.0.1/shop"}, 2, "is not an address"),
        ({"ORDERS__URL": ""}, 2, "is needed when ORDERS__KIND=mapped"),
        ({"ORDERS__MAP": ""}, 2, "is needed when ORDERS__KIND=mapped"),
        ({"ORDERS__MAP": "none.toml"}, 2, "cannot be read"),
    ],
)
def test_what_cannot_be_looked_at_has_a_code_of_its_own(
    cli, foreign, environment, settings, code, problem
):
    environment(**settings)

    assert problem in cli.error("orders", "check", code=code)["message"]


def test_a_role_that_may_write_is_a_problem(cli, tmp_path, environment, server):
    url = fresh_database(server)
    foreign = Foreign(url, tmp_path, environment)
    run(
        url,
        *(f"DROP ROLE IF EXISTS {role}" for role in ("cli_reader", "cli_writer")),
        *(f"CREATE ROLE {role} LOGIN" for role in ("cli_reader", "cli_writer")),
        "GRANT USAGE ON SCHEMA ban_hang TO cli_reader, cli_writer",
        "GRANT SELECT ON ALL TABLES IN SCHEMA ban_hang TO cli_reader, cli_writer",
        "GRANT UPDATE ON ban_hang.don_hang TO cli_writer",
    )

    def asked_by(role: str, code: int) -> list[str]:
        by = sa.make_url(url).set(username=role)
        foreign.at(by.render_as_string(hide_password=False))
        return details(cli.json("orders", "check", code=code), "rights")

    try:
        assert asked_by("cli_reader", 0) == ["the role may only read"]
        assert "may write to ban_hang.don_hang;" in asked_by("cli_writer", 1)[0]
        assert "is a superuser" in asked_by("postgres", 1)[0]
    finally:
        run(url, "DROP OWNED BY cli_reader, cli_writer", "DROP ROLE cli_reader, cli_writer")


def test_the_sample_shop_has_nothing_to_map(cli):
    told = cli.json("orders", "check")

    assert (told["ok"], told["kind"], told["samples"]) == (True, "sql", [])
    assert "no map to check" in told["checks"][0]["detail"]
    assert cli.json("orders", "check", "--order", "A100")["samples"][0]["total_minor"] == 250_000


def test_other_commands_do_not_start_over_a_map_that_does_not_fit(cli, foreign, environment):
    environment(PAYMENTS__LEDGER_IS_BOOKS_ONLY="true")
    assert cli("approvals", "list").exit_code == 0
    foreign.say(changed(foreign.url, ('"trang_thai"', '"trang_thia"')))

    error = cli.error("approvals", "list", code=2)

    assert "orders.columns.status" in error["message"]
    assert "orders check" in error["message"]


def test_the_sample_shop_is_not_filled_into_a_shop_of_somebody_else(cli, foreign):
    with cli.untouched():
        error = cli.error("db", "seed", code=2)

    assert "SUPPORT_AGENT_ORDERS__KIND: is 'mapped'" in error["message"]


def test_an_upgrade_leaves_the_shops_database_as_it_was(cli, foreign):
    before = schema_of(foreign.url)
    assert cli("db", "upgrade").exit_code == 0

    assert schema_of(foreign.url) == before


@pytest.mark.parametrize("spelling", ["foreign.db", "x/../foreign.db"])
def test_an_upgrade_of_the_shops_own_database_is_refused(
    cli, foreign, environment, tmp_path, spelling
):
    before = schema_of(foreign.url)
    environment(DATABASE__URL=f"sqlite:///{tmp_path}/{spelling}")

    error = cli.error("db", "upgrade", code=2)

    assert "SUPPORT_AGENT_DATABASE__URL: is the shop's own database" in error["message"]
    assert schema_of(foreign.url) == before


def schema_of(url: str) -> list[tuple[str, str]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name")
        found = [(name, sql) for name, sql in rows]
    engine.dispose()
    return found


def test_doctor_names_where_orders_are(cli, foreign, environment):
    environment(PAYMENTS__LEDGER_IS_BOOKS_ONLY="true")

    told = cli.json("doctor")

    assert details(told, "orders") == [f"mapped, by {foreign.map}"]
    assert "foreign.db" not in str(told)


def test_hostile_texts_of_the_shop_reach_no_terminal(cli, foreign):
    evil = replace(ORDERS[1], id="A\x1b[2J9", payments=())
    fill_shop(foreign.url, [], [evil])
    foreign.run("UPDATE don_hang SET trang_thai = 'x\u202e' WHERE ma_don = 'A100'")

    shown = cli("orders", "check", code=1).stdout

    assert "\x1b" not in shown
    assert "\u202e" not in shown

"""From question to record over a shop's own tables, which nobody changes: SQLite and PostgreSQL."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError, PaymentDeclined
from support_agent.domain.orders import (
    Customer,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RequestStatus, attempt_key
from support_agent.services.audit import verify
from support_agent.services.gateway_calls import instruction_of
from tests.foreign_shop import (
    TABLES,
    changed,
    engine_of,
    fill_shop,
    is_sqlite,
    make_shop,
    map_text,
    run,
)
from tests.kit import open_shop, sample, settings_for

CUSTOMER = "KH-7"


def an_order(order_id: str, price: int, **fields: object) -> Order:
    line = OrderLine(
        id="1", name="Áo", quantity=1, unit_price_minor=price, discount_minor=0, category="clothing"
    )
    payment = Payment(
        id="1",
        gateway="ledger",
        account="shop",
        gateway_payment_id=f"GD-{order_id}",
        method=PaymentMethod.CARD,
        captured_minor=price,
        currency="VND",
    )
    order = Order(
        id=order_id,
        customer_id=CUSTOMER,
        status=OrderStatus.DELIVERED,
        currency="VND",
        placed_at=datetime(2026, 9, 28, 3, 0, tzinfo=UTC),
        lines=(line,),
        payments=(payment,),
        delivered_at=date(2026, 10, 1),
    )
    return replace(order, **fields)


ORDERS = (
    an_order("DH-1", 250_000),
    an_order("DH-2", 150_000),
    an_order("DH-3", 150_000, status=OrderStatus.UNKNOWN),
    an_order("DH-4", 150_000),
    an_order("DH-9", 150_000, customer_id="KH-8"),
)


class Own:
    """Our database, and the shop's: beside it, or on PostgreSQL in a schema of the same one."""

    def __init__(self, ours: str, folder: Path) -> None:
        self.ours = ours
        self.theirs = f"sqlite:///{folder / 'foreign.db'}" if is_sqlite(ours) else ours
        self.map = folder / "orders.toml"
        self.map.write_text(map_text(self.theirs), encoding="utf-8")
        make_shop(self.theirs)
        names = (CUSTOMER, "KH-8")
        fill_shop(self.theirs, [Customer(id=name, name="Khách Mẫu") for name in names], ORDERS)

    def open(self, *, books_only: bool = True):
        return open_shop(self.ours, **self.sections(books_only=books_only))

    def sections(self, *, books_only: bool = True):
        return {
            "orders": {"kind": "mapped", "map": self.map, "url": self.theirs},
            "payments": {"ledger_is_books_only": books_only},
        }

    def change(self, statement: str) -> None:
        """Somebody at the shop does this."""
        where = "" if is_sqlite(self.theirs) else "ban_hang."
        run(self.theirs, statement.replace("ban_hang.", where))

    def rows(self) -> list[list[tuple[object, ...]]]:
        schema = None if is_sqlite(self.theirs) else "ban_hang"
        engine = engine_of(self.theirs)
        with engine.connect() as connection:
            found = [
                sorted(
                    map(
                        tuple,
                        connection.execute(
                            sa.select(sa.text("*")).select_from(sa.table(name, schema=schema))
                        ),
                    ),
                    key=repr,
                )
                for name in TABLES
            ]
        engine.dispose()
        return found


@pytest.fixture
def own(each_shop_url: str, tmp_path: Path) -> Own:
    return Own(each_shop_url, tmp_path)


async def test_an_order_is_quoted_filed_approved_and_recorded_once(own):
    before = own.rows()
    async with own.open() as shop:
        quoted = await shop.quote("DH-1", customer=CUSTOMER)
        assert "250.000\u00a0₫" in quoted.answer
        filed = await shop.answer(quoted, "đồng ý", customer=CUSTOMER)
        (request,) = filed.requests
        assert (request.status, request.required_level) == (RequestStatus.PENDING_APPROVAL, 1)

        by = await shop.approver("lan")
        await shop.container.approvals().approve(request.id, by=by)
        paid = await shop.container.payouts().pay(request.id)
        again = await shop.container.payouts().pay(request.id)

        assert (paid.status, again.status) == (RequestStatus.REFUNDED, RequestStatus.REFUNDED)
        told = await shop.quote("DH-1", customer=CUSTOMER)
        assert Reason.ALREADY_REFUNDED in told.steps[0].calls[0].observation.content
        assert await shop.read(lambda tx: tx.books.check()) == ()
        assert (await shop.read(lambda tx: verify(tx, shop.container.keys()))).problems == ()
    assert own.rows() == before


async def test_a_small_order_is_recorded_after_a_yes_and_says_so(own):
    async with own.open() as shop:
        quoted = await shop.quote("DH-2", customer=CUSTOMER)
        answered = await shop.answer(quoted, customer=CUSTOMER)

    assert answered.requests[0].status is RequestStatus.REFUNDED
    assert "Đã ghi sổ" in answered.answer  # recorded: this gateway moves no money


async def test_more_than_was_captured_is_never_recorded(own):
    async with own.open() as shop:
        request = await shop.filed("DH-2", customer=CUSTOMER)
        paid = instruction_of(request)
        gateway = shop.container.gateway()
        state = await gateway.payment_state(paid.payment)
        with pytest.raises(PaymentDeclined, match="amount_above_captured"):
            await gateway.refund(replace(paid, key="another", amount_minor=1))
        again = await gateway.refund(replace(paid, key=attempt_key(request.id, 1)))

    assert again.amount_minor == 150_000  # the same one
    assert (state.captured_minor, state.refunded_minor) == (150_000, 150_000)


async def test_only_a_ledger_that_keeps_the_books_knows_payments_from_them(own):
    async with own.open() as shop:
        request = await shop.filed("DH-1", customer=CUSTOMER)
        database = shop.container.database()
        payment = instruction_of(request).payment

        with pytest.raises(PaymentDeclined, match="payment_unknown"):
            await LedgerGateway(database).payment_state(payment)
        with pytest.raises(PaymentDeclined, match="payment_unknown"):
            await LedgerGateway(database, books_only=True).payment_state(
                replace(payment, gateway_payment_id="GD-DH-0")
            )


async def test_a_status_that_is_not_mapped_waits_for_a_person(own):
    async with own.open() as shop:
        request = await shop.filed("DH-3", customer=CUSTOMER)

    assert request.status is RequestStatus.PENDING_APPROVAL


async def test_anothers_order_is_as_if_it_were_missing(own):
    async with own.open() as shop:
        theirs = await shop.quote("DH-9", customer=CUSTOMER)
        missing = await shop.quote("DH-0", customer=CUSTOMER)

    observed = [turn.steps[0].calls[0].observation for turn in (theirs, missing)]
    assert [one.error_code for one in observed] == ["ORDER_NOT_FOUND"] * 2
    assert observed[0].content.replace("DH-9", "DH-0") == observed[1].content


async def test_an_order_that_cannot_be_used_ends_no_run(own):
    own.change("UPDATE ban_hang.chi_tiet_don SET don_gia = 150000.5 WHERE ma_don = 'DH-4'")
    async with own.open() as shop:
        result = await shop.quote("DH-4", customer=CUSTOMER)

    assert result.quotes == ()
    assert result.steps[0].calls[0].observation.error_code == "ORDERS_UNAVAILABLE"
    assert result.answer


async def test_a_voucher_that_is_a_line_gives_back_no_more_than_was_paid(own):
    line = (
        "INSERT INTO ban_hang.chi_tiet_don SELECT ma_don, '{}', 9, ten_hang, so_luong, {}, giam_gia,"
        " giam_khuyen_mai, nhom_hang, loai, duoc_tra, da_nhan_lai, giao_luc, giao_ngay, ma_bien_the,"
        " la_qua_tang, mau, co FROM ban_hang.chi_tiet_don WHERE ma_don = 'DH-2' AND dong = '1'"
    )
    own.change(line.format("2", 100_000))
    own.change(line.format("voucher", -50_000))
    own.change("UPDATE ban_hang.don_hang SET tong_tien = 200000 WHERE ma_don = 'DH-2'")
    own.change("UPDATE ban_hang.thanh_toan SET so_tien = 200000 WHERE ma_don = 'DH-2'")
    one = [{"line_id": "1", "quantity": 1}]
    async with own.open() as shop:  # 150,000 of 250,000, of which 200,000 were paid
        quoted = await shop.quote("DH-2", customer=CUSTOMER, lines=one)

    assert quoted.quotes == ()
    assert quoted.steps[0].calls[0].observation.error_code == "ORDERS_UNAVAILABLE"


async def test_worse_at_payout_than_at_approval_goes_back_to_a_person(own):
    async with own.open() as shop:
        request = await shop.filed("DH-1", customer=CUSTOMER)
        by = await shop.approver("lan")
        await shop.container.approvals().approve(request.id, by=by)
        own.change("UPDATE ban_hang.thanh_toan SET khieu_nai = true WHERE ma_don = 'DH-1'")

        paid = await shop.container.payouts().pay(request.id)

    assert paid.status is RequestStatus.PENDING_APPROVAL


async def test_a_ledger_that_plays_at_paying_does_not_start_over_real_orders(own):
    with pytest.raises(ConfigurationError, match="LEDGER_IS_BOOKS_ONLY=true"):
        async with own.open(books_only=False):
            pass


async def test_a_map_that_does_not_fit_serves_nothing(own):
    own.map.write_text(changed(own.theirs, ('"trang_thai"', '"trang_thia"')), encoding="utf-8")

    with pytest.raises(ConfigurationError, match="did you mean 'trang_thai'"):
        async with own.open():
            pass


@pytest.mark.parametrize("missing", ["map", "url"])
async def test_what_is_not_set_is_named(own, missing):
    sections = own.sections()
    del sections["orders"][missing]

    with pytest.raises(ConfigurationError, match=f"SUPPORT_AGENT_ORDERS__{missing.upper()}: is ne"):
        async with open_container(settings_for(own.ours, **sections)):
            pass


async def test_a_shop_that_is_away_stops_no_queue(own):
    sections = own.sections()
    sections["orders"]["url"] = "postgresql://reader@127.0.0.1:1/shop"
    async with open_container(settings_for(own.ours, **sections)) as container:
        assert await container.database().read(lambda tx: tx.books.check()) == ()


async def test_the_sample_shop_is_never_filled_into_anothers(own):
    async with own.open() as shop:
        with pytest.raises(ConfigurationError, match="ORDERS__KIND: is 'mapped'"):
            await shop.container.seeding().run(sample())

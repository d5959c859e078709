"""What every OrderRepository must do, as checks for any test framework.

Put ORDERS and CUSTOMERS where your class reads from (a test database of your shop, a stub of your
API), then run all of it, or each check by itself. With pytest-asyncio, or by asyncio.run:

    from support_agent.testing import check_orders

    async def test_our_orders_keep_the_contract():
        fill_the_test_shop(CUSTOMERS, ORDERS)
        await check_orders(ShopOrders())

    @pytest.mark.parametrize("check", ORDERS_CHECKS, ids=lambda check: check.__name__)
    async def test_our_orders(check):
        await check(ShopOrders())

What is broken raises ContractBroken, an AssertionError that says which rule.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType

from support_agent.domain.orders import (
    Address,
    Customer,
    LineKind,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
    Promotion,
)
from support_agent.ports.orders import OrderRepository
from support_agent.testing.contract_check import ContractBroken, must

Check = Callable[[OrderRepository], Awaitable[None]]

_PLACED = datetime(2026, 9, 20, 3, 4, 5, tzinfo=UTC)


def _order(order_id: str, customer_id: str, *, day: int, price: int, currency: str) -> Order:
    line = OrderLine(
        id="1",
        name="Áo thun",
        quantity=1,
        unit_price_minor=price,
        discount_minor=0,
        category="clothing",
    )
    payment = Payment(
        id="P1",
        gateway="ledger",
        account="shop",
        gateway_payment_id=f"pay-{order_id}-{currency}",
        method=PaymentMethod.CARD,
        captured_minor=price,
        currency=currency,
    )
    return Order(
        id=order_id,
        customer_id=customer_id,
        status=OrderStatus.PAID,
        currency=currency,
        placed_at=_PLACED + timedelta(days=day),
        lines=(line,),
        payments=(payment,),
    )


# Every field filled, an instant and a mere day of delivery side by side, lines not in order of id.
FULL = Order(
    id="K-full/1",
    customer_id="C-full",
    status=OrderStatus.PARTIALLY_DELIVERED,
    currency="VND",
    placed_at=_PLACED,
    lines=(
        OrderLine(
            id="9",
            name="Áo dài lụa — size <M>",
            quantity=3,
            unit_price_minor=120_000,
            discount_minor=10_000,
            category="clothing",
            returnable=False,
            delivered_at=date(2026, 10, 1),
            received_units=2,
            promotion_minor=6_000,
            variant_id="V-9",
            options=MappingProxyType({"màu": "đỏ", "size": "M"}),
        ),
        OrderLine(
            id="2",
            name="Nón lá",
            quantity=1,
            unit_price_minor=50_000,
            discount_minor=0,
            category="hats",
            delivered_at=datetime(2026, 9, 30, 18, 30, 0, 123456, tzinfo=UTC),
            received_units=0,  # counted, and nothing came back: not the same as not counted
        ),
        OrderLine(
            id="10",
            name="Khăn rằn",
            quantity=2,
            unit_price_minor=0,
            discount_minor=0,
            category="gifts",
        ),
        OrderLine(
            id="1",
            name="Phí vận chuyển",
            quantity=1,
            unit_price_minor=30_000,
            discount_minor=0,
            category="shipping",
            kind=LineKind.SHIPPING,
        ),
    ),
    payments=(
        Payment(
            id="P2",
            gateway="ledger",
            account="shop",
            gateway_payment_id="pay-full-2",
            method=PaymentMethod.GIFT_CARD,
            captured_minor=100_000,
            currency="VND",
        ),
        Payment(
            id="P1",
            gateway="ledger",
            account="shop",
            gateway_payment_id="pay-full-1",
            method=PaymentMethod.CARD,
            captured_minor=300_000,
            currency="VND",
            disputed=True,
        ),
    ),
    delivered_at=date(2026, 10, 2),
    shipping_address=Address(recipient="Khách Mẫu", phone="000", street="1 Phố Mẫu", city="Huế"),
    note="Giao giờ hành chính",
    promotion=Promotion(id="PROMO-1", threshold_minor=300_000, gift_line_ids=("10",)),
)

CUSTOMERS: tuple[Customer, ...] = (
    Customer(id="C-full", name="Khách Mẫu", language="vi"),
    Customer(id="C-list", name="Sample Customer"),
    Customer(id="c-list", name="Somebody Else"),
)
ORDERS: tuple[Order, ...] = (
    FULL,
    _order("A100", "C-list", day=2, price=250_000, currency="VND"),
    _order("a100", "c-list", day=9, price=1_000, currency="VND"),
    _order("A101", "C-list", day=3, price=1_299, currency="USD"),
    _order("A102", "C-list", day=1, price=1_001, currency="KWD"),
    _order("A103", "C-list", day=3, price=7, currency="VND"),
)


async def missing_is_none(orders: OrderRepository) -> None:
    """What does not exist is None or empty, never an error."""
    must(await orders.get("NO-SUCH-ORDER") is None, "a missing order is None")
    must(await orders.find_customer("NO-SUCH-CUSTOMER") is None, "a missing customer is None")
    listed = await orders.list_for_customer("NO-SUCH-CUSTOMER", limit=5)
    must(listed == (), "nobody's orders are an empty list")


async def ids_are_exact(orders: OrderRepository) -> None:
    """Ids are compared byte for byte: no case folding, trimming, wildcard or normalisation."""
    upper, lower = await orders.get("A100"), await orders.get("a100")
    must(upper is not None and upper.customer_id == "C-list", "A100 is A100")
    must(lower is not None and lower.customer_id == "c-list", "a100 is another order")
    near = (
        " A100",
        "A100 ",
        "A10",
        "A1000",
        "A10_",
        "A%",
        "",
        "A100\n",
        "A100\0",
        "Ａ100",
        "\ud800",
    )
    for order_id in near:
        must(await orders.get(order_id) is None, f"{order_id!r} is not A100")
    must(await orders.find_customer("C-LIST") is None, "customers are compared exactly")
    must(await orders.find_customer("C-list\0") is None, "customers are compared exactly")
    must(await orders.list_for_customer("C-LIST", limit=5) == (), "owners are compared exactly")


async def order_comes_back_whole(orders: OrderRepository) -> None:
    """Every field as the shop has it: owner, days without an hour, lines in the shop's order."""
    found = await orders.get(FULL.id)
    must(found == FULL, f"the order is unchanged: {found}")
    delivered = [] if found is None else [type(line.delivered_at) for line in found.lines]
    must(
        delivered == [date, datetime, type(None), type(None)],
        "a day stays a day, an instant an instant",
    )


async def rules_find_what_they_judge_by(orders: OrderRepository) -> None:
    """Kinds of lines, counted returns and the promotion: a refund is judged by them."""
    found = await orders.get(FULL.id)
    lines = {} if found is None else {line.id: line for line in found.lines}
    must(set(lines) == {"9", "2", "10", "1"}, "all lines are there")
    kinds = {id_ for id_, line in lines.items() if line.kind is LineKind.SHIPPING}
    must(kinds == {"1"}, "shipping is told from goods")
    received = {id_: line.received_units for id_, line in lines.items()}
    wanted = {"9": 2, "2": 0, "10": None, "1": None}
    must(received == wanted, f"none received is not the same as not counted: {received}")
    must(lines["9"].promotion_minor == 6_000, "the promotion's part of the discount is known")
    must(found is not None and found.promotion == FULL.promotion, "so is the promotion")


async def list_is_newest_first(orders: OrderRepository) -> None:
    """One customer's orders, newest first, whole, at most as many as asked for."""
    listed = await orders.list_for_customer("C-list", limit=10)
    placed = [order.placed_at for order in listed]
    must({order.id for order in listed} == {"A100", "A101", "A102", "A103"}, "all and only theirs")
    must(placed == sorted(placed, reverse=True), "newest first")
    must(all(order in ORDERS for order in listed), "listed orders are whole")
    for limit in (1, 2):
        first = await orders.list_for_customer("C-list", limit=limit)
        must(first == listed[:limit], f"the newest {limit}")


async def money_is_in_minor_units(orders: OrderRepository) -> None:
    """Amounts are whole minor units of the order's currency."""
    wanted = {"A100": (250_000, "VND"), "A101": (1_299, "USD"), "A102": (1_001, "KWD")}
    for order_id, amount in wanted.items():
        order = await orders.get(order_id)
        must(order is not None, f"{order_id} is there")
        if order is not None:
            must((order.total_minor, order.currency) == amount, f"{order_id} costs {amount}")
            must(order.payments[0].captured_minor == amount[0], f"{order_id} was paid {amount}")


async def amounts_are_whole_numbers(orders: OrderRepository) -> None:
    """Amounts and units are int, flags bool, moments aware: 1.0 and True equal 1 and are not it."""
    for order in ORDERS:
        found = await orders.get(order.id)
        must(found is not None, f"{order.id} is there")
        if found is not None:
            numbers = [payment.captured_minor for payment in found.payments]
            flags = [payment.disputed for payment in found.payments]
            if found.promotion is not None:
                numbers.append(found.promotion.threshold_minor)
            for line in found.lines:
                numbers += [line.quantity, line.unit_price_minor, line.discount_minor]
                numbers += [line.promotion_minor, line.received_units or 0]
                flags.append(line.returnable)
            must(all(type(flag) is bool for flag in flags), f"flags of {order.id} are bool")
            odd = [number for number in numbers if type(number) is not int]
            must(not odd, f"amounts and units of {order.id} are int, not {odd}")
            must(found.placed_at.utcoffset() is not None, f"placed_at of {order.id} has a zone")


async def none_are_none(orders: OrderRepository) -> None:
    """A list of at most none is empty, never all of them."""
    for limit in (0, -1):
        listed = await orders.list_for_customer("C-list", limit=limit)
        must(listed == (), f"a list of at most {limit} is empty")


async def customers_come_back(orders: OrderRepository) -> None:
    """A customer as the shop has them, with a language or without one."""
    for customer in CUSTOMERS:
        must(await orders.find_customer(customer.id) == customer, f"{customer.id} is unchanged")


CHECKS: tuple[Check, ...] = (
    missing_is_none,
    ids_are_exact,
    order_comes_back_whole,
    rules_find_what_they_judge_by,
    list_is_newest_first,
    money_is_in_minor_units,
    amounts_are_whole_numbers,
    none_are_none,
    customers_come_back,
)


async def check_orders(orders: OrderRepository) -> None:
    """Every check, one after another, on a repository that holds ORDERS and CUSTOMERS.

    Raises:
        ContractBroken: at the first rule that it does not keep; names the check.
    """
    for check in CHECKS:
        try:
            await check(orders)
        except ContractBroken as error:
            raise ContractBroken(f"{check.__name__}: {error}") from error

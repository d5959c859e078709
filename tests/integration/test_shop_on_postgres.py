"""The shop and the ledger gateway on PostgreSQL, where transactions really run side by side."""

from itertools import count

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.testing.builders import make_line, make_order, make_payment
from support_agent.testing.gateway_backstage import Backstage, CapturedPayment, Needs
from support_agent.testing.gateway_contract import checks_for
from support_agent.testing.orders_contract import CHECKS as ORDERS_CHECKS
from support_agent.testing.orders_contract import CUSTOMERS, ORDERS


@pytest.fixture
async def database(postgres_url, keys):
    database = SqlDatabase(postgres_url, keys, readers=8)
    yield database
    await database.aclose()


async def test_orders_keep_the_contract(database):
    orders = SqlOrders(database)
    assert await orders.put_customers(CUSTOMERS) == len(CUSTOMERS)
    assert await orders.put_orders(ORDERS) == len(ORDERS)
    assert await orders.put_orders(ORDERS) == 0

    for check in ORDERS_CHECKS:
        await check(orders)


# Nothing is between the shop and its ledger, so there nothing is lost, and nobody else pays.
GATEWAY_CHECKS = checks_for(frozenset({Needs.LOSE, Needs.OUTSIDE, Needs.FAIL}))


@pytest.mark.parametrize("check", GATEWAY_CHECKS, ids=lambda check: check.__name__)
async def test_the_ledger_gateway_keeps_the_contract(database, check):
    numbers = count(1)
    shop = SqlOrders(database)

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        order_id = f"S{next(numbers)}"
        paid = make_payment("P1", captured_minor, order_id=order_id, currency=currency)
        lines = (make_line("1", captured_minor),)
        await shop.put_orders((make_order(lines, (paid,), id=order_id, currency=currency),))
        return CapturedPayment(
            gateway=paid.gateway,
            account=paid.account,
            gateway_payment_id=paid.gateway_payment_id,
            captured_minor=captured_minor,
            currency=currency,
        )

    await check(LedgerGateway(database, page=3), Backstage(sell=sell))

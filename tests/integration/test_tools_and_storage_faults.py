"""A storage fault inside a tool, over when the next transaction comes: it is no answer to a call."""

from collections.abc import Callable
from typing import Any

from support_agent.agent.turns import Incoming
from support_agent.domain.errors import DatabaseUnavailable, OrdersUnavailable
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter
from tests.kit import Shop, binding_of


def failing_once(work: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Does its work and then fails, the first time: what it wrote is rolled back."""
    failures = [error]

    def both(*given: Any, **named: Any) -> Any:
        done = work(*given, **named)
        if failures:
            raise failures.pop()
        return done

    return both


async def agreed(shop: Shop) -> str:
    """The customer said yes to a quote, and nobody has answered it yet; the conversation."""
    quoted = await shop.quote("A102")
    shop.model.play(
        {"tool": "request_refund", "arguments": {"quote_id": quoted.quotes[0].id}},
        {"answer": "Xong."},
    )
    await shop.container.agent().post(
        Incoming(text="đồng ý", binding=binding_of("C001"), conversation_id=quoted.conversation_id)
    )
    return quoted.conversation_id


async def test_the_call_is_run_again_and_the_customer_hears_of_no_failure(shop, monkeypatch):
    conversation = await agreed(shop)
    tool = shop.container.tool_runner().tool("request_refund")
    fault = DatabaseUnavailable("canceling statement due to lock timeout")
    monkeypatch.setattr(tool, "apply", failing_once(tool.apply, fault))

    assert await shop.container.agent().work(conversation) is None

    await assert_refunded(shop, conversation)


async def test_orders_in_the_same_database_wait_for_it_with_the_rest(shop, monkeypatch):
    conversation = await agreed(shop)
    orders = shop.container.orders()
    fault = OrdersUnavailable("the shop's orders cannot be read")
    fault.__cause__ = DatabaseUnavailable("terminating connection")
    get, failures = orders.get, [fault]

    async def get_later(order_id: str) -> Any:
        if failures:
            raise failures.pop()
        return await get(order_id)

    monkeypatch.setattr(orders, "get", get_later)

    assert await shop.container.agent().work(conversation) is None

    assert not failures
    await assert_refunded(shop, conversation)


async def test_orders_that_are_elsewhere_and_do_not_answer_are_an_answer_to_the_call(
    shop, monkeypatch
):
    conversation = await agreed(shop)
    tool = shop.container.tool_runner().tool("request_refund")
    fault = OrdersUnavailable("HTTP 503")
    monkeypatch.setattr(tool, "apply", failing_once(tool.apply, fault))

    assert await shop.container.agent().work(conversation) is None

    assert await requests(shop) == ()
    steps = await shop.read(lambda tx: tx.runs.steps_of_conversation(conversation))
    assert steps[-2].calls[0].observation.error_code == "ORDERS_UNAVAILABLE"


async def assert_refunded(shop: Shop, conversation: str) -> None:
    request, *others = await requests(shop)
    assert not others
    assert request.status is RequestStatus.REFUNDED
    steps = await shop.read(lambda tx: tx.runs.steps_of_conversation(conversation))
    assert [call.observation.ok for step in steps for call in step.calls] == [True, True]


async def requests(shop: Shop) -> Any:
    mine = RequestFilter(order_id="A102")
    return (await shop.read(lambda tx: tx.requests.list(mine, limit=5))).data

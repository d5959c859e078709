"""A shop whose orders are behind its own API: talk may be a moment old, money never is."""

import pytest

from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.refunds import RequestStatus
from tests.kit import open_shop, sample, settings_for
from tests.shop_api import SECRET, Reply, shop_api, write_map

LOOK = {"tool": "lookup_order", "arguments": {"order_id": "A100"}}
LIST = {"tool": "list_orders", "arguments": {}}
QUOTE = {"tool": "quote_refund", "arguments": {"order_id": "A100"}}
DONE = {"answer": "Xong."}
BOOKS = {"ledger_is_books_only": True}


@pytest.fixture(scope="module")
def api():
    shop = sample()
    with shop_api(shop.orders, shop.customers) as served:
        yield served


@pytest.fixture
def told(api, tmp_path):
    """Where the orders are, for settings; the API as it was."""
    before = {**api.orders}
    api.asked.clear()
    yield {"kind": "http", "map": write_map(tmp_path / "orders.toml", api), "auth": SECRET}
    api.orders = before
    api.replies.clear()


@pytest.fixture
async def shop(shop_url, told):
    async with open_shop(shop_url, orders=told, payments=BOOKS) as opened:
        yield opened


def asked_since(api, before, path="/api/orders/A100"):
    return api.paths[before:].count(path)


def seen(result):
    return [call.observation for step in result.steps for call in step.calls]


async def test_talk_asks_once_and_every_step_of_money_asks_anew(api, shop):
    first = await shop.say("đơn A100 đâu rồi?", LOOK, DONE)
    for _ in range(2):
        again = await shop.say("còn gì nữa không?", LOOK, DONE, conversation=first.conversation_id)
        assert seen(again)[0].ok
    assert asked_since(api, 0) == 1

    quoted = await shop.quote("A100", conversation=first.conversation_id)
    assert asked_since(api, 0) == 2
    (filed,) = (await shop.answer(quoted)).requests
    assert filed.status is RequestStatus.PENDING_APPROVAL
    assert asked_since(api, 0) == 3

    approvals = shop.container.approvals()
    lan = await shop.approver()
    before = len(api.paths)
    await approvals.brief(filed.id)
    assert asked_since(api, before) == 1
    before = len(api.paths)
    await approvals.approve(filed.id, by=lan)
    assert asked_since(api, before) == 1
    before = len(api.paths)
    await shop.container.payouts().pay(filed.id)
    assert asked_since(api, before) == 1
    assert (await shop.request(filed.id)).status is RequestStatus.REFUNDED


async def test_a_list_is_talk_and_who_somebody_is_is_asked_each_time(api, shop):
    first = await shop.say("tôi có đơn nào?", LIST, DONE)
    await shop.say("liệt kê lại", LIST, DONE, conversation=first.conversation_id)
    await shop.say("một cuộc khác", DONE)

    assert asked_since(api, 0, "/api/orders?customer=C001&limit=20") == 1
    assert asked_since(api, 0, "/api/customers/C001") == 2  # once a conversation that begins


async def test_what_talk_read_a_moment_ago_decides_nothing(api, shop):
    """Told as delivered, then cancelled at the shop: the quote sees it, though talk does not."""
    first = await shop.say("đơn A100?", LOOK, DONE)
    api.orders["A100"] = {**api.orders["A100"], "state": "void"}

    told = await shop.say("đơn A100?", LOOK, DONE, conversation=first.conversation_id)
    quoted = await shop.say("hoàn tiền", QUOTE, DONE, conversation=first.conversation_id)

    assert '"DELIVERED"' in seen(told)[0].content
    assert not quoted.quotes
    assert seen(quoted)[0].error_code != "ORDERS_UNAVAILABLE"


async def test_what_is_worse_at_filing_than_at_quoting_is_not_filed(api, shop):
    quoted = await shop.quote("A100")
    api.orders["A100"] = {**api.orders["A100"], "state": "void"}

    filed = await shop.answer(quoted)

    assert not filed.requests


async def test_a_cache_of_no_seconds_is_none(api, shop_url, told):
    async with open_shop(shop_url, orders={**told, "cache_seconds": 0}, payments=BOOKS) as shop:
        first = await shop.say("đơn A100?", LOOK, DONE)
        await shop.say("đơn A100?", LOOK, DONE, conversation=first.conversation_id)

        assert shop.container.talk_lookup() is not shop.container.lookup()
    assert asked_since(api, 0) == 2


async def test_somebody_elses_order_is_as_if_it_did_not_exist(api, shop):
    foreign = {"tool": "lookup_order", "arguments": {"order_id": "A200"}}
    missing = {"tool": "lookup_order", "arguments": {"order_id": "A999"}}
    path = {"tool": "lookup_order", "arguments": {"order_id": "../customers/C001"}}
    result = await shop.say("đơn A200?", foreign, missing, path, DONE)

    codes = [observation.error_code for observation in seen(result)]
    assert codes == ["ORDER_NOT_FOUND"] * 3
    assert not [asked for asked in api.paths if ".." in asked]


async def test_a_shop_that_is_away_ends_no_run(api, shop):
    first = await shop.say("chào", DONE)
    api.replies.append(Reply(status=503))

    result = await shop.say("đơn A100?", LOOK, DONE, conversation=first.conversation_id)

    assert seen(result)[0].error_code == "ORDERS_UNAVAILABLE"
    assert result.answer
    again = await shop.say("đơn A100?", LOOK, DONE, conversation=first.conversation_id)
    assert seen(again)[0].ok  # an error is not kept


async def test_its_connections_are_closed_with_the_container(shop_url, told, recwarn):
    async with open_shop(shop_url, orders=told, payments=BOOKS) as shop:
        orders = shop.container.orders()
        assert (await orders.get("A100")).id == "A100"
        client = orders._http._client
    assert client.is_closed
    assert not recwarn.list


@pytest.mark.parametrize(
    ("change", "setting", "problem"),
    [
        ({"map": None}, "ORDERS__MAP", "is needed when ORDERS__KIND=http"),
        ({"auth": None}, "ORDERS__AUTH", "sends it in the header Authorization"),
        ({"auth": "Bearer x\nHost: evil"}, "ORDERS__AUTH", "fits into no header"),
        ({"auth": " "}, "ORDERS__AUTH", "fits into no header"),
    ],
)
async def test_a_start_says_what_is_missing(shop_url, told, change, setting, problem):
    settings = settings_for(shop_url, orders={**told, **change}, payments=BOOKS)

    with pytest.raises(ConfigurationError, match=problem) as caught:
        async with open_container(settings):
            pass

    assert caught.value.setting == f"SUPPORT_AGENT_{setting}"
    assert "evil" not in str(caught.value)

"""PAYOUTS__RUN=worker: who files and approves has no key of the gateway, a worker pays and tells."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from support_agent.domain.errors import ConfigurationError, RequestNotFound
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.services.switches import SwitchName
from support_agent.testing.fault_proxy import FaultProxy
from support_agent.testing.stripe_server import StripeServer
from tests.heart import approved, assert_sound, balance, change_order
from tests.kit import Shop, open_shop
from tests.queue_kit import PROCRASTINATE, chores_of, eventually, jobs, working
from tests.stripe_kit import ACCOUNT, KEY

S = RequestStatus
BY_WORKER = {"run": "worker"}
KEYLESS: Mapping[str, Any] = {"kind": "stripe", "stripe_account": ACCOUNT}
WILL_BE_PAID = "đã được duyệt và sẽ được chi trả"
IS_PAID = "Đã hoàn 120.000\N{NO-BREAK SPACE}₫ cho đơn A102"


async def said(shop: Shop, conversation_id: str) -> list[tuple[str, str]]:
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation_id))
    return [(str(message.author), message.text) for message in messages]


async def approved_at_stripe(shop: Shop, payment_id: str) -> RefundRequest:
    """A100, whose customer paid by this payment of Stripe's, and its refund approved."""
    order = await shop.container.orders().get("A100")
    assert order is not None
    (paid,) = order.payments
    at_stripe = replace(paid, gateway="stripe", account=ACCOUNT, gateway_payment_id=payment_id)
    await change_order(shop, "A100", payments=(at_stripe,))
    return await approved(shop)


async def do(shop: Shop, name: str) -> Mapping[str, int]:
    """One chore by its name."""
    (chore,) = [chore for chore in shop.container.chores() if chore.name == name]
    return await chore.run()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def test_a_turn_says_that_it_will_be_paid_and_the_worker_that_it_is(shop_url):
    async with open_shop(shop_url, payouts=BY_WORKER) as shop:
        result = await shop.answer(await shop.quote("A102"))
        assert result.requests[0].status is S.APPROVED
        assert WILL_BE_PAID in result.answer
        assert "Đã hoàn" not in result.answer

        assert await do(shop, "paid") == {"REFUNDED": 1}

        assert (await shop.request(result.requests[0].id)).status is S.REFUNDED
        author, text = (await said(shop, result.conversation_id))[-1]
        assert author == "notice"
        assert IS_PAID in text
        await assert_sound(shop)


async def test_without_a_key_it_files_and_approves_and_the_gateway_hears_nothing(shop_url):
    server = StripeServer(account=ACCOUNT)
    payment_id = server.sell(250_000, "VND")
    async with FaultProxy(server) as proxy:
        async with open_shop(shop_url, payouts=BY_WORKER, payments=KEYLESS) as shop:
            request = await approved_at_stripe(shop, payment_id)
            (handed_over,) = await shop.container.payer().pay_group(request.id)

            assert handed_over.status is S.APPROVED
            assert await balance(shop) == (250_000, 0)
            assert "paid" not in [chore.name for chore in shop.container.chores()]
        assert not proxy.posts

        with_key = {**KEYLESS, "stripe_key": KEY, "stripe_url": proxy.url}
        async with open_shop(shop_url, payouts=BY_WORKER, payments=with_key) as worker:
            assert await do(worker, "paid") == {"REFUNDED": 1}
            assert await do(worker, "paid") == {}

            assert await balance(worker) == (0, 250_000)
            assert [refund["amount"] for refund in server.refunds] == [250_000]
            await assert_sound(worker)


async def test_what_asks_the_gateway_all_the_same_names_the_setting_and_pauses_nothing(shop_url):
    async with open_shop(shop_url, payouts=BY_WORKER, payments=KEYLESS) as shop:
        request = await approved_at_stripe(shop, "pi_1")
        payouts, problem = shop.container.payouts(), "PAYMENTS__STRIPE_KEY.*PAYOUTS__RUN=worker"

        with pytest.raises(ConfigurationError, match=problem):
            await payouts.pay(request.id)
        with pytest.raises(ConfigurationError, match=problem):
            await payouts.reconcile()

        switchboard = shop.container.switchboard()
        assert await shop.read(lambda tx: switchboard.is_on(tx, SwitchName.PAYOUTS))
        assert (await shop.request(request.id)).status is S.APPROVED


async def test_who_pays_here_needs_the_key(shop_url):
    with pytest.raises(ConfigurationError, match="is needed when PAYMENTS__KIND=stripe"):
        async with open_shop(shop_url, payments=KEYLESS):
            pass


async def test_an_unknown_request_is_handed_to_nobody(shop_url):
    async with open_shop(shop_url, payouts=BY_WORKER) as shop:
        with pytest.raises(RequestNotFound):
            await shop.container.payer().pay_group("rr_nobody")


async def test_the_queue_wakes_the_worker_that_pays(queue_url):
    async with open_shop(queue_url, payouts=BY_WORKER, queue=PROCRASTINATE) as shop:
        request = await approved(shop)
        await shop.container.payer().pay_group(request.id)
        assert jobs(shop.url) == [("pay", {}, "todo")]

        async with working(shop.container, chores=chores_of(shop.container)):
            await eventually(lambda: is_refunded(shop, request.id))
            await eventually(lambda: not jobs(shop.url))

        await assert_sound(shop)


async def test_what_waits_for_a_person_wakes_no_payer(queue_url):
    async with open_shop(queue_url, payouts=BY_WORKER, queue=PROCRASTINATE) as shop:
        request = await shop.filed("A100")
        await shop.container.payer().pay_group(request.id)

        assert jobs(shop.url) == []


async def is_refunded(shop: Shop, request_id: str) -> bool:
    return (await shop.request(request_id)).status is S.REFUNDED

"""The whole shop in front of a refund endpoint: what it says, or does not say, comes to a state."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import SwitchName
from support_agent.testing.fault_proxy import FaultProxy, HttpReply, HttpRequest, json_reply
from support_agent.testing.refund_endpoint import RefundEndpoint
from tests.heart import approved, assert_sound, balance, change_order, pay
from tests.kit import Shop
from tests.moved_time import MovedTime, open_shop_in
from tests.refund_kit import ACCOUNT, SECRET

S = RequestStatus
Twist = Callable[[HttpReply], HttpReply]


@dataclass
class Twisted:
    """An endpoint whose next refund meets something else; the ones after it are as they should."""

    endpoint: RefundEndpoint
    instead: HttpReply | None = None  # nothing is executed
    after: Twist | None = None  # it is executed, and told so
    state: dict[str, Any] = field(default_factory=dict)  # what it says of a payment
    refunds: list[HttpRequest] = field(default_factory=list)

    async def __call__(self, request: HttpRequest) -> HttpReply:
        operation = json.loads(request.body)["operation"]
        if operation == "payment_state":
            return told(await self.endpoint(request), "payment", **self.state)
        if operation != "refund":
            return await self.endpoint(request)
        self.refunds.append(request)
        instead, self.instead = self.instead, None
        after, self.after = self.after, None
        reply = instead or await self.endpoint(request)
        return after(reply) if after else reply


def told(reply: HttpReply, what: str, **fields: Any) -> HttpReply:
    document = json.loads(reply.body)
    return json_reply({what: {**document[what], **fields}})


def says(status: int, code: str) -> HttpReply:
    return json_reply({"error": {"code": code}}, status)


@dataclass(frozen=True, kw_only=True)
class Story:
    shop: Shop
    endpoint: Twisted
    time: MovedTime

    async def approved(self) -> RefundRequest:
        """A100, whose customer paid by a payment of the endpoint's, and its refund approved."""
        order = await self.shop.container.orders().get("A100")
        payment_id = self.endpoint.endpoint.sell(250_000, "VND")
        (paid,) = order.payments
        there = replace(paid, gateway="http", account=ACCOUNT, gateway_payment_id=payment_id)
        await change_order(self.shop, "A100", payments=(there,))
        return await approved(self.shop)

    async def status(self, request: RefundRequest) -> RequestStatus:
        return (await self.shop.request(request.id)).status

    async def reconcile(self) -> None:
        await self.shop.container.payouts().reconcile()

    @property
    def made(self) -> list[int]:
        return [refund["amount_minor"] for refund in self.endpoint.endpoint.refunds]


@pytest.fixture
async def story(shop_url) -> AsyncIterator[Story]:
    async with opened(shop_url) as story:
        yield story


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Story]:
    time = MovedTime()
    now = lambda: time.of_machine().timestamp()  # noqa: E731 - the endpoint lives in this time, too
    endpoint = Twisted(RefundEndpoint(secrets=(SECRET,), account=ACCOUNT, now=now))
    async with FaultProxy(endpoint) as proxy:
        payments = {
            "kind": "http",
            "url": f"{proxy.url}/refunds",
            "account": ACCOUNT,
            "signing_secrets": SECRET,
            "timeout_seconds": 5.0,
        }
        async with open_shop_in(time, url, payments=payments) as shop:
            yield Story(shop=shop, endpoint=endpoint, time=time)


async def test_it_is_paid_once_and_the_books_balance(story):
    request = await story.approved()

    assert (await pay(story.shop, request)).status is S.REFUNDED
    assert (await pay(story.shop, request)).status is S.REFUNDED
    assert story.made == [250_000]
    assert await balance(story.shop) == (0, 250_000)
    await assert_sound(story.shop)


async def test_a_lost_answer_is_in_doubt_then_found_and_paid_once(story):
    request = await story.approved()
    story.endpoint.after = lambda reply: says(502, "amount_invalid")

    assert (await pay(story.shop, request)).status is S.IN_DOUBT
    assert await balance(story.shop) == (250_000, 0)

    await story.reconcile()
    assert await story.status(request) is S.REFUNDED
    assert story.made == [250_000]
    assert len(story.endpoint.refunds) == 1
    await assert_sound(story.shop)


async def test_a_lost_request_is_sent_again_with_the_same_bytes(story):
    request = await story.approved()
    story.endpoint.instead = says(404, "payment_unknown")
    assert (await pay(story.shop, request)).status is S.IN_DOUBT

    story.time.advance(timedelta(minutes=10))
    await story.reconcile()

    assert await story.status(request) is S.REFUNDED
    first, second = story.endpoint.refunds
    assert first.body == second.body
    assert story.made == [250_000]
    await assert_sound(story.shop)


@pytest.mark.parametrize(
    ("status", "code"),
    [(422, "payment_disputed"), (409, "insufficient_funds"), (402, "refund_declined")],
)
async def test_a_word_that_nothing_was_paid_fails_it_and_frees_the_amount(story, status, code):
    request = await story.approved()
    story.endpoint.instead = says(status, code)

    assert (await pay(story.shop, request)).status is S.FAILED
    assert await balance(story.shop) == (0, 0)
    assert story.made == []
    await assert_sound(story.shop)


async def test_a_key_known_with_other_parameters_is_for_a_person(story):
    request = await story.approved()
    story.endpoint.instead = says(422, "key_reused")

    assert (await pay(story.shop, request)).status is S.MANUAL_REVIEW
    assert await balance(story.shop) == (250_000, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"amount_minor": 249_999},
        {"amount_minor": 0},
        {"currency": "USD"},
        {"payment_id": "PAY-999"},
        {"account": "somebody-elses"},
        {"key": "refund:another:1"},
    ],
    ids=str,
)
async def test_an_answer_about_something_else_is_for_a_person(story, fields):
    request = await story.approved()
    story.endpoint.after = lambda reply: told(reply, "refund", **fields)

    assert (await pay(story.shop, request)).status is S.MANUAL_REVIEW
    assert await balance(story.shop) == (250_000, 0)
    await assert_sound(story.shop)


@pytest.mark.parametrize(
    "fields",
    [
        {"account": "somebody-elses"},
        {"livemode": True},
        {"disputed": True},
        {"refunded_minor": 1},
        {"charged_back_minor": 250_000},
    ],
    ids=str,
)
async def test_a_payment_that_stands_otherwise_is_not_paid_from(story, fields):
    request = await story.approved()
    story.endpoint.state = fields

    assert (await pay(story.shop, request)).status is S.PENDING_APPROVAL
    assert story.endpoint.refunds == []


@pytest.mark.parametrize("status", [401, 403])
async def test_a_secret_that_is_not_accepted_pauses_payouts(story, status):
    request = await story.approved()
    story.endpoint.instead = says(status, "signature_invalid")

    assert (await pay(story.shop, request)).status is S.PAYING
    switchboard = story.shop.container.switchboard()
    assert not await story.shop.read(lambda tx: switchboard.is_on(tx, SwitchName.PAYOUTS))
    assert story.made == []


async def test_a_pending_refund_is_asked_for_until_it_is_paid(story):
    request = await story.approved()
    story.endpoint.endpoint.next_status = "pending"
    assert (await pay(story.shop, request)).status is S.PROVIDER_PENDING

    story.endpoint.endpoint.refunds[0]["status"] = "succeeded"
    await story.reconcile()

    assert await story.status(request) is S.REFUNDED
    await assert_sound(story.shop)


async def test_a_refund_that_fails_late_is_learnt_without_an_event(story):
    request = await story.approved()
    assert (await pay(story.shop, request)).status is S.REFUNDED
    story.endpoint.endpoint.fail(story.endpoint.endpoint.refunds[0]["id"])

    await story.reconcile()

    assert await story.status(request) is S.FAILED
    assert await balance(story.shop) == (0, 0)
    await assert_sound(story.shop)


async def test_what_the_shops_staff_refunds_is_booked(story):
    request = await story.approved()
    story.endpoint.endpoint.refund_outside(request.gateway_payment_id, 30_000)

    await story.reconcile()

    books = await story.shop.read(lambda tx: tx.books.of_order("A100"))
    assert [payment.refunded_minor for payment in books.payments] == [30_000]
    assert (await pay(story.shop, request)).status is not S.REFUNDED
    assert story.made == [30_000]
    await assert_sound(story.shop)

"""What a provider reports: genuine, ours and taken in once, in whatever order it comes."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support_agent.adapters.payments.stripe_events import StripeEvents
from support_agent.domain.errors import EventRefused, PaymentOutcomeUnknown
from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import GatewayStatus
from support_agent.ports.storage import InboxEntry
from support_agent.testing.gateway import Act, GatewaySimulator
from support_agent.testing.gateway_events import stripe_signature
from tests.heart import (
    approved,
    assert_sound,
    attempts,
    balance,
    books_of,
    change_order,
    events,
    notices,
    pay,
    sample_shop,
    tasks,
)
from tests.kit import Shop
from tests.moved_time import open_shop_in

S = RequestStatus
MINUTE = timedelta(minutes=1)


class Handed:
    """Takes the event that a test hands over for genuine: what signs it is tested on its own."""

    def __init__(self) -> None:
        self.event: ProviderEvent | None = None

    def verify(self, body: bytes, headers: Any, *, now: Any) -> ProviderEvent:
        if self.event is None:
            raise EventRefused("not signed")
        return self.event


@pytest.fixture
def handed() -> Handed:
    return Handed()


@pytest.fixture
async def shop(shop_url: str, gateway, time, handed):
    parts = {"gateway": gateway, "events": handed}
    payments = {"timeout_seconds": 0.05}
    async with open_shop_in(time, shop_url, overrides=parts, payments=payments) as opened:
        yield opened


async def take(shop: Shop, event: ProviderEvent) -> InboxEntry:
    receiver = shop.container.provider_events()
    receiver._verifier.event = event
    return await receiver.receive(b"", {})


def about(gateway, request: RefundRequest, /, **changes: Any) -> ProviderEvent:
    """The event about the newest refund of a request."""
    refund = gateway._last(f"refund:{request.id}:{request.attempt_no}").refund
    return gateway.event_for(refund, **changes)


async def sent(shop: Shop, gateway, act: Act, **arguments: Any) -> RefundRequest:
    request = await approved(shop, **arguments)
    gateway.will(act)
    return await pay(shop, request)


class TestRefunds:
    @pytest.mark.parametrize("act", [Act.PENDING, Act.REQUIRES_ACTION, Act.LOSE_ANSWER])
    @pytest.mark.parametrize(
        ("word", "status", "counters"),
        [
            (GatewayStatus.SUCCEEDED, S.REFUNDED, (0, 250_000)),
            (GatewayStatus.FAILED, S.FAILED, (0, 0)),
            (GatewayStatus.CANCELED, S.FAILED, (0, 0)),
        ],
    )
    async def test_an_event_ends_what_was_open_once(
        self, shop: Shop, gateway, act, word, status, counters
    ):
        request = await sent(shop, gateway, act)
        gateway.settle(f"refund:{request.id}:1", word)
        event = about(gateway, request)
        before = len(await notices(shop, request.conversation_id))

        entries = [await take(shop, event) for _ in range(3)]

        assert len(set(entries)) == 1
        assert entries[0].outcome == "settled"
        assert (await shop.request(request.id)).status is status
        assert await balance(shop) == counters
        assert len(await notices(shop, request.conversation_id)) == before + 1
        await assert_sound(shop)

    async def test_the_event_is_only_a_hint_where_to_look(self, shop: Shop, gateway):
        """An event of "pending" that comes late finds what is true by now."""
        request = await sent(shop, gateway, Act.PENDING)
        late = about(gateway, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

        await take(shop, late)

        assert (await shop.request(request.id)).status is S.REFUNDED

    async def test_one_that_comes_before_the_answer(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.HANG_AFTER)
        paying = asyncio.create_task(pay(shop, request))
        await gateway.hangs.wait()

        assert (await take(shop, about(gateway, request))).outcome == "settled"

        assert (await paying).status is S.REFUNDED
        assert len(await notices(shop, request.conversation_id)) == 1
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)

    async def test_a_success_after_a_failure_does_not_pay_or_refund_again(
        self, shop: Shop, gateway
    ):
        request = await sent(shop, gateway, Act.FAIL)
        first = about(gateway, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

        assert (await take(shop, first)).outcome == "late_success"
        assert (await take(shop, about(gateway, request))).outcome == "known"

        assert (await shop.request(request.id)).status is S.FAILED
        assert len(gateway.sent) == 1
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)

    async def test_a_late_failure(self, shop: Shop, gateway):
        """Cases row 12."""
        request = await sent(shop, gateway, Act.SUCCEED)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)

        assert (await take(shop, about(gateway, request))).outcome == "settled"

        assert (await shop.request(request.id)).status is S.FAILED
        assert await balance(shop) == (0, 0)
        assert len(await tasks(shop, "late_failure")) == 1
        assert len(await notices(shop, request.conversation_id)) == 2
        await assert_sound(shop)

    async def test_an_event_about_the_first_of_two_parts_changes_nothing(self, shop: Shop, gateway):
        """Cases row 11."""
        first = await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        event = about(gateway, first)
        await take(shop, event)
        second = await sent(shop, gateway, Act.SUCCEED, amount=40_000)

        replayed = await take(shop, event)
        again = await take(shop, about(gateway, first))

        assert (replayed.outcome, again.outcome) == ("known", "known")
        assert second.status is S.REFUNDED
        assert await balance(shop) == (0, 250_000)
        assert len(gateway.sent) == 2

    async def test_a_refund_that_is_not_ours_is_booked(self, shop: Shop, gateway):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        outside = gateway.refund_outside("led_A100_1", 30_000)

        outcomes = [(await take(shop, gateway.event_for(outside))).outcome for _ in range(2)]

        assert outcomes == ["outside", "known"]
        assert await balance(shop) == (0, 240_000)
        await assert_sound(shop)

    async def test_an_event_that_names_only_the_payment_looks_at_all_of_it(
        self, shop: Shop, gateway
    ):
        request = await sent(shop, gateway, Act.PENDING, amount=210_000)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        gateway.refund_outside("led_A100_1", 30_000)

        entry = await take(shop, about(gateway, request, provider_refund_id=None))

        assert entry.outcome == "settled,outside"
        assert await balance(shop) == (0, 240_000)

    async def test_delivered_many_times_at_once_it_counts_once(self, shop: Shop, gateway):
        request = await sent(shop, gateway, Act.PENDING)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        event = about(gateway, request)

        entries = await asyncio.gather(*(take(shop, event) for _ in range(6)))

        assert len(set(entries)) == 1
        assert len(await events(shop, "refund.refunded")) == 1
        await assert_sound(shop)

    @pytest.mark.parametrize("fault", ["unreachable", "lost"])
    async def test_what_cannot_be_fetched_is_not_kept_and_comes_again(
        self, shop: Shop, gateway, fault
    ):
        request = await sent(shop, gateway, Act.PENDING)
        event = about(gateway, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        made = gateway._last(f"refund:{request.id}:1")
        gateway.unreachable, made.lost = fault == "unreachable", fault == "lost"

        with pytest.raises(PaymentOutcomeUnknown):
            await take(shop, event)
        assert await shop.read(lambda tx: tx.inbox.get(event.gateway, event.id)) is None
        gateway.unreachable = made.lost = False

        assert (await take(shop, event)).outcome == "settled"

    async def test_what_is_undone_leaves_nothing_in_the_inbox(self, shop: Shop, gateway):
        """The transaction fails after all was written in it; then the provider sends it again."""
        request = await sent(shop, gateway, Act.PENDING)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        event = about(gateway, request)
        receiver = shop.container.provider_events()
        transact = receiver._database.transact

        def cut_off(fn):
            def work(tx):
                fn(tx)
                raise RuntimeError("power cut")

            return transact(work)

        receiver._database.transact = cut_off
        with pytest.raises(RuntimeError):
            await take(shop, event)
        del receiver._database.transact

        assert (await shop.request(request.id)).status is S.PROVIDER_PENDING
        assert (await take(shop, event)).outcome == "settled"


class TestRefused:
    @pytest.mark.parametrize(
        "change",
        [
            {"livemode": True},
            {"gateway": "stripe"},
            {"account": "somebody-elses"},
        ],
    )
    async def test_what_is_not_for_us_changes_nothing(self, shop: Shop, gateway, change):
        request = await sent(shop, gateway, Act.PENDING)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        event = about(gateway, request, **change)

        with pytest.raises(EventRefused):
            await take(shop, event)

        assert (await shop.request(request.id)).status is S.PROVIDER_PENDING
        assert await shop.read(lambda tx: tx.inbox.get(event.gateway, event.id)) is None

    async def test_another_account_than_the_one_we_set(self, shop: Shop, gateway):
        request = await sent(shop, gateway, Act.PENDING)
        receiver = shop.container.provider_events()
        receiver._account = "acct_ours"

        with pytest.raises(EventRefused):
            await take(shop, about(gateway, request))

    async def test_what_is_not_genuine_changes_nothing(self, shop: Shop, gateway):
        with pytest.raises(EventRefused):
            await take(shop, None)

    async def test_another_subject_is_kept_and_ignored(self, shop: Shop, gateway):
        request = await sent(shop, gateway, Act.PENDING)

        entry = await take(shop, about(gateway, request, kind=EventKind.OTHER))

        assert entry.outcome == "ignored"
        assert (await shop.request(request.id)).status is S.PROVIDER_PENDING


class TestSigned:
    """With the verifier of a real provider, on raw bytes."""

    SECRET = "whsec_ours"  # noqa: S105 - of a test

    @pytest.fixture
    async def signed(self, shop_url: str, time):
        gateway = GatewaySimulator(sample_shop().orders, name="stripe", now=time.of_machine)
        verifier = StripeEvents(secrets=(self.SECRET,), account="shop-main")
        parts = {"gateway": gateway, "events": verifier}
        async with open_shop_in(time, shop_url, overrides=parts) as opened:
            order = await opened.container.orders().get("A100")
            payments = tuple(replace(payment, gateway="stripe") for payment in order.payments)
            await change_order(opened, "A100", payments=payments)
            yield opened, gateway

    async def test_a_genuine_one_is_taken_and_any_other_refused(self, signed, time):
        shop, gateway = signed
        request = await sent(shop, gateway, Act.PENDING)
        refund = gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
        now = time.of_machine()
        body = json.dumps(
            {
                "id": "evt_1",
                "object": "event",
                "type": "refund.updated",
                "livemode": False,
                "created": int(now.timestamp()),
                "data": {
                    "object": {
                        "id": refund.provider_refund_id,
                        "object": "refund",
                        "charge": request.gateway_payment_id,
                        "payment_intent": None,
                    }
                },
            }
        ).encode()
        receive = shop.container.provider_events().receive
        for forged in (
            stripe_signature(body, "whsec_theirs", at=now),
            stripe_signature(body, self.SECRET, at=now - 6 * MINUTE),
            stripe_signature(body, self.SECRET, at=now + 6 * MINUTE),
            {},
        ):
            with pytest.raises(EventRefused):
                await receive(body, forged)
        with pytest.raises(EventRefused):
            await receive(body + b" ", stripe_signature(body, self.SECRET, at=now))
        assert (await shop.request(request.id)).status is S.PROVIDER_PENDING

        entry = await receive(body, stripe_signature(body, self.SECRET, at=now))

        assert entry.outcome == "settled"
        assert (await shop.request(request.id)).status is S.REFUNDED


class TestDisputes:
    async def test_one_that_opens_sends_what_is_approved_back_to_a_person(
        self, shop: Shop, gateway
    ):
        """Cases row 25."""
        request = await approved(shop)
        dispute = gateway.dispute("led_A100_1")

        assert (await take(shop, gateway.event_for(dispute))).outcome == "dispute.opened"

        assert (await books_of(shop, "A100")).payments[0].disputed
        back = await pay(shop, request)
        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert gateway.sent == []
        assert len(await tasks(shop, "dispute_opened")) == 1

    async def test_what_the_shop_says_of_it_does_not_undo_it(self, shop: Shop, gateway):
        request = await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        await take(shop, gateway.event_for(gateway.dispute("led_A100_1")))
        order = await shop.container.orders().get("A100")

        await shop.write(lambda tx: tx.books.sync(order))

        assert (await books_of(shop, "A100")).payments[0].disputed
        assert request.status is S.REFUNDED
        assert (await shop.quote("A100", amount=10_000)).quotes == ()

    async def test_lost_is_a_chargeback_once(self, shop: Shop, gateway):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        dispute = gateway.charge_back(gateway.dispute("led_A100_1", 40_000))

        outcomes = [(await take(shop, gateway.event_for(dispute))).outcome for _ in range(2)]

        assert outcomes == ["dispute.lost", "dispute.lost"]
        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.charged_back_minor, payment.frozen) == (40_000, False)
        assert len(await tasks(shop, "dispute_lost")) == 1
        await assert_sound(shop)

    async def test_a_chargeback_of_what_we_refunded_already_is_overdrawn(self, shop: Shop, gateway):
        await sent(shop, gateway, Act.SUCCEED)
        dispute = gateway.charge_back(gateway.dispute("led_A100_1"))

        await take(shop, gateway.event_for(dispute))

        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.overdrawn_minor, payment.frozen) == (250_000, True)
        await assert_sound(shop)

    async def test_won_gives_it_back(self, shop: Shop, gateway, time):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        dispute = gateway.charge_back(gateway.dispute("led_A100_1", 40_000))
        await take(shop, gateway.event_for(dispute))
        time.advance(MINUTE)

        entry = await take(shop, gateway.event_for(gateway.win(dispute), amount_minor=99))

        assert entry.outcome == "dispute.won"
        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.charged_back_minor, payment.disputed) == (0, False)
        assert len(await events(shop, "payment.chargeback_reversed")) == 1
        await assert_sound(shop)

    async def test_won_without_a_loss_books_nothing(self, shop: Shop, gateway, time):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        dispute = gateway.dispute("led_A100_1", 40_000)
        await take(shop, gateway.event_for(dispute))
        time.advance(MINUTE)

        await take(shop, gateway.event_for(gateway.win(dispute)))

        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.charged_back_minor, payment.disputed) == (0, False)
        assert await events(shop, "payment.chargeback_reversed") == []
        await assert_sound(shop)

    async def test_one_that_is_won_does_not_end_another(self, shop: Shop, gateway, time):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        first = gateway.dispute("led_A100_1", 40_000)
        second = gateway.dispute("led_A100_1", 30_000)
        for dispute in (first, second):
            await take(shop, gateway.event_for(dispute))
        time.advance(MINUTE)

        await take(shop, gateway.event_for(gateway.win(second)))
        assert (await books_of(shop, "A100")).payments[0].disputed

        await take(shop, gateway.event_for(gateway.win(first)))
        assert not (await books_of(shop, "A100")).payments[0].disputed

    async def test_out_of_order_the_newest_word_counts(self, shop: Shop, gateway, time):
        await sent(shop, gateway, Act.SUCCEED, amount=210_000)
        opened = gateway.event_for(gateway.dispute("led_A100_1", 40_000))
        time.advance(MINUTE)
        dispute = gateway._payments["led_A100_1"].disputes[-1]
        lost = gateway.event_for(gateway.charge_back(dispute))
        won = gateway.event_for(gateway.win(dispute), created_at=lost.created_at)

        outcomes = [(await take(shop, event)).outcome for event in (won, lost, opened)]

        assert outcomes == ["dispute.won", "stale", "stale"]
        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.charged_back_minor, payment.disputed) == (0, False)
        await assert_sound(shop)

    async def test_one_on_a_payment_we_do_not_know_is_ignored(self, shop: Shop, gateway):
        entry = await take(shop, gateway.event_for(gateway.dispute("led_A300_1")))

        assert entry.outcome == "unknown_payment"


async def test_the_id_that_an_event_brings_is_kept(shop: Shop, gateway):
    request = await sent(shop, gateway, Act.LOSE_ANSWER)

    await take(shop, about(gateway, request))

    (attempt,) = await attempts(shop, request)
    assert (attempt.status, attempt.provider_refund_id) == (AttemptStatus.SUCCEEDED, "sim_1")

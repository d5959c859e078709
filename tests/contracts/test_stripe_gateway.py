"""The Stripe adapter where it has to be more careful than the contract says."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
import stripe as vendor

from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.domain.errors import (
    ConfigurationError,
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import GatewayStatus, RefundInstruction
from support_agent.testing.fault_proxy import (
    Fault,
    FaultProxy,
    HttpReply,
    HttpRequest,
    forward_to,
    json_reply,
)
from support_agent.testing.stripe_server import StripeServer
from tests.stripe_kit import (
    ACCOUNT,
    KEY,
    MOCK_ANSWERS,
    captured,
    sell_at_mock,
    stripe_through,
)

YESTERDAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Stripe:
    """The adapter, the server it talks to, and the proxy between them."""

    gateway: StripeGateway
    server: StripeServer
    proxy: FaultProxy

    def sold(
        self, amount: int = 250_000, currency: str = "VND", *, intent: bool = True
    ) -> RefundInstruction:
        """A refund of 100,000 of a new payment, not sent yet."""
        payment_id = self.server.sell(amount, currency, intent=intent)
        return captured(payment_id, amount, currency).refund_of(100_000, key="k")

    def refunded(self) -> list[int]:
        return [refund["amount"] for refund in self.server.refunds]


@pytest.fixture
async def stripe() -> AsyncIterator[Stripe]:
    server = StripeServer(account=ACCOUNT)
    async with stripe_through(server) as (gateway, proxy):
        yield Stripe(gateway=gateway, server=server, proxy=proxy)


class TestRequest:
    async def test_it_carries_our_key_twice_and_the_exact_amount(self, stripe):
        instruction = stripe.sold()
        await stripe.gateway.refund(instruction)
        (sent,) = stripe.proxy.posts

        assert sent.headers["idempotency-key"] == instruction.key
        assert sent.form == {
            "payment_intent": instruction.gateway_payment_id,
            "amount": "100000",
            "metadata[support_agent_key]": instruction.key,
            "metadata[support_agent_request]": instruction.request_id,
        }
        assert sent.headers["authorization"] == f"Bearer {KEY}"

    async def test_it_tells_nothing_of_this_machine(self, stripe):
        await stripe.gateway.refund(stripe.sold())

        sent = {name for request in stripe.proxy.requests for name in request.headers}
        assert {name for name in sent if name.startswith("x-stripe-client")} == set()

    async def test_a_charge_is_refunded_as_a_charge(self, stripe):
        instruction = stripe.sold(intent=False)
        await stripe.gateway.refund(instruction)

        assert stripe.proxy.posts[0].form["charge"] == instruction.gateway_payment_id

    async def test_the_same_refund_is_sent_with_the_same_bytes(self, stripe):
        instruction = stripe.sold()
        stripe.proxy.will(Fault.DROP_BEFORE)
        with pytest.raises(PaymentOutcomeUnknown):
            await stripe.gateway.refund(instruction)
        await stripe.gateway.refund(instruction)
        first, second = stripe.proxy.posts

        assert (first.body, first.headers) == (second.body, second.headers)

    async def test_it_sends_once_whatever_happens(self, stripe):
        instruction = stripe.sold()
        for fault in (Fault.ERROR_BEFORE, Fault.DROP_BEFORE, Fault.DROP_RESPONSE):
            stripe.proxy.will(fault)
            with pytest.raises(PaymentOutcomeUnknown):
                await stripe.gateway.refund(replace(instruction, key=fault.name))

        assert len(stripe.proxy.posts) == 3

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"amount_minor": 0}, "amount_invalid"),
            ({"amount_minor": -5}, "amount_invalid"),
            ({"currency": "XYZ"}, "currency_unknown"),
            ({"currency": "KWD", "amount_minor": 1_001}, "amount_not_expressible"),
            ({"account": "acct_somebody_elses"}, "account_mismatch"),
            ({"gateway": "ledger"}, "account_mismatch"),
            ({"gateway_payment_id": "led_A100_1"}, "payment_unknown"),
            ({"gateway_payment_id": "pi_1/../../v1/payouts"}, "payment_unknown"),
            ({"gateway_payment_id": "re_1"}, "payment_unknown"),
            ({"gateway_payment_id": ""}, "payment_unknown"),
        ],
    )
    async def test_what_cannot_be_right_is_declined_before_anything_is_sent(
        self, stripe, changes, code
    ):
        with pytest.raises(PaymentDeclined, match=f"^{code}$"):
            await stripe.gateway.refund(replace(stripe.sold(), **changes))

        assert stripe.proxy.requests == []

    async def test_a_key_of_another_account_sends_no_refund(self, stripe):
        stripe.server.account = "acct_somebody_elses"
        with pytest.raises(GatewayRefusesUs, match="STRIPE_ACCOUNT"):
            await stripe.gateway.refund(stripe.sold())

        assert stripe.proxy.posts == ()


class TestAnswer:
    @pytest.mark.parametrize(
        ("status", "told"),
        [
            ("succeeded", GatewayStatus.SUCCEEDED),
            ("pending", GatewayStatus.PENDING),
            ("requires_action", GatewayStatus.REQUIRES_ACTION),
            ("failed", GatewayStatus.FAILED),
            ("canceled", GatewayStatus.CANCELED),
            ("a_status_of_next_year", GatewayStatus.PENDING),
            (None, GatewayStatus.PENDING),
        ],
    )
    async def test_its_status_is_told(self, stripe, status, told):
        stripe.server.next_status = status

        assert (await stripe.gateway.refund(stripe.sold())).status is told

    async def test_why_it_failed_is_told(self, stripe):
        instruction = stripe.sold()
        refund = await stripe.gateway.refund(instruction)
        stripe.server.fail(refund.provider_refund_id, "lost_or_stolen_card")
        now = await stripe.gateway.get(refund.provider_refund_id, instruction.payment)

        assert now == replace(
            refund, status=GatewayStatus.FAILED, failure_code="lost_or_stolen_card"
        )

    async def test_a_payment_intent_is_also_known_by_its_charge(self, stripe):
        instruction = stripe.sold()
        by_intent = await stripe.gateway.refund(instruction)
        charge = stripe.server.intents[instruction.gateway_payment_id]
        by_charge = replace(instruction, gateway_payment_id=charge)
        found = await stripe.gateway.find(by_charge)

        assert by_intent.payment == instruction.payment
        assert by_intent.other_payment_id == charge
        assert found is not None
        assert found.payment == by_charge.payment
        assert found.other_payment_id == instruction.gateway_payment_id

    @pytest.mark.parametrize(
        "changes",
        [
            {"amount": 1},
            {"currency": "usd"},
            {"metadata": {"support_agent_key": "another"}},
            {"metadata": {}},
            {"metadata": None},
            {"payment_intent": "pi_another", "charge": "ch_another"},
        ],
    )
    async def test_what_is_not_what_was_asked_is_handed_over_as_it_is(self, stripe, changes):
        instruction = stripe.sold()
        usual = {
            "id": "re_1",
            "amount": 100_000,
            "currency": "vnd",
            "status": "succeeded",
            "payment_intent": instruction.gateway_payment_id,
            "metadata": {"support_agent_key": instruction.key},
        }
        stripe.proxy.will(json_reply(usual | changes))
        refund = await stripe.gateway.refund(instruction)

        told = (refund.amount_minor, refund.currency, refund.key, refund.payment)
        asked = (100_000, "VND", instruction.key, instruction.payment)
        assert told != asked
        assert sum(a != b for a, b in zip(told, asked, strict=True)) == 1

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"<html>busy</html>",
            b"[]",
            b"null",
            b"7",
            b"{}",
            b'{"id": "re_1"}',
            b'{"id": "re_1", "amount": "100000", "currency": "vnd", "charge": "ch_1"}',
            b'{"id": "re_1", "amount": true, "currency": "vnd", "charge": "ch_1"}',
            b'{"id": "re_1", "amount": 1.5, "currency": "vnd", "charge": "ch_1"}',
            b'{"id": "re_1", "amount": -1, "currency": "vnd", "charge": "ch_1"}',
            b'{"id": "re_1", "amount": 1, "currency": "vnd"}',
            b'{"id": "re_1", "amount": 1, "charge": "ch_1"}',
            b'{"id": null, "amount": 1, "currency": "vnd", "charge": "ch_1"}',
            b"\xff\xfe",
        ],
    )
    async def test_what_cannot_be_read_is_an_unknown_outcome(self, stripe, body):
        stripe.proxy.will(HttpReply(body=body))

        with pytest.raises(PaymentOutcomeUnknown):
            await stripe.gateway.refund(stripe.sold())

    @pytest.mark.parametrize(
        ("status", "error", "raised"),
        [
            (400, {"code": "charge_already_refunded"}, PaymentOutcomeUnknown),
            (400, {"param": "amount"}, PaymentOutcomeUnknown),
            (400, {"code": "charge_disputed"}, PaymentDeclined),
            (400, {"type": "idempotency_error"}, IdempotencyMismatch),
            (401, {}, GatewayRefusesUs),
            (402, {"type": "card_error", "code": "card_declined"}, PaymentDeclined),
            (403, {}, GatewayRefusesUs),
            (404, {"code": "resource_missing"}, PaymentOutcomeUnknown),
            (409, {"code": "idempotency_key_in_use"}, GatewayBusy),
            (429, {"code": "rate_limit"}, GatewayBusy),
            (500, {"type": "api_error"}, PaymentOutcomeUnknown),
            (502, None, PaymentOutcomeUnknown),
            (302, None, PaymentOutcomeUnknown),
            (400, "a sentence", PaymentOutcomeUnknown),
        ],
    )
    async def test_an_error_means_what_it_proves(self, stripe, status, error, raised):
        kind = {"type": "invalid_request_error", "message": "synthetic"}
        told = kind | error if isinstance(error, dict) else error
        body = b"" if error is None else json.dumps({"error": told}).encode()
        stripe.proxy.will(HttpReply(status=status, body=body))

        with pytest.raises(PaymentError) as caught:
            await stripe.gateway.refund(stripe.sold())
        assert isinstance(caught.value, raised)
        assert "synthetic" not in str(caught.value)

    async def test_silence_is_an_unknown_outcome(self):
        server = StripeServer(account=ACCOUNT)
        async with stripe_through(server, timeout_s=0.2) as (gateway, proxy):
            stripe = Stripe(gateway=gateway, server=server, proxy=proxy)
            proxy.will(Fault.HANG_BEFORE, Fault.HANG_AFTER)
            for key in ("before", "after"):
                with pytest.raises(PaymentOutcomeUnknown):
                    async with asyncio.timeout(10):  # it must not be this one that ends it
                        await gateway.refund(replace(stripe.sold(), key=key))

        assert stripe.refunded() == [100_000]

    async def test_a_server_that_is_not_there_is_an_unknown_outcome(self, stripe):
        async with FaultProxy(stripe.server) as gone:
            url = gone.url
        gateway = StripeGateway(key=KEY, account=ACCOUNT, timeout_s=5, url=url)

        with pytest.raises(PaymentOutcomeUnknown):
            await gateway.payment_state(stripe.sold().payment)
        await gateway.aclose()


class TestLists:
    async def test_a_list_that_does_not_end_is_an_unknown_outcome_not_none(self, stripe):
        page = {"id": "re_1", "amount": 1, "currency": "vnd", "charge": "ch_1", "metadata": {}}

        async def again_and_again(request: HttpRequest) -> HttpReply:
            if request.path == "/v1/refunds":
                return json_reply({"object": "list", "data": [page], "has_more": True})
            return await stripe.server(request)

        async with stripe_through(again_and_again) as (gateway, _):
            with pytest.raises(PaymentOutcomeUnknown):
                await gateway.find(stripe.sold())

    @pytest.mark.parametrize(
        "page", [{}, {"data": None}, {"data": [], "has_more": True}, {"data": "rows"}]
    )
    async def test_a_list_that_cannot_be_read_is_an_unknown_outcome(self, stripe, page):
        answers = {"GET /v1/refunds": json_reply({"object": "list", **page})}
        async with stripe_through(stripe.server, answers=answers) as (gateway, _):
            with pytest.raises(PaymentOutcomeUnknown):
                await gateway.find(stripe.sold())

    async def test_a_payment_stripe_does_not_know_is_not_the_same_as_no_refund(self, stripe):
        gone = replace(stripe.sold(), gateway_payment_id="pi_0000")

        with pytest.raises(PaymentOutcomeUnknown):
            await stripe.gateway.find(gone)

    async def test_a_refund_of_no_payment_does_not_end_the_list(self, stripe):
        instruction = stripe.sold()
        ours = await stripe.gateway.refund(instruction)
        stripe.server.refund_outside(
            instruction.gateway_payment_id, 5, charge=None, payment_intent=None
        )
        since = datetime.now(UTC) - YESTERDAY

        assert [refund async for refund in stripe.gateway.refunds_since(since)] == [ours]

    async def test_only_refunds_since_then_are_asked_for(self, stripe):
        since = datetime(2026, 10, 13, 2, 0, 0, 900_000, tzinfo=UTC)
        assert [refund async for refund in stripe.gateway.refunds_since(since)] == []
        asked = [request.query for request in stripe.proxy.requests if request.query]

        assert asked == [{"created[gte]": str(int(since.timestamp())), "limit": "3"}]

    async def test_an_id_that_is_none_of_stripes_is_not_put_into_an_address(self, stripe):
        instruction = stripe.sold()
        for strange in ("../payouts", "re_1?x=1", "pi_1", "re_"):
            assert await stripe.gateway.get(strange, instruction.payment) is None

        assert stripe.proxy.requests == []


class TestState:
    async def test_a_dispute_that_is_open_is_told(self, stripe):
        payment = stripe.sold().payment
        stripe.server.dispute(payment.gateway_payment_id)
        state = await stripe.gateway.payment_state(payment)

        assert state.disputed
        assert state.charged_back_minor == 0

    @pytest.mark.parametrize(
        ("statuses", "disputed", "charged_back"),
        [
            (["won"], False, 0),
            (["warning_closed"], False, 0),
            (["prevented"], False, 0),
            (["lost"], False, 70_000),
            (["lost", "lost"], False, 140_000),
            (["won", "lost"], False, 70_000),
            (["won", "under_review"], True, 0),
            (["appeal_under_review"], False, 70_000),
            (["warning_needs_response"], True, 0),
            (["a_status_of_next_year"], True, 0),
            (["won", "won", "won", "needs_response"], True, 0),  # the last is on a second page
        ],
    )
    async def test_disputes_count_by_how_they_ended(self, stripe, statuses, disputed, charged_back):
        payment = stripe.sold().payment
        for status in reversed(statuses):
            stripe.server.dispute(payment.gateway_payment_id, status=status, amount=70_000)
        state = await stripe.gateway.payment_state(payment)

        assert (state.disputed, state.charged_back_minor) == (disputed, charged_back)

    async def test_a_disputed_charge_without_a_dispute_to_be_seen_is_disputed(self, stripe):
        payment = stripe.sold().payment
        charge = stripe.server.intents[payment.gateway_payment_id]
        stripe.server.charges[charge]["disputed"] = True

        assert (await stripe.gateway.payment_state(payment)).disputed

    async def test_an_uncaptured_payment_has_nothing_to_refund(self, stripe):
        payment = stripe.sold().payment
        charge = stripe.server.charges[stripe.server.intents[payment.gateway_payment_id]]
        charge |= {"captured": False, "amount_captured": 0}

        assert (await stripe.gateway.payment_state(payment)).captured_minor == 0

    async def test_a_payment_intent_that_nobody_paid_has_nothing_to_refund(self, stripe):
        payment = stripe.sold().payment
        intent = {"id": "pi_1", "amount": 5, "currency": "vnd", "latest_charge": None}
        path = f"GET /v1/payment_intents/{payment.gateway_payment_id}"
        async with stripe_through(stripe.server, answers={path: json_reply(intent)}) as (
            gateway,
            _,
        ):
            state = await gateway.payment_state(payment)

        assert (state.captured_minor, state.refunded_minor) == (0, 0)

    async def test_it_names_the_account_of_the_key_whatever_was_asked(self, stripe):
        payment = replace(stripe.sold().payment, account="acct_somebody_elses")

        assert (await stripe.gateway.payment_state(payment)).account == ACCOUNT

    async def test_it_names_the_mode_of_the_payment(self, stripe):
        payment = stripe.sold().payment
        stripe.server.charges[stripe.server.intents[payment.gateway_payment_id]]["livemode"] = True

        assert (await stripe.gateway.payment_state(payment)).livemode
        assert not stripe.gateway.livemode

    async def test_the_account_is_asked_for_once(self, stripe):
        payment = stripe.sold().payment
        for _ in range(3):
            await stripe.gateway.payment_state(payment)
        paths = [request.path for request in stripe.proxy.requests]

        assert paths.count("/v1/account") == 1

    async def test_a_key_that_is_not_accepted_is_said_so(self, stripe):
        refused = {"error": {"type": "invalid_request_error", "message": "no"}}
        answers = {"GET /v1/account": json_reply(refused, 401)}
        async with stripe_through(stripe.server, answers=answers) as (gateway, _):
            with pytest.raises(GatewayRefusesUs):
                await gateway.payment_state(stripe.sold().payment)


class TestKey:
    @pytest.mark.parametrize(
        ("key", "live"),
        [("sk_live_x", True), ("rk_live_x", True), ("sk_test_x", False), ("rk_test_x", False)],
    )
    def test_its_prefix_says_whether_money_is_real(self, key, live):
        assert StripeGateway(key=key, account=ACCOUNT, timeout_s=1).livemode is live

    @pytest.mark.parametrize("key", ["", "pk_live_x", "whsec_x", "sk_x", "SK_TEST_X"])
    def test_what_is_no_secret_key_is_refused_without_being_shown(self, key):
        with pytest.raises(ConfigurationError, match="PAYMENTS__STRIPE_KEY") as caught:
            StripeGateway(key=key, account=ACCOUNT, timeout_s=1)
        assert not key or key not in str(caught.value)

    async def test_two_gateways_share_nothing(self, stripe):
        before = {name: getattr(vendor, name) for name in ("api_key", "api_base", "api_version")}
        await stripe.gateway.refund(stripe.sold())
        other = StripeServer(account="acct_other")
        async with FaultProxy(other) as proxy:
            gateway = StripeGateway(
                key="sk_test_other", account="acct_other", timeout_s=5, url=proxy.url
            )
            await gateway.payment_state(
                replace(stripe.sold().payment, gateway_payment_id=other.sell(1, "VND"))
            )
            await gateway.aclose()
            keys = {request.headers["authorization"] for request in proxy.requests}

        assert keys == {"Bearer sk_test_other"}
        assert {name: getattr(vendor, name) for name in before} == before


# Where the answers come from others than we: what happens around a call, before the npm stand-in.
@pytest.mark.parametrize(
    ("fault", "executed"),
    [
        (Fault.DROP_BEFORE, False),
        (Fault.DROP_RESPONSE, True),
        (Fault.ERROR_BEFORE, False),
        (Fault.ERROR_AFTER, True),
        (Fault.CUT, True),
        (Fault.HANG_BEFORE, False),
        (Fault.HANG_AFTER, True),
    ],
)
async def test_after_any_fault_it_is_found_out_and_paid_once(fault, executed, stripe_mock_port):
    hangs = fault in {Fault.HANG_BEFORE, Fault.HANG_AFTER}
    async with stripe_through(
        forward_to(stripe_mock_port), answers=MOCK_ANSWERS, timeout_s=0.5 if hangs else 5.0
    ) as (gateway, proxy):
        headers: dict[str, Any] = {"authorization": f"Bearer {KEY}"}
        async with httpx2.AsyncClient(base_url=proxy.url, headers=headers) as shop:
            payment = await sell_at_mock(shop, 250_000, "VND")
        instruction = payment.refund_of(100_000, key="fault")
        proxy.will(fault)
        with pytest.raises(PaymentOutcomeUnknown):
            await gateway.refund(instruction)
        found = await gateway.find(instruction)
        assert (found is not None) is executed

        again = await gateway.refund(instruction)
        assert found in {None, again}
        assert (await gateway.payment_state(instruction.payment)).refunded_minor == 100_000


async def test_a_call_that_is_given_up_does_not_spoil_the_next(stripe_mock_port):
    async with stripe_through(forward_to(stripe_mock_port), answers=MOCK_ANSWERS) as (
        gateway,
        proxy,
    ):
        proxy.will(Fault.HANG_BEFORE)
        waiting = asyncio.create_task(
            gateway.refund(captured("ch_0000", 1, "VND").refund_of(1, key="x"))
        )
        await proxy.hangs.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        with pytest.raises(PaymentDeclined, match="payment_unknown"):
            await gateway.payment_state(captured("ch_0000", 1, "VND").refund_of(1, key="x").payment)

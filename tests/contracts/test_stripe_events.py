"""An event of Stripe's is genuine, of now and readable, or nothing of it counts."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.adapters.payments.stripe_events import LONGEST, StripeEvents
from support_agent.domain.errors import EventRefused
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import PaymentRef
from support_agent.testing.gateway_events import stripe_signature

ACCOUNT, NOW = "acct_ours", datetime(2026, 10, 13, 2, tzinfo=UTC)
SECRET, OLD, FOREIGN = "whsec_new", "whsec_old", "whsec_of_somebody_else"
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 100_000,
    "currency": "vnd",
    "charge": "ch_1",
    "payment_intent": "pi_1",
    "status": "succeeded",
}
DISPUTE = {
    "id": "dp_1",
    "object": "dispute",
    "amount": 250_000,
    "currency": "vnd",
    "charge": "ch_1",
    "payment_intent": "pi_1",
    "status": "needs_response",
}
PAYMENT = PaymentRef(gateway="stripe", account=ACCOUNT, gateway_payment_id="pi_1")


def body_of(kind: str = "refund.updated", about: Any = REFUND, **fields: Any) -> bytes:
    event = {
        "id": "evt_1",
        "object": "event",
        "type": kind,
        "created": int(NOW.timestamp()) - 7,
        "livemode": False,
        "data": {"object": about},
    }
    return json.dumps(event | fields).encode()


def verify(body: bytes, headers: Any = None, *, secrets: tuple[str, ...] = (SECRET, OLD)):
    if headers is None:
        headers = stripe_signature(body, SECRET, at=NOW)
    return StripeEvents(secrets=secrets, account=ACCOUNT).verify(body, headers, now=NOW)


class TestSignature:
    @pytest.mark.parametrize(
        "signed_with",
        [(SECRET,), (OLD,), (FOREIGN, SECRET), (OLD, SECRET), (SECRET, FOREIGN, FOREIGN)],
    )
    def test_one_signature_of_one_of_our_secrets_is_enough(self, signed_with):
        body = body_of()

        assert verify(body, stripe_signature(body, *signed_with, at=NOW)).id == "evt_1"

    @pytest.mark.parametrize("signed_with", [(), (FOREIGN,), (FOREIGN, FOREIGN), ("",)])
    def test_none_of_our_secrets_is_refused(self, signed_with):
        body = body_of()

        with pytest.raises(EventRefused):
            verify(body, stripe_signature(body, *signed_with, at=NOW))

    @pytest.mark.parametrize("secrets", [(), ("",), ("  ",)])
    def test_without_a_secret_nothing_is_genuine(self, secrets):
        body = body_of()

        with pytest.raises(EventRefused):
            verify(body, stripe_signature(body, *secrets, at=NOW), secrets=secrets)

    def test_it_is_of_the_raw_bytes(self):
        body = body_of()
        headers = stripe_signature(body, SECRET, at=NOW)

        for changed in (body + b" ", body.replace(b"100000", b"100001"), b" " + body, b""):
            with pytest.raises(EventRefused):
                verify(changed, headers)

    @pytest.mark.parametrize("name", ["Stripe-Signature", "stripe-signature", "STRIPE-SIGNATURE"])
    def test_its_header_may_be_written_in_any_case(self, name):
        body = body_of()
        (value,) = stripe_signature(body, SECRET, at=NOW).values()

        assert verify(body, {"content-type": "application/json", name: value}).id == "evt_1"

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda value: "",
            lambda value: value.replace("t=", "T="),
            lambda value: value.replace("v1=", "v0="),
            lambda value: value.partition(",")[2],
            lambda value: value.partition(",")[0],
            lambda value: value.partition(",")[0] + "," + value,
            lambda value: value + ",t=1",
            lambda value: value[:-1],
            lambda value: value.replace("t=", "t=+"),
            lambda value: value.replace("t=", "t=1_"),
            lambda value: value.replace("t=", "t=٣"),
            lambda value: value.replace("v1=", "v1=é"),
            lambda value: "t=,v1=",
            lambda value: "t=9" * 40,
            lambda value: value + ",v1=0" * 2_000,
            lambda value: "\x00",
        ],
    )
    def test_a_header_of_another_form_is_refused(self, spoil):
        body = body_of()
        (value,) = stripe_signature(body, SECRET, at=NOW).values()

        with pytest.raises(EventRefused):
            verify(body, {"Stripe-Signature": spoil(value)})

    def test_no_header_or_two_are_refused(self):
        body = body_of()
        (value,) = stripe_signature(body, SECRET, at=NOW).values()

        for headers in ({}, {"Stripe-Signature": value, "stripe-signature": value}):
            with pytest.raises(EventRefused):
                verify(body, headers)

    @pytest.mark.parametrize("seconds", [-300, -299, 0, 299, 300])
    def test_it_counts_for_five_minutes_before_and_after(self, seconds):
        body = body_of()

        at = NOW + timedelta(seconds=seconds)
        assert verify(body, stripe_signature(body, SECRET, at=at)).id == "evt_1"

    @pytest.mark.parametrize("seconds", [-301, -86_400, 301, 86_400, 400 * 86_400])
    def test_one_kept_for_later_or_dated_ahead_is_refused(self, seconds):
        body = body_of()

        at = NOW + timedelta(seconds=seconds)
        with pytest.raises(EventRefused, match="300 seconds"):
            verify(body, stripe_signature(body, SECRET, at=at))

    @pytest.mark.parametrize("days", [-400, 400])
    @pytest.mark.parametrize("spelt", ["{}", "+{}", "{:_}", "0{}", " {}", "{} "])
    def test_a_moment_of_now_beside_the_signed_one_does_not_count(self, spelt, days):
        """The package signs the first one, and reads it as generously as `int` does."""
        body = body_of()
        then = NOW + timedelta(days=days)
        (value,) = stripe_signature(body, SECRET, at=then).values()
        signature = value.partition(",")[2]
        signed_at = spelt.format(int(then.timestamp()))

        for now in (f" t={NOW.timestamp():.0f}", f"t={NOW.timestamp():.0f}"):
            header = f"t={signed_at},{now},{signature}"
            with pytest.raises(EventRefused):
                verify(body, {"Stripe-Signature": header})

    def test_it_tells_no_secret_and_nothing_of_the_body(self):
        body = body_of()
        with pytest.raises(EventRefused) as caught:
            verify(body, stripe_signature(body, FOREIGN, at=NOW))

        assert SECRET not in str(caught.value)
        assert "re_1" not in str(caught.value)

    @given(body=st.binary(max_size=200), header=st.text(max_size=200))
    def test_whatever_comes_it_is_refused_and_nothing_else(self, body, header):
        with pytest.raises(EventRefused):
            verify(body, {"Stripe-Signature": header})


class TestBody:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"[]",
            b"7",
            b"{",
            b"\xff\xfe{}",
            body_of()[:-1],
            body_of() + b"{}",
            b"\xef\xbb\xbf" + body_of(),
            body_of().replace(b'"livemode": false', b'"livemode": false, "livemode": true'),
            body_of().replace(b'"id": "re_1"', b'"id": "re_1", "id": "re_2"'),
            body_of().replace(b"100000", b"NaN"),
            b"[" * 100_000,
            b'{"id": ' + b"9" * 5_000 + b"}",
            body_of(object="v2.core.event"),
            body_of(data=None),
            body_of(data={"object": None}),
            body_of(about=[REFUND]),
            body_of(id=None),
            body_of(id=""),
            body_of(id="re_1"),
            body_of(id="evt_1\n"),
            body_of(id="evt_" + "x" * 300),
            body_of(livemode=None),
            body_of(livemode="false"),
            body_of(livemode=0),
            body_of(created=None),
            body_of(created="now"),
            body_of(created=-1),
            body_of(created=10**18),
            body_of(created=True),
            body_of(type=None),
            body_of(account=7),
            body_of(about=REFUND | {"id": None}),
            body_of("charge.dispute.closed", DISPUTE | {"amount": "250000"}),
            body_of("charge.dispute.closed", DISPUTE | {"id": 1}),
        ],
    )
    def test_what_is_genuine_and_cannot_be_read_is_refused(self, body):
        with pytest.raises(EventRefused):
            verify(body)

    def test_one_byte_too_many_is_refused(self):
        body = body_of("other.kind", {"text": ""})
        room = LONGEST - len(body)
        full = body_of("other.kind", {"text": "x" * room})

        assert len(full) == LONGEST
        assert verify(full).kind is EventKind.OTHER
        with pytest.raises(EventRefused, match="larger"):
            verify(body_of("other.kind", {"text": "x" * (room + 1)}))


class TestMeaning:
    @pytest.mark.parametrize(
        "kind",
        ["refund.created", "refund.updated", "refund.failed", "charge.refund.updated"],
    )
    def test_a_refund_is_named_with_its_payment(self, kind):
        assert verify(body_of(kind)) == ProviderEvent(
            id="evt_1",
            gateway="stripe",
            kind=EventKind.REFUND,
            account=ACCOUNT,
            livemode=False,
            created_at=NOW - timedelta(seconds=7),
            payment=PAYMENT,
            provider_refund_id="re_1",
            other_payment_id="ch_1",
        )

    def test_a_refunded_charge_names_the_payment_alone(self):
        charge = {"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount_refunded": 5}
        event = verify(body_of("charge.refunded", charge))

        assert (event.kind, event.payment) == (EventKind.REFUND, PAYMENT)
        assert (event.provider_refund_id, event.other_payment_id) == (None, "ch_1")
        assert event.amount_minor is None

    def test_a_charge_without_a_payment_intent_is_the_payment(self):
        event = verify(body_of(about=REFUND | {"payment_intent": None}))

        assert event.payment == replace(PAYMENT, gateway_payment_id="ch_1")
        assert event.other_payment_id is None

    def test_a_refund_of_no_payment_says_so(self):
        event = verify(body_of(about=REFUND | {"payment_intent": None, "charge": None}))

        assert event.payment is None
        assert event.provider_refund_id == "re_1"

    @pytest.mark.parametrize(
        ("kind", "status", "told"),
        [
            ("charge.dispute.created", "needs_response", EventKind.DISPUTE_OPENED),
            ("charge.dispute.created", "warning_needs_response", EventKind.DISPUTE_OPENED),
            ("charge.dispute.funds_withdrawn", "needs_response", EventKind.DISPUTE_OPENED),
            ("charge.dispute.updated", "under_review", EventKind.DISPUTE_OPENED),
            ("charge.dispute.closed", "won", EventKind.DISPUTE_WON),
            ("charge.dispute.closed", "warning_closed", EventKind.DISPUTE_WON),
            ("charge.dispute.funds_reinstated", "won", EventKind.DISPUTE_WON),
            ("charge.dispute.closed", "lost", EventKind.DISPUTE_LOST),
            # Late: by now the dispute is over, and it is its state that counts.
            ("charge.dispute.funds_withdrawn", "lost", EventKind.DISPUTE_LOST),
            ("charge.dispute.created", "won", EventKind.DISPUTE_WON),
            ("charge.dispute.closed", "a_status_of_next_year", EventKind.DISPUTE_OPENED),
        ],
    )
    def test_a_dispute_is_told_by_how_it_stands(self, kind, status, told):
        event = verify(body_of(kind, DISPUTE | {"status": status}))

        assert event.kind is told
        assert event.payment == PAYMENT
        assert (event.dispute_id, event.amount_minor, event.currency) == ("dp_1", 250_000, "VND")

    def test_amounts_of_a_dispute_are_our_minor_units(self):
        event = verify(body_of("charge.dispute.created", DISPUTE | {"currency": "usd"}))

        assert (event.amount_minor, event.currency) == (250_000, "USD")

    @pytest.mark.parametrize("kind", ["charge.succeeded", "payout.paid", "refund", "charge.refund"])
    def test_anything_else_is_other_and_about_no_payment(self, kind):
        event = verify(body_of(kind))

        assert (event.kind, event.payment, event.provider_refund_id) == (
            EventKind.OTHER,
            None,
            None,
        )

    def test_account_and_mode_are_handed_on_to_be_compared(self):
        event = verify(body_of(account="acct_connected", livemode=True))

        assert (event.account, event.livemode) == ("acct_connected", True)
        assert event.payment == replace(PAYMENT, account="acct_connected")

"""Refunds, payments and disputes as Stripe's API tells them, read into ours with suspicion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support_agent.adapters.payments.stripe_amounts import from_api
from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.ports.payments import GatewayRefund, GatewayStatus, PaymentRef, PaymentState

NAME = "stripe"
KEY = "support_agent_key"  # in a refund's metadata: which attempt of ours it is
REQUEST = "support_agent_request"

Json = Mapping[str, Any]

_STATUS = {status.value: status for status in GatewayStatus}
# A dispute in any other status, a new one of Stripe's included, is open.
KEPT = frozenset({"won", "warning_closed", "prevented"})
LOST = frozenset({"lost", "appeal_needs_response", "appeal_under_review"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A charge as the API tells it, with what has to be asked about next."""

    charge_id: str
    currency: str
    captured_minor: int
    refunded_minor: int
    disputed: bool
    livemode: bool


def refund_of(data: Json, *, account: str, asked: PaymentRef | None = None) -> GatewayRefund:
    """A refund object, by the payment's name that was asked for where it has that name.

    Raises:
        PaymentOutcomeUnknown: it cannot be read.
    """
    payment_id, other = names_of(data)
    if payment_id is None:
        raise PaymentOutcomeUnknown("Stripe tells of a refund of no payment")
    if asked is not None and asked.gateway_payment_id == other:
        payment_id, other = asked.gateway_payment_id, payment_id
    currency = text(data, "currency").upper()
    return GatewayRefund(
        provider_refund_id=text(data, "id"),
        key=_metadata(data, KEY),
        payment=PaymentRef(gateway=NAME, account=account, gateway_payment_id=payment_id),
        # A status that we do not know is neither paid nor failed: it is asked for again.
        status=_STATUS.get(str(data.get("status")), GatewayStatus.PENDING),
        amount_minor=from_api(number(data, "amount"), currency),
        currency=currency,
        failure_code=_optional(data, "failure_reason"),
        other_payment_id=other,
    )


def names_of(data: Json) -> tuple[str | None, str | None]:
    """What a refund or dispute is about: the payment intent, and the charge as its other name.

    Two Nones: about no payment, such as a refund of a customer's balance at Stripe.
    """
    intent, charge = identifier(data.get("payment_intent")), identifier(data.get("charge"))
    return (charge, None) if intent is None else (intent, charge)


def captured_of(charge: Json) -> Captured:
    """A charge object.

    Raises:
        PaymentOutcomeUnknown: it cannot be read.
    """
    currency = text(charge, "currency").upper()
    captured = number(charge, "amount_captured" if "amount_captured" in charge else "amount")
    return Captured(
        charge_id=text(charge, "id"),
        currency=currency,
        captured_minor=from_api(captured, currency) if charge.get("captured") is True else 0,
        refunded_minor=from_api(number(charge, "amount_refunded"), currency),
        disputed=charge.get("disputed") is True or bool(charge.get("dispute")),
        livemode=charge.get("livemode") is True,
    )


def state_of(captured: Captured, disputes: Sequence[Json], *, account: str) -> PaymentState:
    """The payment's state; a charge that is disputed while no dispute can be seen is disputed."""
    lost = [dispute for dispute in disputes if dispute.get("status") in LOST]
    ended = all(dispute.get("status") in KEPT | LOST for dispute in disputes)
    return PaymentState(
        captured_minor=captured.captured_minor,
        refunded_minor=captured.refunded_minor,
        disputed=captured.disputed and not (disputes and ended),
        account=account,
        livemode=captured.livemode,
        charged_back_minor=sum(
            from_api(number(dispute, "amount"), captured.currency) for dispute in lost
        ),
    )


def identifier(value: object) -> str | None:
    """The id of another object, which the API tells alone or with the whole object."""
    if isinstance(value, Mapping):
        value = value.get("id")
    return value if isinstance(value, str) and value else None


def text(data: Json, field: str) -> str:
    """A field that has to be there."""
    value = data.get(field)
    if not isinstance(value, str) or not value:
        raise PaymentOutcomeUnknown(f"Stripe's answer has no {field!r}")
    return value


def number(data: Json, field: str) -> int:
    """A field that has to be a whole number, 0 or more; True is none."""
    value = data.get(field)
    if type(value) is not int or value < 0:
        raise PaymentOutcomeUnknown(f"Stripe's answer has no whole number {field!r}")
    return value


def _metadata(data: Json, name: str) -> str:
    metadata = data.get("metadata")
    value = metadata.get(name) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else ""


def _optional(data: Json, field: str) -> str | None:
    value = data.get(field)
    return value if isinstance(value, str) and value else None

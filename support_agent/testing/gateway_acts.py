"""What a simulated gateway can be told to do with the next refund."""

from dataclasses import replace
from enum import Enum, auto

from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import GatewayRefund, GatewayStatus


class Act(Enum):
    """What the gateway does with the next refund."""

    SUCCEED = auto()
    PENDING = auto()  # accepted, not executed yet; `settle` ends it
    REQUIRES_ACTION = auto()  # accepted, waits for the customer; `settle` ends it
    FAIL = auto()  # a refund object that says failed
    CANCEL = auto()  # a refund object that says canceled
    DECLINE = auto()  # refused before anything was executed
    BUSY = auto()  # 409, the key is in use: nothing executed, the same key may come again
    THROTTLE = auto()  # 429: nothing executed, the same key may come again
    REFUSE_US = auto()  # 401: nothing executed, our key is not accepted
    FORBID = auto()  # 403: nothing executed, our key may not refund
    ERROR_BEFORE = auto()  # 5xx, nothing executed; the same key hears the same 5xx again
    ERROR_AFTER = auto()  # 5xx, executed; the same key hears the same 5xx again
    LOSE_REQUEST = auto()  # an unknown outcome, and nothing was executed
    LOSE_ANSWER = auto()  # an unknown outcome, and the refund was executed
    HANG_BEFORE = auto()  # no answer ever, and nothing was executed
    HANG_AFTER = auto()  # no answer ever, and the refund was executed
    MISMATCH = auto()  # executed and answered with another amount
    OTHER_CURRENCY = auto()  # executed and answered with another currency
    OTHER_ACCOUNT = auto()  # executed and answered in another account's name
    OTHER_PAYMENT = auto()  # executed and answered for another payment
    OTHER_KEY = auto()  # executed and answered with another key
    REFUSE_KEY = auto()  # says that it knows the key with other parameters


STATUS = {
    Act.PENDING: GatewayStatus.PENDING,
    Act.REQUIRES_ACTION: GatewayStatus.REQUIRES_ACTION,
    Act.FAIL: GatewayStatus.FAILED,
    Act.CANCEL: GatewayStatus.CANCELED,
}
# Answers that are not what was asked for; only what compares them notices.
LIES = frozenset(
    {Act.MISMATCH, Act.OTHER_CURRENCY, Act.OTHER_ACCOUNT, Act.OTHER_PAYMENT, Act.OTHER_KEY}
)
NOT_PAID = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})

BROKEN = "the gateway answered 500 (simulated)"
RESET = "the connection was reset (simulated)"

_REFUSALS: dict[Act, PaymentError] = {
    Act.DECLINE: PaymentDeclined("declined"),
    Act.REFUSE_KEY: IdempotencyMismatch("the key was used with other parameters (simulated)"),
    Act.BUSY: GatewayBusy("the key is in use (simulated)"),
    Act.THROTTLE: GatewayBusy("too many requests (simulated)"),
    Act.REFUSE_US: GatewayRefusesUs("our key is not accepted (simulated)"),
    Act.FORBID: GatewayRefusesUs("our key may not do this (simulated)"),
    Act.ERROR_BEFORE: PaymentOutcomeUnknown(BROKEN),
    Act.LOSE_REQUEST: PaymentOutcomeUnknown(RESET),
}


def refusal(act: Act) -> PaymentError | None:
    """What an act raises before anything is executed; a new one each time."""
    known = _REFUSALS.get(act)
    return None if known is None else type(known)(*known.args)


def told(act: Act, refund: GatewayRefund) -> GatewayRefund:
    """The refund as this act tells it."""
    match act:
        case Act.MISMATCH:
            return replace(refund, amount_minor=refund.amount_minor * 100)
        case Act.OTHER_CURRENCY:
            return replace(refund, currency="USD" if refund.currency != "USD" else "EUR")
        case Act.OTHER_ACCOUNT:
            return replace(refund, payment=replace(refund.payment, account="somebody-elses"))
        case Act.OTHER_PAYMENT:
            other = f"{refund.payment.gateway_payment_id}_other"
            return replace(refund, payment=replace(refund.payment, gateway_payment_id=other))
        case Act.OTHER_KEY:
            return replace(refund, key=f"{refund.key}:other")
        case _:
            return refund

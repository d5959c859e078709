"""What an error of Stripe's means for our money: executed, not executed, or nobody knows."""

from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)

# Codes with which Stripe refuses a refund before it makes one, out of its list of error codes
# (docs.stripe.com/error-codes). What is not listed is an unknown outcome, `charge_already_refunded`
# above all: the refund that is already there may be ours, with its answer lost.
NOT_EXECUTED = frozenset(
    {
        "amount_too_large",
        "amount_too_small",
        "balance_insufficient",
        "charge_disputed",
        "charge_not_refundable",
        "insufficient_funds",
        "invalid_charge_amount",
        "parameter_invalid_integer",
        "refund_disputed_payment",
    }
)
_BUSY_CODES = frozenset({"idempotency_key_in_use", "lock_timeout", "rate_limit"})


def meaning(status: int | None, kind: str | None, code: str | None) -> PaymentError:
    """The error to raise for an answer with this HTTP status, error type and error code.

    No answer at all has no status. The message holds nothing but these three.
    """
    told = f"Stripe answered {status} {kind or '-'} {code or '-'}" if status else "no answer"
    if status in {409, 429} or (status == 400 and code in _BUSY_CODES):
        return GatewayBusy(told)
    if status in {401, 403}:
        return GatewayRefusesUs(told)
    if status == 400 and kind == "idempotency_error":
        return IdempotencyMismatch(told)
    if status == 402 and kind == "card_error":
        return PaymentDeclined(code or "declined")
    if status in {400, 402} and code in NOT_EXECUTED:
        return PaymentDeclined(code)
    return PaymentOutcomeUnknown(told)

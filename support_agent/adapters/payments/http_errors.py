"""What a refusal of the shop's refund endpoint means for our money."""

from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)

# The codes of docs/refund-endpoint.md with which a shop says that it executed nothing. Any other
# code is an unknown outcome: an endpoint that fails in the middle may have paid.
NOT_EXECUTED = frozenset(
    {
        "account_mismatch",
        "amount_above_captured",
        "amount_invalid",
        "currency_mismatch",
        "insufficient_funds",
        "livemode_mismatch",
        "payment_disputed",
        "payment_not_refundable",
        "payment_unknown",
        "refund_declined",
    }
)
KEY_IN_USE = "key_in_use"
KEY_REUSED = "key_reused"
_SAYS_NO = frozenset({400, 402, 409, 422})  # an answer of the endpoint itself, with its code


def meaning(status: int, code: str | None) -> PaymentError:
    """The error to raise for an answer with this HTTP status and error code.

    Its message holds nothing but these two; a code that is none of ours is not repeated.
    """
    known = code if code in NOT_EXECUTED | {KEY_IN_USE, KEY_REUSED} else None
    told = f"the refund endpoint answered {status} {known or '-'}"
    if status == 429 or (status == 409 and known == KEY_IN_USE):
        return GatewayBusy(told)
    if status in {401, 403}:
        return GatewayRefusesUs(told)
    if status in {409, 422} and known == KEY_REUSED:
        return IdempotencyMismatch(told)
    if status in _SAYS_NO and known in NOT_EXECUTED:
        return PaymentDeclined(known)
    return PaymentOutcomeUnknown(told)

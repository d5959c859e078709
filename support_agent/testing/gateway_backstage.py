"""What the contract of PaymentGateway needs behind a gateway's back: money, faults, other hands."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from support_agent.ports.payments import RefundInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedPayment:
    """A payment that exists at the gateway, fully captured and not refunded."""

    gateway: str
    account: str
    gateway_payment_id: str
    captured_minor: int
    currency: str

    def refund_of(self, amount_minor: int, *, key: str) -> RefundInstruction:
        """The key is this payment's own: a gateway under test may outlive a check."""
        return RefundInstruction(
            key=f"{self.gateway_payment_id}:{key}",
            request_id=key,
            gateway=self.gateway,
            account=self.account,
            gateway_payment_id=self.gateway_payment_id,
            amount_minor=amount_minor,
            currency=self.currency,
        )


# Makes a fresh payment of so many minor units of a currency at the gateway.
NewPayment = Callable[[int, str], Awaitable[CapturedPayment]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """What a check can have done at the gateway; None: this one has no such thing.

    A check that needs what is None is left out by `checks_for`.
    """

    sell: NewPayment
    currencies: tuple[str, ...] = ("VND", "USD", "KWD")  # of different exponents
    # The next refund is executed, and its answer is lost.
    lose_next_answer: Callable[[], None] | None = None
    # Somebody refunds a payment without us; tells the refund's id.
    refund_outside: Callable[[CapturedPayment, int], Awaitable[str]] | None = None
    # A refund that had succeeded fails, by its id.
    fail_late: Callable[[str], Awaitable[None]] | None = None
    knows_when: bool = True  # it can leave out refunds that are older than asked for


class Needs(StrEnum):
    """Names of what Backstage may lack."""

    LOSE = "lose_next_answer"
    OUTSIDE = "refund_outside"
    FAIL = "fail_late"
    WHEN = "knows_when"


def lacking(backstage: Backstage) -> frozenset[Needs]:
    """What this one has not, to be compared with what was left out."""
    return frozenset(need for need in Needs if not getattr(backstage, need.value))

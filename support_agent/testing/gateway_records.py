"""What the simulated gateway keeps: payments, refunds it made, answers it gave to keys."""

from dataclasses import dataclass, field
from datetime import datetime

from support_agent.domain.errors import IdempotencyMismatch, PaymentOutcomeUnknown
from support_agent.ports.events import EventKind
from support_agent.ports.payments import GatewayRefund, RefundInstruction
from support_agent.testing.gateway_acts import BROKEN
from support_agent.testing.gateway_events import SimulatedDispute


@dataclass(slots=True, kw_only=True)
class SimulatedPayment:
    captured_minor: int
    currency: str
    account: str
    disputes: list[SimulatedDispute] = field(default_factory=list)

    def disputed(self, kind: EventKind) -> int:
        return sum(dispute.amount_minor for dispute in self.disputes if dispute.kind is kind)


@dataclass(slots=True, kw_only=True)
class MadeRefund:
    """A refund the gateway executed; without an instruction somebody made it outside."""

    sent: RefundInstruction | None
    payment_id: str  # really refunded, whatever is told
    refund: GatewayRefund
    at: datetime | None
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """What a key was answered with: a refund, or (None) an error that it hears again."""

    sent: RefundInstruction
    made: MadeRefund | None
    at: datetime | None


def replayed(instruction: RefundInstruction, saved: SavedAnswer) -> GatewayRefund:
    """What a known key hears again."""
    if saved.sent != instruction:
        raise IdempotencyMismatch(f"the key {instruction.key!r} was used with other parameters")
    if saved.made is None:
        raise PaymentOutcomeUnknown(BROKEN)
    return saved.made.refund

"""An offer to refund: which payments give how much back to where, and who has to decide."""

from collections.abc import Iterable
from dataclasses import dataclass

from support_agent.domain.assessment import required_level
from support_agent.domain.orders import Payment
from support_agent.domain.policy import Assessment, Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one payment gives back, and where it goes."""

    payment: Payment
    lines: tuple[RefundLine, ...]
    amount_minor: int
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrutiny:
    """What sends a refund to a person beside its amount."""

    reasons: tuple[Reason, ...] = ()
    extra_levels: int = 0  # on top of what the amount asks for
    never_automatic: Reason | None = None  # told only where nothing else asks for a person

    def who_decides(
        self, policy: Policy, currency: str, cumulative_minor: int
    ) -> tuple[int, tuple[Reason, ...]]:
        """The approver level an order's cumulative amount needs, 0 for none, and why.

        Raises:
            RefundRefused: the amount is above what any level may let pass.
        """
        level = required_level(policy, currency, cumulative_minor)
        reasons = [Reason.ABOVE_AUTO_LIMIT] if level > 0 and currency in policy.limits else []
        if self.reasons:
            level = max(level, 1)
            reasons += self.reasons
        if level == 0 and self.never_automatic is not None:
            level = 1
            reasons.append(self.never_automatic)
        if level > 0:
            level = max(level, min(level + self.extra_levels, policy.top_level))
        return level, tuple(dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a wish comes to right now: verdict, exact money and who decides; nothing is stored."""

    policy: Policy
    assessment: Assessment
    parts: tuple[Part, ...]
    deduction_minor: int  # taken off for a promotion that is lost; the amounts are without it
    notes: tuple[Reason, ...]  # what the customer should know of how it was computed
    scrutiny: Scrutiny
    level: int
    reasons: tuple[Reason, ...]

    @property
    def amount_minor(self) -> int:
        return sum(part.amount_minor for part in self.parts)


def merged(parts: Iterable[tuple[RefundLine, ...]]) -> tuple[RefundLine, ...]:
    """Lines of several payments as one refund: what they take of each line together."""
    lines: dict[str, RefundLine] = {}
    for line in (line for part in parts for line in part):
        before = lines.get(line.line_id)
        lines[line.line_id] = RefundLine(
            line_id=line.line_id,
            units=line.units + (before.units if before else 0),
            amount_minor=line.amount_minor + (before.amount_minor if before else 0),
        )
    return tuple(lines.values())

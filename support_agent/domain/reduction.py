"""What a request is once an approver lowers its amount: its lines and the level it needs."""

from collections.abc import Sequence

from support_agent.domain.assessment import required_level
from support_agent.domain.money import spread
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine, RefundRequest


def reduced_lines(lines: Sequence[RefundLine], amount_minor: int) -> tuple[RefundLine, ...]:
    """The lower amount over the same lines, by largest remainder.

    A line keeps as many whole units as its new money pays for at the old price, rounded down: a
    unit that is paid in part can be asked for again, and the line's total bounds that anyway.

    Raises:
        InvalidInput: the lines together are smaller than the amount.
    """
    parts = spread(amount_minor, [line.amount_minor for line in lines])
    return tuple(
        RefundLine(
            line_id=line.line_id,
            units=line.units * part // line.amount_minor,
            amount_minor=part,
        )
        for line, part in zip(lines, parts, strict=True)
        if part
    )


def reduced_level(request: RefundRequest, policy: Policy, *, cumulative_minor: int) -> int:
    """The level the lower amount needs; the order's cumulative amount is that with it in it.

    Never automatic, never higher than it was, and what was put on top for another reason (an
    escalation, a new bank account) stays on top: the amount it came to before does not tell what
    that was, since other refunds of the order may have been filed since.

    Raises:
        RefundRefused: ABOVE_POLICY_LIMIT; also the lower amount is more than anybody may let pass.
    """
    needed = max(1, required_level(policy, request.currency, cumulative_minor))
    extra = request.escalations + (Reason.DESTINATION_NEW in request.reasons)
    return max(1, min(request.required_level, needed + extra))

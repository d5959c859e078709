"""What came back and what is kept: which units a refund may name, and when it takes them all."""

from collections.abc import Iterable, Sequence

from support_agent.domain.money import line_part
from support_agent.domain.orders import LineKind, OrderLine
from support_agent.domain.policy import (
    LineAssessment,
    LineBalance,
    Policy,
    PromotionAtStake,
    Verdict,
)
from support_agent.domain.promotions import settle
from support_agent.domain.refunds import RefundLine


def units_back(line: OrderLine, balance: LineBalance, policy: Policy) -> int:
    """How many more units may be refunded: what is not taken and, where asked for, came back."""
    return max(0, _back_at_most(line, balance, policy) - balance.units_taken)


def money_back(line: OrderLine, balance: LineBalance, policy: Policy) -> int:
    """What may go back for the line, in minor units: 2 of 3 received are two thirds of it."""
    units = _back_at_most(line, balance, policy)
    if units >= balance.quantity:
        return balance.left_minor
    price = line_part(
        line_total=balance.total_minor, quantity=balance.quantity, done=0, units=units
    )
    return max(0, price - balance.taken_minor)


def _back_at_most(line: OrderLine, balance: LineBalance, policy: Policy) -> int:
    if not policy.return_required or line.received_units is None:
        return balance.quantity  # not counted: a person looks instead
    return min(line.received_units, balance.quantity)


def all_parts(lines: Iterable[LineAssessment]) -> tuple[RefundLine, ...]:
    """Everything that may be asked for, before a promotion takes something off."""
    return tuple(
        RefundLine(line_id=line.line_id, units=line.units_left, amount_minor=line.refundable_minor)
        for line in lines
        if line.verdict is not Verdict.INELIGIBLE
    )


def all_of_it(lines: Sequence[LineAssessment], stake: PromotionAtStake | None) -> int:
    """What everything that may be asked for comes to, in minor units."""
    parts = all_parts(lines)
    if stake is None or not parts:
        return sum(part.amount_minor for part in parts)
    asked = {part.line_id: part.units for part in parts}
    settled = settle(stake, [line.balance for line in lines], asked)
    shipping = (line.refundable_minor for line in lines if line.kind is LineKind.SHIPPING)
    return max(0, settled.due_minor) + sum(shipping)


def keeps_goods(
    lines: Iterable[LineAssessment],
    parts: Iterable[RefundLine],
    stake: PromotionAtStake | None,
) -> bool:
    """Whether anything of the goods is kept once the parts are refunded too.

    What is free counts only where a promotion gave it; what was paid back in full is not kept.
    """
    gone = {part.line_id: part for part in parts}
    return any(
        _is_kept(line, gone.get(line.line_id), stake)
        for line in lines
        if line.kind is LineKind.GOODS
    )


def _is_kept(line: LineAssessment, part: RefundLine | None, stake: PromotionAtStake | None) -> bool:
    units = line.balance.units_kept - (part.units if part else 0)
    money = line.balance.left_minor - (part.amount_minor if part else 0)
    is_gift = (
        stake is not None
        and not line.balance.total_minor
        and (stake.given_minor.get(line.line_id, 0) > 0)
    )
    return units > 0 and (money > 0 or is_gift)

"""What a promotion takes back when what is kept no longer earns it (ADR 0015).

Everything is cumulative: what is due for the units that came back, less what the promotion gave to
what is kept, less what was paid already. So nothing is taken off twice, a promotion that is lost
and then given back entirely costs nothing, and the order of partial returns does not matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from support_agent.domain.money import line_part, spread
from support_agent.domain.orders import LineKind, Order
from support_agent.domain.policy import LineBalance, Policy, PromotionAtStake
from support_agent.domain.refunds import RefundLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The parts of units that come back, and what the promotion took off their price.

    `due_minor` is the sum of the parts, or zero and less when nothing is left to pay.
    """

    parts: tuple[RefundLine, ...]
    due_minor: int
    deduction_minor: int


def at_stake(order: Order, policy: Policy) -> PromotionAtStake | None:
    """What the order's promotion gave; None where the policy does not take it back."""
    promotion = order.promotion
    if promotion is None or not policy.clawback:
        return None
    goods = [line for line in order.lines if line.kind is LineKind.GOODS]
    gifts = frozenset(promotion.gift_line_ids)
    value = {
        line.id: line.total_minor + line.promotion_minor for line in goods if line.id not in gifts
    }
    if sum(value.values()) < promotion.threshold_minor:
        return None  # it was given for another reason, which a return does not undo
    given = {
        line.id: line.discount_minor if line.id in gifts else line.promotion_minor for line in goods
    }
    return PromotionAtStake(
        threshold_minor=promotion.threshold_minor,
        value_minor=MappingProxyType(value),
        given_minor=MappingProxyType(given),
    )


def held_back(stake: PromotionAtStake, balances: Iterable[LineBalance]) -> dict[str, int]:
    """What is not paid of the units that came back, by line, because the promotion is lost."""
    lines = _concerned(stake, balances)
    unpaid = [_due(line) for line in lines]
    free = max(0, sum(unpaid) - _taken_back(stake, lines))
    released = spread(min(free, sum(unpaid)), unpaid)
    return {
        line.line_id: part - freed
        for line, part, freed in zip(lines, unpaid, released, strict=True)
    }


def settle(
    stake: PromotionAtStake, balances: Iterable[LineBalance], asked: Mapping[str, int]
) -> Settled:
    """What the asked-for units come to, `asked` by line id; only for units that are still kept."""
    before = _concerned(stake, balances)
    after = [replace(b, units_taken=b.units_taken + asked.get(b.line_id, 0)) for b in before]
    rooms = [_due(line) for line in after]
    due = sum(rooms) - _taken_back(stake, after)
    price = sum(
        max(0, room - _due(line))
        for line, room in zip(before, rooms, strict=True)
        if line.line_id in asked
    )
    return Settled(
        parts=_parts(after, rooms, max(0, due), asked),
        due_minor=due,
        deduction_minor=max(0, price - max(0, due)),
    )


def _concerned(stake: PromotionAtStake, balances: Iterable[LineBalance]) -> list[LineBalance]:
    return [balance for balance in balances if balance.line_id in stake.given_minor]


def _due(line: LineBalance) -> int:
    """What the units that came back cost, less what was paid for the line."""
    if not line.quantity:
        return 0
    price = line_part(
        line_total=line.total_minor, quantity=line.quantity, done=line.units_taken, units=0
    )
    return max(0, price - line.taken_minor)


def _taken_back(stake: PromotionAtStake, lines: Sequence[LineBalance]) -> int:
    """What the promotion gave to what is kept, once that no longer earns it."""
    kept = {line.line_id: (_kept(line), line.quantity) for line in lines}
    if _share(stake.value_minor, kept) >= stake.threshold_minor:
        return 0
    return _share(stake.given_minor, kept)


def _share(whole: Mapping[str, int], kept: Mapping[str, tuple[int, int]]) -> int:
    shares = ((whole.get(id_, 0) * units, quantity) for id_, (units, quantity) in kept.items())
    return sum(minor // quantity for minor, quantity in shares if quantity)


def _kept(line: LineBalance) -> int:
    # Money may go back without units. What was paid back in full is not kept in any sense that
    # could earn or cost something.
    paid_back = line.total_minor > 0 and line.left_minor == 0
    return 0 if paid_back else line.units_kept


def _parts(
    lines: Sequence[LineBalance], rooms: Sequence[int], due: int, asked: Mapping[str, int]
) -> tuple[RefundLine, ...]:
    """The amount over the asked-for lines first; the rest is what earlier returns were owed."""
    own = [room if line.line_id in asked else 0 for line, room in zip(lines, rooms, strict=True)]
    older = [room - mine for room, mine in zip(rooms, own, strict=True)]
    now = min(due, sum(own))
    shares = zip(lines, spread(now, own), spread(due - now, older), strict=True)
    parts = (
        RefundLine(
            line_id=line.line_id, units=asked.get(line.line_id, 0), amount_minor=share + rest
        )
        for line, share, rest in shares
    )
    # A gift costs nothing: its part says that it came back.
    return tuple(part for part in parts if part.units or part.amount_minor)

"""Which lines, how many units and which payments an asked-for refund comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.money import format_money, line_part, spread
from support_agent.domain.orders import OVERPAID, LineKind
from support_agent.domain.policy import (
    Assessment,
    LineAssessment,
    LineBalance,
    PromotionAtStake,
    Verdict,
)
from support_agent.domain.promotions import settle
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine
from support_agent.domain.returns import all_of_it, keeps_goods

ASKABLE = frozenset({Verdict.ELIGIBLE, Verdict.NEEDS_REVIEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted: named units, an amount in minor units, or (both None) all of it.

    The flags are words of staff, never a customer's or a model's: `with_shipping` adds the shipping
    line whatever the policy's rule says ("our fault"), `overpaid` asks for what was captured beyond
    the order's total instead of anything of its lines.
    """

    units: Mapping[str, int] | None = None
    amount_minor: int | None = None
    with_shipping: bool = False
    overpaid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The exact lines of a refund, in the order's own order, and what was taken off them first."""

    lines: tuple[RefundLine, ...]
    deduction_minor: int = 0
    reasons: tuple[Reason, ...] = ()  # why it is less, or a person has to look

    @property
    def amount_minor(self) -> int:
        return sum(line.amount_minor for line in self.lines)


def allocate(wish: Wish, assessment: Assessment) -> Allocation:
    """What the wish comes to, line by line.

    Raises:
        InvalidInput: wishes that exclude each other.
        RefundRefused: unknown, kept or excluded line, no or too many units, amount not positive or
            too high, or nothing left of it once a lost promotion is taken off.
    """
    if wish.units is not None and wish.amount_minor is not None:
        raise InvalidInput("amount", "cannot be given together with lines; give one of them")
    if wish.overpaid:
        return _overpaid(wish, assessment)
    found = _goods(wish, assessment)
    lines = _in_order((*found.lines, *_shipping(wish, assessment, found.lines)), assessment)
    amount = sum(line.amount_minor for line in lines)
    if amount <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    _check_room(amount, assessment.left_minor, assessment)
    _check_reached(wish, found.amount_minor, amount, assessment)
    return Allocation(lines=lines, deduction_minor=found.deduction_minor, reasons=found.reasons)


def _in_order(lines: Sequence[RefundLine], assessment: Assessment) -> tuple[RefundLine, ...]:
    by_id = {line.line_id: line for line in lines}
    return tuple(by_id[line.line_id] for line in assessment.lines if line.line_id in by_id)


def _check_room(amount: int, room: int, assessment: Assessment) -> None:
    if amount > room:
        most = format_money(min(room, assessment.max_refundable_minor), assessment.currency)
        raise RefundRefused(Reason.AMOUNT_TOO_HIGH, max=most)


def _check_reached(wish: Wish, goods: int, amount: int, assessment: Assessment) -> None:
    """An amount that falls between the goods and all of it is refused, never rounded down."""
    if wish.amount_minor is None or wish.amount_minor == amount:
        return
    most = goods if wish.with_shipping else amount
    if most < wish.amount_minor:
        raise RefundRefused(Reason.AMOUNT_TOO_HIGH, max=format_money(most, assessment.currency))


def _overpaid(wish: Wish, assessment: Assessment) -> Allocation:
    if wish.units is not None or wish.with_shipping:
        raise InvalidInput("overpaid", "cannot be given together with lines or shipping")
    room = assessment.overpaid_minor
    amount = room if wish.amount_minor is None else wish.amount_minor
    if amount > room or not room:
        if assessment.verdict is Verdict.INELIGIBLE and not room:
            raise RefundRefused(assessment.reasons[0], **assessment.facts)
        raise RefundRefused(Reason.AMOUNT_TOO_HIGH, max=format_money(room, assessment.currency))
    if amount <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    line = RefundLine(line_id=OVERPAID, units=0, amount_minor=amount)
    return Allocation(lines=(line,), reasons=(Reason.OVERPAID,))


def _goods(wish: Wish, assessment: Assessment) -> Allocation:
    """The goods' part of the wish, in no particular order; may be empty."""
    goods = [line for line in assessment.lines if line.kind is LineKind.GOODS]
    askable = [line for line in goods if line.verdict in ASKABLE]
    if wish.units is not None:
        return _by_units(_checked(wish.units, assessment), goods, assessment.promotion)
    if wish.amount_minor is not None and not _is_all_of_it(wish.amount_minor, assessment):
        return Allocation(lines=_by_amount(wish.amount_minor, assessment, askable))
    if assessment.promotion is not None:
        everything = {line.line_id: line.units_left for line in askable}
        return _by_units(everything, goods, assessment.promotion)
    parts = (
        RefundLine(line_id=a.line_id, units=a.units_left, amount_minor=a.refundable_minor)
        for a in askable
    )
    return Allocation(lines=tuple(part for part in parts if part.amount_minor > 0))


def _is_all_of_it(amount: int, assessment: Assessment) -> bool:
    """Who names the whole amount asks for everything, units, gifts and shipping too."""
    return amount == all_of_it(assessment.lines, assessment.promotion)


def _by_amount(
    amount: int, assessment: Assessment, askable: Sequence[LineAssessment]
) -> tuple[RefundLine, ...]:
    """Over the goods alone: what they have no room for is left to shipping, where it goes back."""
    if amount <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    _check_room(amount, assessment.max_refundable_minor, assessment)
    rooms = [line.refundable_minor for line in askable]
    parts = spread(min(amount, sum(rooms)), rooms)
    return tuple(
        RefundLine(line_id=line.line_id, units=0, amount_minor=part)
        for line, part in zip(askable, parts, strict=True)
        if part > 0
    )


def _checked(units: Mapping[str, int], assessment: Assessment) -> dict[str, int]:
    """The units of goods by line, once every named line allows them."""
    verdicts = {line.line_id: line for line in assessment.lines}
    unknown = [line_id for line_id in units if line_id not in verdicts]
    if unknown or not units:
        line_id = unknown[0] if unknown else ""
        raise RefundRefused(Reason.LINE_UNKNOWN, line_id=line_id, known=", ".join(verdicts))
    for line in assessment.lines:
        if line.line_id in units:
            _check_line(line, units[line.line_id], assessment)
    return {id_: n for id_, n in units.items() if verdicts[id_].kind is LineKind.GOODS}


def _check_line(verdict: LineAssessment, units: int, assessment: Assessment) -> None:
    if units <= 0:
        raise RefundRefused(Reason.QUANTITY_INVALID, line_id=verdict.line_id)
    if verdict.kind is LineKind.GOODS and verdict.verdict not in ASKABLE:
        raise RefundRefused(verdict.reasons[0], **{**assessment.facts, **verdict.facts})
    if units > verdict.units_left:
        raise RefundRefused(
            Reason.QUANTITY_TOO_HIGH, line_id=verdict.line_id, left=verdict.units_left
        )


def _by_units(
    asked: Mapping[str, int], goods: Sequence[LineAssessment], stake: PromotionAtStake | None
) -> Allocation:
    if stake is not None:
        return _by_settling(asked, goods, stake)
    parts = (
        RefundLine(
            line_id=line.line_id,
            units=asked[line.line_id],
            # Money may have been given back without units before; never more than is left.
            amount_minor=min(
                _units_amount(line.balance, asked[line.line_id]), line.refundable_minor
            ),
        )
        for line in goods
        if line.line_id in asked
    )
    return Allocation(lines=tuple(part for part in parts if part.amount_minor > 0))


def _units_amount(balance: LineBalance, units: int) -> int:
    due = line_part(
        line_total=balance.total_minor,
        quantity=balance.quantity,
        done=balance.units_taken,
        units=units,
    )
    return max(0, due - balance.taken_minor)


def _by_settling(
    asked: Mapping[str, int], goods: Sequence[LineAssessment], stake: PromotionAtStake
) -> Allocation:
    if not asked:  # nothing may be asked for, so nothing that was held back goes along either
        return Allocation(lines=())
    settled = settle(stake, [line.balance for line in goods], asked)
    if settled.deduction_minor and settled.due_minor <= 0:
        raise RefundRefused(Reason.PROMOTION_LOST)
    return Allocation(
        lines=settled.parts,
        deduction_minor=settled.deduction_minor,
        reasons=(Reason.PROMOTION_LOST,) if settled.deduction_minor else (),
    )


def _shipping(
    wish: Wish, assessment: Assessment, goods: Sequence[RefundLine]
) -> tuple[RefundLine, ...]:
    """The shipping lines that go back with these goods, by the policy's rule or a word of staff."""
    lines = [line for line in assessment.lines if line.kind is LineKind.SHIPPING]
    if wish.with_shipping and not lines:
        known = ", ".join(line.line_id for line in assessment.lines)
        raise RefundRefused(Reason.LINE_UNKNOWN, line_id=LineKind.SHIPPING, known=known)
    full = not keeps_goods(assessment.lines, goods, assessment.promotion)
    left = _left_for_shipping(wish, goods)
    parts = []
    for line in lines:
        reason = _shipping_refusal(line, by_word=wish.with_shipping, full=full)
        wanted = wish.with_shipping or line.line_id in (wish.units or {})
        if reason is not None and wanted:
            raise RefundRefused(reason, **{**assessment.facts, **line.facts})
        room = line.balance.left_minor
        amount = room if reason is None else 0
        if left is not None:
            amount = min(amount, left)
            left -= amount
        units = line.balance.units_kept if amount == room else 0
        parts.append(RefundLine(line_id=line.line_id, units=units, amount_minor=amount))
    return tuple(part for part in parts if part.amount_minor > 0)


def _left_for_shipping(wish: Wish, goods: Sequence[RefundLine]) -> int | None:
    """What an amount leaves once the goods have their part; None where shipping is not bounded."""
    if wish.amount_minor is None or wish.with_shipping:
        return None
    return wish.amount_minor - sum(part.amount_minor for part in goods)


def _shipping_refusal(line: LineAssessment, *, by_word: bool, full: bool) -> Reason | None:
    if line.verdict not in ASKABLE:
        reason = line.reasons[0]
        return None if by_word and reason is Reason.SHIPPING_KEPT else reason
    return None if by_word or full else Reason.SHIPPING_KEPT


def still_fits(
    lines: Sequence[RefundLine], assessment: Assessment, *, shipping_by_word: bool = False
) -> bool:
    """Whether lines that were allocated earlier can still be refunded exactly as they are.

    `shipping_by_word`: a person gave shipping back, or the rule for it was judged before.
    """
    now = {line.line_id: line for line in assessment.lines}
    if any(part.line_id not in now and part.line_id != OVERPAID for part in lines):
        return False
    goods = [part for part in lines if _is(LineKind.GOODS, part, now)]
    shipping = [part for part in lines if _is(LineKind.SHIPPING, part, now)]
    overpaid = sum(part.amount_minor for part in lines if part.line_id == OVERPAID)
    full = not keeps_goods(assessment.lines, goods, assessment.promotion)
    return (
        sum(part.amount_minor for part in lines) <= assessment.left_minor
        and overpaid <= assessment.overpaid_minor
        and all(_goods_fit(part, now[part.line_id]) for part in goods)
        and all(
            part.amount_minor <= now[part.line_id].balance.left_minor
            and _shipping_refusal(now[part.line_id], by_word=shipping_by_word, full=full) is None
            for part in shipping
        )
        and _promotion_allows(goods, assessment)
    )


def _is(kind: LineKind, part: RefundLine, now: Mapping[str, LineAssessment]) -> bool:
    return part.line_id in now and now[part.line_id].kind is kind


def _goods_fit(part: RefundLine, line: LineAssessment) -> bool:
    if line.verdict not in ASKABLE:  # only what an earlier return was owed
        return not part.units and part.amount_minor <= line.held_minor
    room = line.refundable_minor + line.held_minor
    return part.units <= line.units_left and part.amount_minor <= room


def _promotion_allows(goods: Sequence[RefundLine], assessment: Assessment) -> bool:
    stake = assessment.promotion
    if stake is None:
        return True
    asked = {part.line_id: part.units for part in goods if part.units}
    room = (
        settle(stake, [line.balance for line in assessment.lines], asked).due_minor
        if asked
        else all_of_it(assessment.lines, stake)
    )
    return sum(part.amount_minor for part in goods) <= room

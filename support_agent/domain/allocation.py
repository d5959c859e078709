"""Which lines, how many units and which payment an asked-for refund comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.money import format_money, line_part, spread
from support_agent.domain.orders import Order, Payment
from support_agent.domain.policy import (
    Assessment,
    LineAssessment,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Verdict,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine

ASKABLE = frozenset({Verdict.ELIGIBLE, Verdict.NEEDS_REVIEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the customer wants: named units, an amount in minor units, or (both None) all of it."""

    units: Mapping[str, int] | None = None
    amount_minor: int | None = None


def allocate(
    wish: Wish, order: Order, books: OrderBooks, assessment: Assessment
) -> tuple[RefundLine, ...]:
    """The exact lines of a refund, in the order's own order.

    Raises:
        InvalidInput: both units and an amount were given.
        RefundRefused: unknown or excluded line, too many units, amount not positive or too high.
    """
    if wish.units is not None and wish.amount_minor is not None:
        raise InvalidInput("amount", "cannot be given together with lines; give one of them")
    askable = [line for line in assessment.lines if line.verdict in ASKABLE]
    if wish.units is not None:
        parts = _by_units(wish.units, order, books, assessment)
    elif wish.amount_minor is not None:
        parts = _by_amount(wish.amount_minor, assessment, askable)
    else:
        parts = [
            RefundLine(line_id=a.line_id, units=a.units_left, amount_minor=a.refundable_minor)
            for a in askable
        ]
    lines = tuple(part for part in parts if part.amount_minor > 0)
    amount = sum(line.amount_minor for line in lines)
    if amount <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    _check_room(amount, assessment)
    return lines


def _check_room(amount: int, assessment: Assessment) -> None:
    if amount > assessment.max_refundable_minor:
        most = format_money(assessment.max_refundable_minor, assessment.currency)
        raise RefundRefused(Reason.AMOUNT_TOO_HIGH, max=most)


def _by_amount(
    amount: int, assessment: Assessment, askable: Sequence[LineAssessment]
) -> list[RefundLine]:
    if amount <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    _check_room(amount, assessment)
    parts = spread(amount, [line.refundable_minor for line in askable])
    return [
        RefundLine(line_id=line.line_id, units=0, amount_minor=part)
        for line, part in zip(askable, parts, strict=True)
    ]


def _by_units(
    units: Mapping[str, int],
    order: Order,
    books: OrderBooks,
    assessment: Assessment,
) -> list[RefundLine]:
    verdicts = {line.line_id: line for line in assessment.lines}
    unknown = [line_id for line_id in units if line_id not in verdicts]
    if unknown or not units:
        line_id = unknown[0] if unknown else ""
        raise RefundRefused(Reason.LINE_UNKNOWN, line_id=line_id, known=", ".join(verdicts))
    balances = {balance.line_id: balance for balance in books.lines}
    parts = []
    for line in order.lines:
        if line.id not in units:
            continue
        verdict = verdicts[line.id]
        _check_line(verdict, units[line.id], assessment)
        balance = balances.get(line.id) or LineBalance(
            line_id=line.id, total_minor=line.total_minor, quantity=line.quantity
        )
        amount = _units_amount(balance, units[line.id])
        # Money may have been given back without units before; never more than the line has left.
        amount = min(amount, verdict.refundable_minor)
        parts.append(RefundLine(line_id=line.id, units=units[line.id], amount_minor=amount))
    return parts


def _check_line(verdict: LineAssessment, units: int, assessment: Assessment) -> None:
    if units <= 0:
        raise RefundRefused(Reason.AMOUNT_INVALID)
    if verdict.verdict not in ASKABLE:
        raise RefundRefused(verdict.reasons[0], **{**assessment.facts, **verdict.facts})
    if units > verdict.units_left:
        raise RefundRefused(
            Reason.QUANTITY_TOO_HIGH, line_id=verdict.line_id, left=verdict.units_left
        )


def _units_amount(balance: LineBalance, units: int) -> int:
    due = line_part(
        line_total=balance.total_minor,
        quantity=balance.quantity,
        done=balance.units_taken,
        units=units,
    )
    return max(0, due - balance.reserved_minor - balance.refunded_minor)


def choose_payment(order: Order, books: OrderBooks, amount: int) -> Payment:
    """The payment that carries the whole amount: the one taken first that has room.

    Raises:
        RefundRefused: SPLIT_PAYMENT when no single payment has room for it.
    """
    rooms = _rooms(order, books)
    for payment in order.payments:
        if rooms[payment.id] >= amount:
            return payment
    most = format_money(max(rooms.values(), default=0), order.currency)
    raise RefundRefused(Reason.SPLIT_PAYMENT, max=most)


def payment_with_room(
    order: Order, books: OrderBooks, payment_id: str, amount: int
) -> Payment | None:
    """That very payment if it is still the order's and has room for the amount."""
    rooms = _rooms(order, books)
    for payment in order.payments:
        if payment.id == payment_id and rooms[payment.id] >= amount:
            return payment
    return None


def _rooms(order: Order, books: OrderBooks) -> dict[str, int]:
    """What each payment can still give back, in minor units; 0 while disputed or frozen."""
    balances = {balance.payment_id: balance for balance in books.payments}
    rooms = {}
    for payment in order.payments:
        balance = balances.get(payment.id) or PaymentBalance(
            payment_id=payment.id, captured_minor=payment.captured_minor
        )
        blocked = payment.disputed or balance.disputed or balance.frozen
        rooms[payment.id] = 0 if blocked else balance.left_minor
    return rooms


def still_fits(lines: Sequence[RefundLine], assessment: Assessment) -> bool:
    """Whether lines that were allocated earlier can still be refunded exactly as they are."""
    now = {line.line_id: line for line in assessment.lines}
    each = all(
        line.line_id in now
        and now[line.line_id].verdict in ASKABLE
        and line.units <= now[line.line_id].units_left
        and line.amount_minor <= now[line.line_id].refundable_minor
        for line in lines
    )
    return each and sum(line.amount_minor for line in lines) <= assessment.max_refundable_minor


def destination_of(payment: Payment) -> str:
    """Where the money goes: back to the instrument it came from."""
    return f"{payment.gateway}:{payment.account}:{payment.gateway_payment_id}"

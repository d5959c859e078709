"""Which payments a refund goes back to, each up to what it still holds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from support_agent.domain.errors import RefundRefused
from support_agent.domain.money import format_money
from support_agent.domain.orders import OVERPAID, Order, Payment
from support_agent.domain.policy import OrderBooks, PaymentBalance, Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentPart:
    """What goes back to one payment. Its lines add up to its amount."""

    payment: Payment
    lines: tuple[RefundLine, ...]
    amount_minor: int


def split_over_payments(
    order: Order, books: OrderBooks, lines: Sequence[RefundLine], policy: Policy
) -> tuple[PaymentPart, ...]:
    """The lines, dealt to the payments in the policy's tender order.

    Without a tender order the first payment that can carry all of it does; where none can, they
    give in the order in which they were taken. What was overpaid goes back to the payment taken
    last. Money only ever returns to the payment it came from, so a gift card's stays on the card.
    A line's units stand once, with the part that holds most of its money.

    Raises:
        RefundRefused: AMOUNT_TOO_HIGH when all payments together have no room for it.
    """
    amount = sum(line.amount_minor for line in lines)
    rooms = _rooms(order, books)
    if amount > sum(rooms.values()):
        most = format_money(sum(rooms.values()), order.currency)
        raise RefundRefused(Reason.AMOUNT_TOO_HIGH, max=most)
    if all(line.line_id == OVERPAID for line in lines):
        tenders: Iterable[Payment] = reversed(order.payments)
    elif policy.tender_order:
        tenders = _in_tender_order(order, policy)
    else:
        carrier = next((p for p in order.payments if rooms[p.id] >= amount), None)
        tenders = (carrier,) if carrier else order.payments
    return _deal(_shares(tenders, rooms, amount), lines)


def payment_with_room(
    order: Order, books: OrderBooks, payment_id: str, amount: int
) -> Payment | None:
    """That very payment if it is still the order's and has room for the amount."""
    rooms = _rooms(order, books)
    for payment in order.payments:
        if payment.id == payment_id and rooms[payment.id] >= amount:
            return payment
    return None


def destination_of(payment: Payment) -> str:
    """Where the money goes: back to the instrument it came from."""
    return f"{payment.gateway}:{payment.account}:{payment.gateway_payment_id}"


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


def _in_tender_order(order: Order, policy: Policy) -> list[Payment]:
    """Methods that the policy does not name come last, as they were taken."""
    ranks = {method: rank for rank, method in enumerate(policy.tender_order)}
    return sorted(order.payments, key=lambda payment: ranks.get(payment.method, len(ranks)))


def _shares(
    tenders: Iterable[Payment], rooms: Mapping[str, int], amount: int
) -> list[tuple[Payment, int]]:
    shares = []
    for payment in tenders:
        share = min(amount, rooms[payment.id])
        if share > 0:
            shares.append((payment, share))
            amount -= share
    return shares


def _deal(
    shares: Sequence[tuple[Payment, int]], lines: Sequence[RefundLine]
) -> tuple[PaymentPart, ...]:
    """Line after line into share after share, each share filled before the next."""
    dealt: list[list[RefundLine]] = [[] for _ in shares]
    at, room = 0, shares[0][1] if shares else 0
    for line in lines:
        pieces: dict[int, int] = {}
        left = line.amount_minor
        while left > room:
            pieces[at] = room
            left, at = left - room, at + 1
            room = shares[at][1]
        pieces[at] = left
        room -= left
        # The later of two equal pieces: it is the one that completes the line.
        holder = max(pieces, key=lambda piece: (pieces[piece], piece))
        for piece, minor in pieces.items():
            units = line.units if piece == holder else 0
            if minor or units:
                part = RefundLine(line_id=line.line_id, units=units, amount_minor=minor)
                dealt[piece].append(part)
    return tuple(
        PaymentPart(payment=payment, lines=tuple(parts), amount_minor=share)
        for (payment, share), parts in zip(shares, dealt, strict=True)
    )

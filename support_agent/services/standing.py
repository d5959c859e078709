"""Whether a filed request still stands: its record is as written, and its order allows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.allocation import still_fits
from support_agent.domain.assessment import assess
from support_agent.domain.audit import holds
from support_agent.domain.errors import HistoryBroken
from support_agent.domain.money import format_money
from support_agent.domain.offers import merged
from support_agent.domain.orders import OVERPAID, LineKind, Order
from support_agent.domain.policy import (
    Assessment,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Policy,
    ShippingRule,
    Verdict,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import OPEN, RefundLine, RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.domain.tenders import payment_with_room
from support_agent.ports.storage import Transaction
from support_agent.services.request_facts import agrees
from support_agent.services.stored_requests import group_of, moved_meanwhile

REQUESTS = "refund"  # the topic under which the audit keeps the newest event of a request
TAKES = OPEN | {RequestStatus.REFUNDED}  # what holds or was paid


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a request may not go on; `facts` fill the reason's sentence."""

    reason: Reason
    facts: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def is_tampered(tx: Transaction, request: RefundRequest, keys: KeyRing) -> bool:
    """Whether the row is not what its newest audit event says, or nothing proves which that is.

    Who can write the database can write a status, and can bring an old approval back by undoing a
    cancellation. He cannot sign the event that would have to go with it, nor hide the one that
    speaks against it. A row that changed while we looked is no forgery yet, and nothing to go on
    with either: it could be changed back before we move it.

    Raises:
        AlreadyDecided, RequestNotFound: the row is not what it was when the request was read.
        ConfigurationError: the history has no index yet.
    """
    try:
        row = tx.audit.vouched(REQUESTS, request.id)
    except HistoryBroken:
        return True
    if row is not None and holds(keys, row) and agrees(request, row.event.data):
        return False
    if tx.requests.get(request.id) != request:
        raise moved_meanwhile(tx, request.id)
    return True


def is_of(request: RefundRequest, order: Order) -> bool:
    """Whether an adapter gave the order that was asked for, and it is still the same customer's."""
    return (order.id, order.customer_id) == (request.order_id, request.customer_id)


def judge_again(
    tx: Transaction,
    request: RefundRequest,
    order: Order | None,
    policy: Policy,
    now: datetime,
) -> Assessment | Objection:
    """Balance, dispute and status as they are now, without the request's own reserve.

    What may be returned and until when, what came back, shipping and a promotion that is lost were
    judged at filing: waiting for us must not cost the customer the refund.
    """
    if order is None or not is_of(request, order):
        return Objection(reason=Reason.STATUS_UNKNOWN)
    books = tx.books.of_order(order.id, without_request=request.id)
    assessment = assess(order, books, _judged_before(policy), now)
    if objection := _objection(request.lines, assessment):
        return objection
    if payment_with_room(order, books, request.payment_id, request.amount_minor) is None:
        return _too_high(assessment)
    return assessment


def judge_returned(
    tx: Transaction, request: RefundRequest, order: Order, policy: Policy, now: datetime
) -> Objection | None:
    """What came back and a promotion that is lost, of a request that holds nothing any more.

    Others may have been filed since without it in view. It is judged together with what was filed
    with it, as it was then: a line's units may stand with another part than some of its money.
    """
    parts = tuple(m for m in group_of(tx, request) if m.id != request.id and m.status in TAKES)
    books = _without(tx.books.of_order(order.id), parts)
    rules = replace(
        _judged_before(policy), clawback=policy.clawback, return_required=policy.return_required
    )
    lines = merged(part.lines for part in (request, *parts))
    return _objection(lines, assess(order, books, rules, now))


def _objection(lines: Sequence[RefundLine], assessment: Assessment) -> Objection | None:
    alone = _is_overpaid(lines, assessment) or _is_kept_shipping(lines, assessment)
    if assessment.verdict is Verdict.INELIGIBLE and not alone:
        return Objection(reason=assessment.reasons[0], facts=assessment.facts)
    if not still_fits(lines, assessment, shipping_by_word=True):
        return _too_high(assessment)
    return None


def _too_high(assessment: Assessment) -> Objection:
    most = format_money(assessment.max_refundable_minor, assessment.currency)
    return Objection(reason=Reason.AMOUNT_TOO_HIGH, facts={"max": most})


def _without(books: OrderBooks, parts: Sequence[RefundRequest]) -> OrderBooks:
    """The books as if these, which hold or were paid, had never been filed."""
    taken = {line.line_id: line for line in merged(part.lines for part in parts)}
    return replace(
        books,
        lines=tuple(
            _line_without(line, taken[line.line_id]) if line.line_id in taken else line
            for line in books.lines
        ),
        payments=tuple(
            _payment_without(p, sum(m.amount_minor for m in parts if m.payment_id == p.payment_id))
            for p in books.payments
        ),
    )


def _line_without(line: LineBalance, taken: RefundLine) -> LineBalance:
    reserved = min(line.reserved_minor, taken.amount_minor)
    return replace(
        line,
        reserved_minor=line.reserved_minor - reserved,
        refunded_minor=line.refunded_minor - (taken.amount_minor - reserved),
        units_taken=line.units_taken - taken.units,
    )


def _payment_without(payment: PaymentBalance, minor: int) -> PaymentBalance:
    reserved = min(payment.reserved_minor, minor)
    return replace(
        payment,
        reserved_minor=payment.reserved_minor - reserved,
        refunded_minor=payment.refunded_minor - (minor - reserved),
    )


def _judged_before(policy: Policy) -> Policy:
    """The policy without the rules that are asked once, at filing."""
    return replace(
        policy,
        window_days=None,
        excluded_categories=frozenset(),
        shipping=ShippingRule.FULL_RETURN,
        clawback=False,
        return_required=False,
    )


def _is_overpaid(lines: Sequence[RefundLine], assessment: Assessment) -> bool:
    """Whether it gives back only what was taken beyond the order's total, and that is still there.

    It was never owed: the order's status and dates have no say in it.
    """
    only = all(line.line_id == OVERPAID for line in lines)
    return only and sum(line.amount_minor for line in lines) <= assessment.overpaid_minor


def _is_kept_shipping(lines: Sequence[RefundLine], assessment: Assessment) -> bool:
    """Whether it gives back only shipping, which nothing but the rule for it speaks against.

    A person gave it by word, beside goods that other requests hold or paid back by now.
    """
    kept = {
        line.line_id
        for line in assessment.lines
        if line.kind is LineKind.SHIPPING and line.reasons == (Reason.SHIPPING_KEPT,)
    }
    return all(line.line_id in kept for line in lines)

"""Whether a filed request still stands: its record is as written, and its order allows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.allocation import payment_with_room, still_fits
from support_agent.domain.assessment import assess
from support_agent.domain.audit import AuditRow, holds
from support_agent.domain.money import format_money
from support_agent.domain.orders import Order
from support_agent.domain.policy import Assessment, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction
from support_agent.services.refunds import agrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a request may not go on; `facts` fill the reason's sentence."""

    reason: Reason
    facts: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def is_tampered(tx: Transaction, request: RefundRequest, keys: KeyRing) -> bool:
    """Whether the row is not what its newest audit event says, or that event is not ours.

    Who can write the database can write a status, and can bring an old approval back by undoing a
    cancellation. He cannot sign the event that would have to go with it, nor hide the one that
    speaks against it: the chain is walked from the event found to the head, so the cost grows with
    what happened in the shop since the request's last event. A row that somebody moved while we
    looked is no forgery: versions only grow, so it is read again to tell the two apart.
    """
    row = tx.audit.latest_for(request.id, prefix="refund.")
    if row is not None and agrees(request, row.event.data) and _reaches_head(tx, row, keys):
        return False
    return tx.requests.get(request.id) == request


def _reaches_head(tx: Transaction, row: AuditRow, keys: KeyRing) -> bool:
    """Whether every event from `row` to the head is ours and follows the one before it."""
    head = tx.audit.head()  # before the rows: what is appended meanwhile is beyond it
    last, unbroken = row, holds(keys, row)
    for later in tx.audit.rows(after=row.seq):  # to the end, or the cursor would stay open
        if unbroken and last.seq < head.seq:
            follows = (later.seq, later.prev_mac) == (last.seq + 1, last.mac)
            last, unbroken = later, follows and holds(keys, later)
    return unbroken and (last.seq, last.mac) == (head.seq, head.mac)


def is_of(request: RefundRequest, order: Order) -> bool:
    """Whether an adapter gave the order that was asked for, and it is still the same customer's."""
    return (order.id, order.customer_id) == (request.order_id, request.customer_id)


def judge_again(
    tx: Transaction, request: RefundRequest, order: Order | None, policy: Policy, now: datetime
) -> Assessment | Objection:
    """Balance, dispute and status as they are now, without the request's own reserve.

    What may be returned and until when was judged at filing: waiting for us must not cost the
    customer the refund.
    """
    if order is None or not is_of(request, order):
        return Objection(reason=Reason.STATUS_UNKNOWN)
    books = tx.books.of_order(order.id, without_request=request.id)
    terms = replace(policy, window_days=None, excluded_categories=frozenset())
    assessment = assess(order, books, terms, now)
    if assessment.verdict is Verdict.INELIGIBLE:
        return Objection(reason=assessment.reasons[0], facts=assessment.facts)
    payment = payment_with_room(order, books, request.payment_id, request.amount_minor)
    if payment is None or not still_fits(request.lines, assessment):
        most = format_money(assessment.max_refundable_minor, request.currency)
        return Objection(reason=Reason.AMOUNT_TOO_HIGH, facts={"max": most})
    return assessment

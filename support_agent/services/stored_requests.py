"""Refund requests as they are stored: one, its group, what it holds, and why it has moved."""

from datetime import datetime

from support_agent.domain.errors import (
    AlreadyDecided,
    RequestNotFound,
)
from support_agent.domain.people import Asker
from support_agent.domain.refunds import (
    RefundRequest,
    RequestStatus,
)
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Posting, Transaction
from support_agent.services.order_lookup import foreign_access

S = RequestStatus


def stored_request(tx: Transaction, request_id: str) -> RefundRequest:
    """The request as its row is now.

    Raises:
        RequestNotFound: unknown id.
    """
    request = tx.requests.get(request_id)
    if request is None:
        raise RequestNotFound(request_id)
    return request


def group_of(tx: Transaction, request: RefundRequest) -> tuple[RefundRequest, ...]:
    """The requests that were filed with it, itself among them, in the order of filing.

    Of another order or customer nothing is one refund with it, whatever a row says.
    """
    whose = (request.order_id, request.customer_id)
    members = tx.requests.of_group(request.group_id)
    return tuple(m for m in members if (m.order_id, m.customer_id) == whose)


def posting_of(request: RefundRequest, at: datetime) -> Posting:
    """The ledger's view of a request."""
    return Posting(
        request_id=request.id,
        round=request.round,
        order_id=request.order_id,
        payment_id=request.payment_id,
        lines=request.lines,
        amount_minor=request.amount_minor,
        currency=request.currency,
        at=at,
    )


def moved_meanwhile(tx: Transaction, request_id: str) -> AlreadyDecided | RequestNotFound:
    """Why a request is no longer where it was: re-read, with who decided and when."""
    request = tx.requests.get(request_id)
    if request is None:
        return RequestNotFound(request_id)
    # An approver may have said something before the customer, or time, ended it.
    by_others = request.status in {S.CANCELLED, S.EXPIRED}
    decisions = [d for d in tx.decisions.of(request_id) if d.round == request.round]
    last = decisions[-1] if decisions and not by_others else None
    return AlreadyDecided(
        request_id,
        status=request.status,
        by=last.name if last else None,
        at=last.at if last else None,
    )


def note_foreign_request(tx: Transaction, request_id: str, asker: Asker, clock: Clock) -> bool:
    """Leave the audit event if the request exists and is somebody else's."""
    request = tx.requests.get(request_id)
    if request is None or request.customer_id == asker.customer_id:
        return False
    tx.audit.append(foreign_access("request", request_id, asker, clock))
    return True

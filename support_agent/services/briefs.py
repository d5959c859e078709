"""What an approver is shown before deciding: computed facts first, the customer's words last."""

from dataclasses import dataclass
from datetime import datetime

from support_agent.domain.approvals import Decision, check_may_decide, check_reach
from support_agent.domain.assessment import assess
from support_agent.domain.conversation import Author, Message
from support_agent.domain.errors import NotAuthorised, RefundRefused
from support_agent.domain.orders import Order
from support_agent.domain.people import Approver
from support_agent.domain.policy import Assessment, OrderBooks, Policy
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.standing import is_of

MOST_EARLIER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What an approver needs to see: computed facts, and last the customer's own words."""

    request: RefundRequest
    order: Order | None
    assessment: Assessment | None
    books: OrderBooks
    policy: Policy
    decisions: tuple[Decision, ...]
    earlier: tuple[RefundRequest, ...]  # the customer's other requests
    deciders: tuple[str, ...]  # approvers whose level and limit reach, and who have not decided yet
    customer_words: tuple[Message, ...]  # untrusted; nothing in them changes a limit

    @property
    def cumulative_minor(self) -> int:
        return self.books.taken_minor


def brief_of(
    tx: Transaction, request: RefundRequest, order: Order | None, policy: Policy, now: datetime
) -> Brief:
    """The facts of a request as they are now; `order` was read before the transaction."""
    if order is not None and not is_of(request, order):
        order = None
    books = tx.books.of_order(request.order_id)
    without = tx.books.of_order(request.order_id, without_request=request.id)
    decisions = tx.decisions.of(request.id)
    mine = RequestFilter(customer_id=request.customer_id)
    earlier = tx.requests.list(mine, limit=MOST_EARLIER).data
    decided = {d.person_id for d in decisions if d.round == request.round}
    known = tx.people.list()
    pending = request.status is RequestStatus.PENDING_APPROVAL
    return Brief(
        request=request,
        order=order,
        assessment=assess(order, without, policy, now) if order else None,
        books=books,
        policy=policy,
        decisions=decisions,
        earlier=tuple(other for other in earlier if other.id != request.id),
        deciders=tuple(
            approver.name
            for approver in known
            if pending
            and approver.person_id not in decided
            and _may(approver, request, policy, books.taken_minor, known)
        ),
        customer_words=_customer_words(tx, request),
    )


def _may(
    approver: Approver,
    request: RefundRequest,
    policy: Policy,
    cumulative: int,
    known: tuple[Approver, ...],
) -> bool:
    try:
        check_may_decide(approver, request, known=known)
        check_reach(approver, request, policy, cumulative_minor=cumulative)
    except (NotAuthorised, RefundRefused):
        return False
    return True


def _customer_words(tx: Transaction, request: RefundRequest) -> tuple[Message, ...]:
    if request.conversation_id is None:
        return ()
    messages = tx.conversations.messages(request.conversation_id)
    return tuple(message for message in messages if message.author is Author.CUSTOMER)

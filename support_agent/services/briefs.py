"""What an approver is shown before deciding: computed facts first, others' words last."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from support_agent.domain.approvals import Decision
from support_agent.domain.assessment import assess
from support_agent.domain.conversation import Author, Message
from support_agent.domain.orders import Order
from support_agent.domain.policy import Assessment, OrderBooks, Policy
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.runs import CallTools
from support_agent.ports.storage import Page, PayoutDestination, RequestFilter, Transaction
from support_agent.services.deciding import deciders_of, pending_members
from support_agent.services.destinations import text_of
from support_agent.services.standing import is_of
from support_agent.services.stored_requests import group_of

MOST_EARLIER = 10
FILED_BY = "request_refund"  # the tool whose call made the request


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the model did about the request, and why it says it did: untrusted, as it came."""

    tool: str
    arguments: str
    thought: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """Computed facts, and last the words of others; nothing in those changes a limit."""

    request: RefundRequest
    group: tuple[RefundRequest, ...]  # the others it is decided with
    order: Order | None
    assessment: Assessment | None
    books: OrderBooks
    policy: Policy
    decisions: tuple[Decision, ...]
    earlier: tuple[RefundRequest, ...]  # the customer's other requests
    deciders: tuple[str, ...]  # approvers whose level and limit reach, and who have not decided yet
    account: PayoutDestination | None  # the bank account it goes to; None: back where it came from
    conversation: tuple[Message, ...]
    proposals: tuple[Proposal, ...]

    @property
    def cumulative_minor(self) -> int:
        return self.books.taken_minor

    @property
    def destination(self) -> str:
        """Where the money goes, an account number masked."""
        return self.account.masked if self.account else self.request.destination

    @property
    def customer_words(self) -> tuple[Message, ...]:
        return tuple(m for m in self.conversation if m.author is Author.CUSTOMER)

    @property
    def is_held(self) -> bool:
        """Whether the customer was asked something and has not written since."""
        return _waits_for_answer(self.request, self.conversation)


def brief_of(
    tx: Transaction, request: RefundRequest, order: Order | None, policy: Policy, now: datetime
) -> Brief:
    """The facts of a request as they are now; `order` was read before the transaction."""
    if order is not None and not is_of(request, order):
        order = None
    without = tx.books.of_order(request.order_id, without_request=request.id)
    group = group_of(tx, request)
    pending = request.status is RequestStatus.PENDING_APPROVAL
    return Brief(
        request=request,
        group=tuple(member for member in group if member.id != request.id),
        order=order,
        assessment=assess(order, without, policy, now) if order else None,
        books=tx.books.of_order(request.order_id),
        policy=policy,
        decisions=tx.decisions.of(request.id),
        earlier=_earlier(tx, request, group),
        deciders=deciders_of(tx, pending_members(tx, request), policy) if pending else (),
        account=_account(tx, request),
        conversation=_conversation(tx, request),
        proposals=tuple(_proposals(tx, request)),
    )


def queue_page(
    tx: Transaction, where: RequestFilter, *, limit: int, cursor: str | None
) -> tuple[Page[RefundRequest], frozenset[str]]:
    """A page of the queue, and the ids of those in it that wait for their customer's answer."""
    page = tx.requests.list(where, limit=limit, cursor=cursor)
    return page, held_among(tx, page.data)


def held_among(tx: Transaction, requests: Sequence[RefundRequest]) -> frozenset[str]:
    """Ids of those whose customer was asked something and has not written since."""
    questions = {
        request.id: (request.conversation_id, request.asked_at)
        for request in requests
        if request.asked_at is not None
        and request.conversation_id is not None
        and request.status is RequestStatus.PENDING_APPROVAL
    }
    answered = tx.conversations.answered([*questions.values()]) if questions else frozenset()
    return frozenset(id_ for id_, question in questions.items() if question not in answered)


def _waits_for_answer(request: RefundRequest, conversation: Sequence[Message]) -> bool:
    asked = request.asked_at
    if asked is None or request.status is not RequestStatus.PENDING_APPROVAL:
        return False
    questions = [m.seq for m in conversation if m.author is Author.STAFF and m.at == asked]
    answers = (m.seq for m in conversation if m.author is Author.CUSTOMER)
    return not any(seq > max(questions, default=0) for seq in answers)


def _earlier(
    tx: Transaction, request: RefundRequest, group: tuple[RefundRequest, ...]
) -> tuple[RefundRequest, ...]:
    mine = RequestFilter(customer_id=request.customer_id)
    found = tx.requests.list(mine, limit=MOST_EARLIER + len(group)).data
    ours = {member.id for member in group} | {request.id}
    return tuple(other for other in found if other.id not in ours)[:MOST_EARLIER]


def _account(tx: Transaction, request: RefundRequest) -> PayoutDestination | None:
    """Found by its digest: an account that was changed by hand is not shown as the one."""
    accounts = tx.destinations.of_customer(request.customer_id)
    return next((one for one in accounts if text_of(one) == request.destination), None)


def _conversation(tx: Transaction, request: RefundRequest) -> tuple[Message, ...]:
    if request.conversation_id is None:
        return ()
    return tx.conversations.messages(request.conversation_id)


def _proposals(tx: Transaction, request: RefundRequest) -> Iterator[Proposal]:
    """The calls that quoted and filed it, from the steps of their runs."""
    quote = tx.quotes.get(request.quote_id)
    runs = dict.fromkeys((quote.run_id if quote else None, request.run_id))
    for step in (step for run_id in runs if run_id for step in tx.runs.steps(run_id)):
        if not isinstance(step.decision, CallTools):
            continue
        for recorded in step.calls:
            call, seen = recorded.call, recorded.observation
            quoted = seen is not None and request.quote_id in seen.quote_ids
            filed = call.name == FILED_BY and request.quote_id in call.arguments
            if quoted or filed:
                yield Proposal(
                    tool=call.name, arguments=call.arguments, thought=step.decision.thought
                )

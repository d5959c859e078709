"""The last look before money leaves: is the approval ours, and has anything become worse since?"""

from collections.abc import Mapping, Sequence

from support_agent.domain.approvals import Choice, Decision, genuine_approvals
from support_agent.domain.assessment import required_approvals, required_level
from support_agent.domain.errors import RecordChanged, RefundRefused
from support_agent.domain.orders import PAID_BY_HAND, Order
from support_agent.domain.policy import OrderBooks, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.payments import PaymentGateway, PaymentState
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.authority import check_approver
from support_agent.services.destinations import check as check_destination
from support_agent.services.outcomes import UNSETTLED, is_attempt_of
from support_agent.services.policies import PoliciesInForce
from support_agent.services.standing import Objection, is_tampered, judge_again
from support_agent.services.stored_requests import posting_of

# Money of these may be at the gateway already though our books have not settled it.
SENT = frozenset({*UNSETTLED, RequestStatus.MANUAL_REVIEW})
MOST_REQUESTS = 1_000  # of one order; what is beyond them counts as not explained

Approvals = Mapping[str, Decision]


class Clearance:
    """Judges an approved request inside the transaction that would start paying it."""

    def __init__(
        self, *, policies: PoliciesInForce, keys: KeyRing, clock: Clock, gateway: PaymentGateway
    ) -> None:
        self._policies = policies
        self._keys = keys
        self._clock = clock
        self._gateway = gateway

    def by_hand(self, request: RefundRequest) -> bool:
        """Whether our gateway cannot carry it: cash, a transfer, or another gateway's payment."""
        return request.method in PAID_BY_HAND or request.gateway != self._gateway.name

    def forgery(self, tx: Transaction, request: RefundRequest) -> Reason | None:
        """Why the record cannot be trusted: status alone moves no money."""
        tried = tx.attempts.of(request.id)
        if not self._all_failed(request, tried):  # it was set back: a try of it still counts
            return Reason.RECORD_CHANGED
        return self._unproved(tx, request)

    def forgery_again(self, tx: Transaction, request: RefundRequest) -> Reason | None:
        """`forgery` of a request that is being paid: may its live attempt be sent once more?

        It must be, to the byte and to the moment, what the signed row of the request says of it.
        """
        tried = tx.attempts.of(request.id)
        last = tried[-1] if tried else None
        if (
            last is None
            or last.status is AttemptStatus.FAILED
            or not is_attempt_of(request, last)
            or last.sent_at != request.attempt_at
            or not self._all_failed(request, tried[:-1])
        ):
            return Reason.RECORD_CHANGED
        return self._unproved(tx, request)

    def _unproved(self, tx: Transaction, request: RefundRequest) -> Reason | None:
        reserved = tx.books.holds(posting_of(request, request.created_at))
        if not reserved or is_tampered(tx, request, self._keys):
            return Reason.RECORD_CHANGED
        try:
            check_destination(tx, request.destination, self._keys)
        except RecordChanged:
            return Reason.RECORD_CHANGED
        if len(self._approvals(tx, request)) < max(1, request.approvals_needed):
            return Reason.DECISION_NOT_GENUINE
        return None

    def _all_failed(self, request: RefundRequest, tried: Sequence[Attempt]) -> bool:
        """Whether these are all tries before the one that is due, and each is known to be failed.

        What is paid by hand leaves no attempt, so there some may be missing.
        """
        numbers = [attempt.number for attempt in tried]
        due = list(range(1, request.attempt_no))
        complete = set(numbers) <= set(due) if self.by_hand(request) else numbers == due
        return complete and all(
            attempt.status is AttemptStatus.FAILED
            and attempt.key == attempt_key(request.id, attempt.number)
            for attempt in tried
        )

    def objection(
        self,
        tx: Transaction,
        request: RefundRequest,
        order: Order | None,
        state: PaymentState | None,
    ) -> Objection | None:
        """What became worse since the approval, at the shop, in our books or at the gateway.

        `state` is None when no gateway knows the payment.
        """
        policy = self._policies.current(tx)
        judged = judge_again(tx, request, order, policy, self._clock.now())
        if isinstance(judged, Objection):
            return judged
        approvals = self._approvals(tx, request)
        automatic = any(decision.choice is Choice.AUTO for decision in approvals.values())
        if automatic and judged.verdict is Verdict.NEEDS_REVIEW:
            return Objection(reason=judged.reasons[0], facts=judged.facts)
        # What is sent is read before what is settled: one that is settled meanwhile counts twice
        # then and not never, so that our own refund is not taken for somebody else's.
        sent = self._sent_by_others(tx, request)
        books = tx.books.of_order(request.order_id)
        if not all(_may_still_decide(tx, d, self._keys) for d in approvals.values()):
            return Objection(reason=Reason.APPROVER_DISABLED)
        told = state.refunded_minor if state else 0
        tier = _tier_objection(request, books, policy, approvals, told)
        if tier is not None or self.by_hand(request):
            return tier
        return self._payment_objection(request, books, state, sent)

    def _approvals(self, tx: Transaction, request: RefundRequest) -> Approvals:
        return genuine_approvals(tx.decisions.of(request.id), request, self._keys)

    def _payment_objection(
        self, request: RefundRequest, books: OrderBooks, state: PaymentState | None, sent: int
    ) -> Objection | None:
        where = (request.account, self._gateway.livemode)
        if state is None or (state.account, state.livemode) != where:
            return Objection(reason=Reason.PAYMENT_FROZEN)
        if state.disputed:
            return Objection(reason=Reason.DISPUTED)
        ours = [p for p in books.payments if p.payment_id == request.payment_id]
        if state.charged_back_minor > sum(payment.charged_back_minor for payment in ours):
            return Objection(reason=Reason.DISPUTED)
        if state.refunded_minor > sum(payment.refunded_minor for payment in ours) + sent:
            return Objection(reason=Reason.PAYMENT_FROZEN)
        return None

    def _sent_by_others(self, tx: Transaction, request: RefundRequest) -> int:
        """What other requests on the same payment may have been paid without our knowing yet.

        A row that somebody changed explains nothing: it may have been settled long ago.
        """
        of_order = tx.requests.list(RequestFilter(order_id=request.order_id), limit=MOST_REQUESTS)
        return sum(
            other.amount_minor
            for other in of_order.data
            if other.status in SENT
            and other.payment_id == request.payment_id
            and other.id != request.id
            and not is_tampered(tx, other, self._keys)
        )


def _may_still_decide(tx: Transaction, decision: Decision, keys: KeyRing) -> bool:
    if decision.choice is Choice.AUTO:
        return True
    approver = tx.people.get(decision.name)
    if approver is None or approver.disabled or approver.person_id != decision.person_id:
        return False
    try:
        check_approver(tx, approver, keys)
    except RecordChanged:
        return False
    return True


def _tier_objection(
    request: RefundRequest, books: OrderBooks, policy: Policy, approvals: Approvals, told: int
) -> Objection | None:
    """Whether the approvals reach for what will be gone of the order after this payment.

    `told` is what the gateway says it refunded of the payment: our books may have been set back.
    What only waits beside it does not count here: a person will judge that with this one in view.
    """
    gone = request.amount_minor + sum(
        max(payment.refunded_minor, told if payment.payment_id == request.payment_id else 0)
        for payment in books.payments
    )
    try:
        level = required_level(policy, request.currency, gone)
    except RefundRefused as refused:
        return Objection(reason=refused.reason, facts=refused.facts)
    if level > min(decision.level for decision in approvals.values()):
        return Objection(reason=Reason.ABOVE_AUTO_LIMIT)
    needed = required_approvals(policy, request.currency, gone)
    if len(approvals) < needed:
        return Objection(reason=Reason.NOT_ENOUGH_APPROVALS)
    return None

"""The approval queue: who proves to be an approver may approve or reject a pending request."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace

from support_agent.domain.approvals import (
    Choice,
    Decision,
    check_authority,
    check_may_decide,
    genuine_approvals,
)
from support_agent.domain.assessment import assess, required_level
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    ApproverNotFound,
    DecisionRefused,
    NotProved,
    OrderNotFound,
    RequestExpired,
    RequestNotFound,
    StaleDecision,
)
from support_agent.domain.money import format_money
from support_agent.domain.orders import Order
from support_agent.domain.people import Approver, Principal, PrincipalKind, Proof
from support_agent.domain.policy import Assessment, OrderBooks, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import CapKey, CapScope, Database, RequestFilter, Transaction
from support_agent.services.filing import signed
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife, moved_meanwhile, posting_of
from support_agent.services.terms import RefundTerms


def token_hash(token: str) -> str:
    """Tokens are 256 random bits, so a plain hash is enough to store."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What an approver needs to see before deciding; computed facts only."""

    request: RefundRequest
    order: Order | None
    assessment: Assessment | None
    books: OrderBooks
    policy: Policy
    decisions: tuple[Decision, ...]
    earlier: tuple[RefundRequest, ...]  # the customer's other requests

    @property
    def cumulative_minor(self) -> int:
        return self.books.taken_minor


class Approvals:
    """Decides requests. Authority is checked in the transaction that writes the decision."""

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        life: RefundLife,
        policies: PoliciesInForce,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
        proof: Proof,
    ) -> None:
        self._database = database
        self._orders = orders
        self._life = life
        self._policies = policies
        self._terms = terms
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._proof = proof

    @property
    def proof(self) -> Proof:
        """What `prove` asks for: a token, or (demo databases) only the name."""
        return self._proof

    async def prove(self, name: str, token: str | None, *, via: str) -> Principal:
        """Who is deciding.

        Raises:
            ApproverNotFound: no such approver.
            NotProved: the token is missing or wrong.
        """
        approver = await self._database.read(lambda tx: tx.people.get(name))
        if approver is None:
            raise ApproverNotFound(name)
        if self._proof is Proof.TOKEN:
            _check_token(approver, token)
        return Principal(
            kind=PrincipalKind.APPROVER,
            id=approver.name,
            person_id=approver.person_id,
            proof=self._proof,
            via=via,
        )

    async def approve(
        self, request_id: str, *, by: Principal, expect: int | None = None, note: str | None = None
    ) -> RefundRequest:
        """Approve a pending request; with four eyes it stays pending until the second person.

        Raises:
            RequestNotFound, AlreadyDecided, RequestExpired, StaleDecision: look again.
            NotAuthorised: this person may not.
            DecisionRefused: the order no longer allows it.
        """
        return await self._decide(request_id, Choice.APPROVE, by, expect, note)

    async def reject(
        self, request_id: str, *, by: Principal, expect: int | None = None, note: str | None = None
    ) -> RefundRequest:
        """Reject a pending request; the reserve is released."""
        return await self._decide(request_id, Choice.REJECT, by, expect, note)

    async def brief(self, request_id: str) -> Brief:
        """The facts of a request as they are now.

        Raises:
            RequestNotFound: unknown id.
        """
        request = await self._database.read(lambda tx: tx.requests.get(request_id))
        if request is None:
            raise RequestNotFound(request_id)
        order = await self._orders.get(request.order_id)
        return await self._database.read(lambda tx: self._brief(tx, request_id, order))

    async def _decide(
        self,
        request_id: str,
        choice: Choice,
        by: Principal,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        known = await self._database.read(lambda tx: tx.requests.get(request_id))
        if known is None:
            raise RequestNotFound(request_id)
        order = await self._orders.get(known.order_id)
        write: Callable[[Transaction], RefundRequest] = lambda tx: self.decide(  # noqa: E731
            tx, request_id, choice=choice, by=by, order=order, expect=expect, note=note
        )
        return await self._database.transact(write)

    def decide(
        self,
        tx: Transaction,
        request_id: str,
        *,
        choice: Choice,
        by: Principal,
        order: Order | None,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        """The decision inside its transaction; `order` was read before it."""
        request, approver = self._checked(tx, request_id, by, expect)
        books = tx.books.of_order(request.order_id)
        policy = self._policies.current(tx)
        if choice is Choice.APPROVE:
            self._check_order(tx, request, order, policy)
        limit = self._authority(request, approver, policy, books.taken_minor)
        if choice is Choice.APPROVE:
            self._take_cap(tx, request, approver, policy)
        decision = self._sign(request, approver, choice, by, limit, note)
        tx.decisions.add(decision)
        if choice is Choice.REJECT:
            return self._life.transition(tx, request, RequestStatus.REJECTED, actor=by)
        return self._approved(tx, request, by, decision)

    def _checked(
        self, tx: Transaction, request_id: str, by: Principal, expect: int | None
    ) -> tuple[RefundRequest, Approver]:
        request = tx.requests.get(request_id)
        if request is None:
            raise RequestNotFound(request_id)
        approver = tx.people.get(by.id)
        if approver is None:
            raise ApproverNotFound(by.id)
        check_may_decide(approver, request)
        if request.status is not RequestStatus.PENDING_APPROVAL:
            raise moved_meanwhile(tx, request.id)
        if self._clock.now() > request.expires_at:
            raise RequestExpired(request.id, at=request.expires_at)
        if expect is not None and expect != request.version:
            raise StaleDecision(request.id, expected=expect, actual=request.version)
        mine = [d for d in tx.decisions.of(request.id) if d.round == request.round]
        if any(d.person_id == approver.person_id for d in mine):
            raise moved_meanwhile(tx, request.id)
        return request, approver

    def _check_order(
        self, tx: Transaction, request: RefundRequest, order: Order | None, policy: Policy
    ) -> None:
        """Balance, dispute and status judged again without the request's own reserve.

        The window is left out: it was judged at filing, and waiting for us must not cost the
        customer the refund.
        """
        if order is None or order.customer_id != request.customer_id:
            raise OrderNotFound(request.order_id)
        books = tx.books.of_order(order.id, without_request=request.id)
        no_window = replace(policy, window_days=None)
        assessment = assess(order, books, no_window, self._clock.now())
        if assessment.verdict is Verdict.INELIGIBLE:
            raise DecisionRefused(assessment.reasons[0], **assessment.facts)
        if assessment.max_refundable_minor < request.amount_minor:
            most = format_money(assessment.max_refundable_minor, request.currency)
            raise DecisionRefused(Reason.AMOUNT_TOO_HIGH, max=most)

    def _authority(
        self, request: RefundRequest, approver: Approver, policy: Policy, cumulative: int
    ) -> int:
        level = required_level(policy, request.currency, cumulative)
        judged = replace(request, required_level=max(level, request.required_level))
        return check_authority(approver, judged, cumulative_minor=cumulative)

    def _take_cap(
        self, tx: Transaction, request: RefundRequest, approver: Approver, policy: Policy
    ) -> None:
        limits = policy.limits.get(request.currency)
        limit = limits.per_approver_day if limits else None
        now = self._clock.now()
        key = CapKey(
            scope=CapScope.APPROVER,
            subject=approver.person_id,
            day=now.astimezone(self._terms.zone).date(),
            currency=request.currency,
        )
        if not tx.books.take_cap(key, posting=posting_of(request, now), limit=limit):
            amount = format_money(limit or 0, request.currency)
            raise DecisionRefused(Reason.CAP_APPROVER_DAY, name=approver.name, limit=amount)

    def _sign(
        self,
        request: RefundRequest,
        approver: Approver,
        choice: Choice,
        by: Principal,
        limit: int,
        note: str | None,
    ) -> Decision:
        decision = Decision(
            id=self._ids.new("dec"),
            request_id=request.id,
            round=request.round,
            choice=choice,
            level=approver.level,
            person_id=approver.person_id,
            name=approver.name,
            proof=by.proof,
            fingerprint=request.fingerprint,
            amount_minor=request.amount_minor,
            currency=request.currency,
            limit_minor=limit,
            note=note,
            at=self._clock.now(),
        )
        return signed(decision, self._keys)

    def _approved(
        self, tx: Transaction, request: RefundRequest, by: Principal, decision: Decision
    ) -> RefundRequest:
        persons = genuine_approvals(tx.decisions.of(request.id), request, self._keys)
        if len(persons) < request.approvals_needed:
            data = {"have": str(len(persons)), "need": str(request.approvals_needed)}
            tx.audit.append(
                AuditEvent(
                    action="approval.recorded",
                    actor=by,
                    subject=request.id,
                    at=decision.at,
                    data=data,
                )
            )
            return request
        until = decision.at + self._terms.approved_valid_for
        return self._life.transition(
            tx, request, RequestStatus.APPROVED, actor=by, approved_until=until, notify=False
        )

    def _brief(self, tx: Transaction, request_id: str, order: Order | None) -> Brief:
        request = tx.requests.get(request_id)
        if request is None:
            raise RequestNotFound(request_id)
        policy = self._policies.current(tx)
        without = tx.books.of_order(request.order_id, without_request=request.id)
        assessment = assess(order, without, policy, self._clock.now()) if order else None
        mine = RequestFilter(customer_id=request.customer_id)
        earlier = tx.requests.list(mine, limit=10).data
        return Brief(
            request=request,
            order=order,
            assessment=assessment,
            books=tx.books.of_order(request.order_id),
            policy=policy,
            decisions=tx.decisions.of(request.id),
            earlier=tuple(other for other in earlier if other.id != request.id),
        )


def _check_token(approver: Approver, token: str | None) -> None:
    if not token:
        raise NotProved(
            f"approver {approver.name!r} must prove who they are: set SUPPORT_AGENT_APPROVER_TOKEN "
            "or answer the prompt; `support-agent approvers token NAME` makes a token"
        )
    if approver.token_hash is None or not hmac.compare_digest(
        token_hash(token), approver.token_hash
    ):
        raise NotProved(f"the token is not that of approver {approver.name!r}")

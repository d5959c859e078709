"""The approval queue: who proves to be an approver may approve or reject a pending request."""

import hmac

from support_agent.domain.approvals import (
    Choice,
    Decision,
    check_authority,
    check_may_decide,
    check_reach,
    genuine_approvals,
    signed,
)
from support_agent.domain.assessment import required_approvals
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    ApproverNotFound,
    DecisionRefused,
    NotProved,
    RefundRefused,
    RequestExpired,
    StaleDecision,
)
from support_agent.domain.money import format_money
from support_agent.domain.orders import Order
from support_agent.domain.people import Approver, Principal, PrincipalKind, Proof
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import CapKey, CapScope, Database, Transaction
from support_agent.services.authority import check_approver, token_hash
from support_agent.services.briefs import Brief, brief_of
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import (
    RefundLife,
    decision_facts,
    moved_meanwhile,
    posting_of,
    stored_request,
)
from support_agent.services.standing import Objection, is_tampered, judge_again
from support_agent.services.terms import RefundTerms


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
            RecordChanged: the approver's row is not what the signed history says.
        """
        approver = await self._database.read(lambda tx: self._approver(tx, name))
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
        request = await self._known(request_id)
        order = await self._orders.get(request.order_id)
        return await self._database.transact(
            lambda tx: self._approve(tx, request_id, by=by, order=order, expect=expect, note=note)
        )

    async def reject(
        self, request_id: str, *, by: Principal, expect: int | None = None, note: str | None = None
    ) -> RefundRequest:
        """Reject a pending request; the reserve is released.

        Raises:
            RequestNotFound, AlreadyDecided, RequestExpired, StaleDecision: look again.
            NotAuthorised: this person may not.
        """
        return await self._database.transact(
            lambda tx: self._reject(tx, request_id, by=by, expect=expect, note=note)
        )

    async def brief(self, request_id: str) -> Brief:
        """The facts of a request as they are now.

        Raises:
            RequestNotFound: unknown id.
        """
        request = await self._known(request_id)
        order = await self._orders.get(request.order_id)

        def tell(tx: Transaction) -> Brief:
            now = self._clock.now()
            return brief_of(
                tx, stored_request(tx, request_id), order, self._policies.current(tx), now
            )

        return await self._database.read(tell)

    async def _known(self, request_id: str) -> RefundRequest:
        return await self._database.read(lambda tx: stored_request(tx, request_id))

    def _approve(
        self,
        tx: Transaction,
        request_id: str,
        *,
        by: Principal,
        order: Order | None,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        """The decision inside its transaction; `order` was read before it."""
        request, approver = self._checked(tx, request_id, by, expect)
        policy = self._policies.current(tx)
        now = self._clock.now()
        judged = judge_again(tx, request, order, policy, now)
        if isinstance(judged, Objection):
            raise DecisionRefused(judged.reason, **judged.facts)
        cumulative = tx.books.of_order(request.order_id).taken_minor
        limit = _reach(approver, request, policy, cumulative)
        # From here on nobody else decides, so that of two first decisions one is the second, and
        # of two by the same person the second finds the first.
        if not tx.requests.hold(request):
            raise moved_meanwhile(tx, request.id)
        _check_first_of(approver, tx, request)
        self._take_cap(tx, request, approver, policy)
        decision = self._sign(request, approver, Choice.APPROVE, by, limit, note)
        tx.decisions.add(decision)
        needed = required_approvals(policy, request.currency, cumulative)
        return self._approved(tx, request, by, decision, max(needed, request.approvals_needed))

    def _reject(
        self,
        tx: Transaction,
        request_id: str,
        *,
        by: Principal,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        request, approver = self._checked(tx, request_id, by, expect)
        # Whatever the policy says today: a limit that was lowered must not keep it in the queue.
        cumulative = tx.books.of_order(request.order_id).taken_minor
        limit = check_authority(approver, request, cumulative_minor=cumulative)
        decision = self._sign(request, approver, Choice.REJECT, by, limit, note)
        facts = decision_facts(decision)
        moved = self._life.transition(tx, request, RequestStatus.REJECTED, actor=by, data=facts)
        tx.decisions.add(decision)  # under the row that was just moved, as an approval is
        return moved

    def _approver(self, tx: Transaction, name: str) -> Approver:
        approver = tx.people.get(name)
        if approver is None:
            raise ApproverNotFound(name)
        check_approver(tx, approver, self._keys)
        return approver

    def _checked(
        self, tx: Transaction, request_id: str, by: Principal, expect: int | None
    ) -> tuple[RefundRequest, Approver]:
        request = stored_request(tx, request_id)
        approver = self._approver(tx, by.id)
        check_may_decide(approver, request, known=tx.people.list())
        if request.status is not RequestStatus.PENDING_APPROVAL:
            raise moved_meanwhile(tx, request.id)
        if self._clock.now() > request.expires_at:
            raise RequestExpired(request.id, at=request.expires_at)
        if expect is not None and expect != request.version:
            raise StaleDecision(request.id, expected=expect, actual=request.version)
        _check_first_of(approver, tx, request)
        if is_tampered(tx, request, self._keys):
            raise DecisionRefused(Reason.RECORD_CHANGED)
        return request, approver

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
        self,
        tx: Transaction,
        request: RefundRequest,
        by: Principal,
        decision: Decision,
        needed: int,
    ) -> RefundRequest:
        """Move on when enough persons approved; else only record this one."""
        have = len(genuine_approvals(tx.decisions.of(request.id), request, self._keys))
        if have < needed:
            data = {**decision_facts(decision), "have": str(have), "need": str(needed)}
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
        # Paying follows at once and tells the customer what came of it.
        return self._life.transition(
            tx,
            request,
            RequestStatus.APPROVED,
            actor=by,
            approved_until=decision.at + self._terms.approved_valid_for,
            notify=False,
            data=decision_facts(decision),
        )


def _check_first_of(approver: Approver, tx: Transaction, request: RefundRequest) -> None:
    """A person decides a round once."""
    decisions = (d for d in tx.decisions.of(request.id) if d.round == request.round)
    if any(decision.person_id == approver.person_id for decision in decisions):
        raise moved_meanwhile(tx, request.id)


def _reach(approver: Approver, request: RefundRequest, policy: Policy, cumulative: int) -> int:
    try:
        return check_reach(approver, request, policy, cumulative_minor=cumulative)
    except RefundRefused as refused:
        raise DecisionRefused(refused.reason, **refused.facts) from refused


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

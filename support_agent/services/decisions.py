"""Approving and rejecting inside their transaction: a group is one decision, counted each."""

from collections.abc import Iterator, Mapping, Sequence

from support_agent.domain.approvals import Choice, Decision, genuine_approvals, signed
from support_agent.domain.assessment import required_approvals
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import DecisionRefused
from support_agent.domain.money import format_money
from support_agent.domain.orders import Order
from support_agent.domain.people import Approver, Principal
from support_agent.domain.policy import CurrencyLimits, Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import CapKey, CapScope, Transaction
from support_agent.services.deciding import Case, Deciding, check_first_of, overtaken
from support_agent.services.destinations import check
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.request_facts import decision_facts
from support_agent.services.standing import Objection, judge_again
from support_agent.services.stored_requests import posting_of
from support_agent.services.terms import RefundTerms


class Decisions:
    """Writes decisions. Authority is checked in the transaction that writes them."""

    def __init__(
        self,
        *,
        deciding: Deciding,
        life: RefundLife,
        policies: PoliciesInForce,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._deciding = deciding
        self._life = life
        self._policies = policies
        self._terms = terms
        self._keys = keys
        self._clock = clock
        self._ids = ids

    def approve(
        self,
        tx: Transaction,
        request_id: str,
        *,
        by: Principal,
        order: Order | None,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        """Approve every waiting request of the group; `order` was read before the transaction."""
        case = self._deciding.opened(tx, request_id, by=by, expect=expect)
        policy = self._policies.current(tx)
        self._check_standing(tx, case, order, policy)
        limit = self._deciding.reach(tx, case, policy)
        # From here on nobody else decides, so that of two first decisions one is the second, and
        # of two by the same person the second finds the first.
        for member in case.members:
            if not tx.requests.hold(member):
                raise overtaken(tx, member)
            check_first_of(case.approver, tx, member)
        for member in case.members:
            self._take_caps(tx, member, case.approver, policy)
        made = [
            self.sign(member, case.approver, Choice.APPROVE, by, limit, note)
            for member in case.members
        ]
        for decision in made:
            tx.decisions.add(decision)
        return self._approved(tx, case, policy, by, made)

    def reject(
        self,
        tx: Transaction,
        request_id: str,
        *,
        by: Principal,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        """Reject every waiting request of the group; their reserves are released."""
        case = self._deciding.opened(tx, request_id, by=by, expect=expect)
        limit = self._deciding.authority(tx, case)
        made = [
            self.sign(member, case.approver, Choice.REJECT, by, limit, note)
            for member in case.members
        ]
        moved = self._life.move_group(
            tx, case.members, RequestStatus.REJECTED, actor=by, data=_facts(made)
        )
        for decision in made:
            tx.decisions.add(decision)  # under the rows that were just moved, as approvals are
        return case.moved(moved)

    def sign(
        self,
        request: RefundRequest,
        approver: Approver,
        choice: Choice,
        by: Principal,
        limit: int,
        note: str | None,
    ) -> Decision:
        """The decision of this person on the request as it stands, signed."""
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

    def _check_standing(
        self, tx: Transaction, case: Case, order: Order | None, policy: Policy
    ) -> None:
        for member in case.members:
            check(tx, member.destination, self._keys)
            judged = judge_again(tx, member, order, policy, self._clock.now())
            if isinstance(judged, Objection):
                raise DecisionRefused(judged.reason, **judged.facts)

    def _take_caps(
        self, tx: Transaction, request: RefundRequest, approver: Approver, policy: Policy
    ) -> None:
        """Count into the approver's day, then into the approver's day with this customer."""
        limits = policy.limits.get(request.currency)
        now = self._clock.now()
        day = now.astimezone(self._terms.zone).date()
        for scope, subject, limit, reason in _caps(approver, request, limits):
            key = CapKey(scope=scope, subject=subject, day=day, currency=request.currency)
            if not tx.books.take_cap(key, posting=posting_of(request, now), limit=limit):
                amount = format_money(limit or 0, request.currency)
                raise DecisionRefused(reason, name=approver.name, limit=amount)

    def _approved(
        self,
        tx: Transaction,
        case: Case,
        policy: Policy,
        by: Principal,
        made: Sequence[Decision],
    ) -> RefundRequest:
        """Move all on when enough persons approved each; else only record this decision."""
        have = min(
            len(genuine_approvals(tx.decisions.of(member.id), member, self._keys))
            for member in case.members
        )
        needed = max(
            required_approvals(policy, case.request.currency, case.cumulative_minor),
            *(member.approvals_needed for member in case.members),
        )
        if have < needed:
            for decision in made:
                self._record(tx, decision, by, have=have, need=needed)
            return case.request
        moved = self._life.move_group(
            tx,
            case.members,
            RequestStatus.APPROVED,
            actor=by,
            approved_until=made[0].at + self._terms.approved_valid_for,
            notify=False,  # paying follows at once and tells the customer what came of it
            data=_facts(made),
        )
        return case.moved(moved)

    def _record(
        self, tx: Transaction, decision: Decision, by: Principal, *, have: int, need: int
    ) -> None:
        tx.audit.append(
            AuditEvent(
                action="approval.recorded",
                actor=by,
                subject=decision.request_id,
                at=decision.at,
                data={**decision_facts(decision), "have": str(have), "need": str(need)},
            )
        )


def _facts(made: Sequence[Decision]) -> Mapping[str, Mapping[str, str]]:
    return {decision.request_id: decision_facts(decision) for decision in made}


def _caps(
    approver: Approver, request: RefundRequest, limits: CurrencyLimits | None
) -> Iterator[tuple[CapScope, str, int | None, Reason]]:
    """Which counters an approval fills, in the order in which they are locked everywhere."""
    person, pair = approver.person_id, f"{approver.person_id}|{request.customer_id}"
    day, pair_day = (limits.per_approver_day, limits.per_pair_day) if limits else (None, None)
    yield CapScope.APPROVER, person, day, Reason.CAP_APPROVER_DAY
    yield CapScope.PAIR, pair, pair_day, Reason.CAP_PAIR_DAY

"""What is asked before any decision: whose request, is it still open, may this person, who else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from support_agent.domain.approvals import check_authority, check_may_decide, check_reach
from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverNotFound,
    DecisionRefused,
    InsufficientAuthority,
    NotAuthorised,
    RefundRefused,
    RequestExpired,
    SecondPersonNeeded,
    StaleDecision,
    SupportAgentError,
)
from support_agent.domain.people import Approver, Principal
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction
from support_agent.services.authority import IN_FORCE, accounts_of, check_approver
from support_agent.services.policies import PoliciesInForce
from support_agent.services.standing import REQUESTS, is_tampered
from support_agent.services.stored_requests import group_of, moved_meanwhile, stored_request

PENDING = RequestStatus.PENDING_APPROVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one decision is about: a request and those of its group that wait with it."""

    request: RefundRequest
    members: tuple[RefundRequest, ...]  # pending, in filing order, the request among them
    approver: Approver
    cumulative_minor: int  # what all refunds of the order come to, these included

    def moved(self, members: Iterable[RefundRequest]) -> RefundRequest:
        """The case's own request among its moved members."""
        return next(member for member in members if member.id == self.request.id)


class Deciding:
    """Opens a case for an approver. Whatever is refused here says why and changes nothing."""

    def __init__(self, *, policies: PoliciesInForce, keys: KeyRing, clock: Clock) -> None:
        self._policies = policies
        self._keys = keys
        self._clock = clock

    def approver(self, tx: Transaction, name: str) -> Approver:
        """The approver as the signed history says.

        Raises:
            ApproverNotFound, RecordChanged: see `Approvals.prove`.
        """
        approver = tx.people.get(name)
        if approver is None:
            raise ApproverNotFound(name)
        check_approver(tx, approver, self._keys)
        return approver

    def opened(
        self, tx: Transaction, request_id: str, *, by: Principal, expect: int | None
    ) -> Case:
        """The case, once nothing about the requests and the person speaks against deciding it.

        Raises:
            RequestNotFound, AlreadyDecided, RequestExpired, StaleDecision: look again.
            ApproverDisabled, SelfApproval: this person may not, at any amount.
            RecordChanged: this person may not, until the accounts they have are as signed.
            DecisionRefused: RECORD_CHANGED.
        """
        # Of one look at all of them: whoever moves them does it at once.
        group = group_of(tx, stored_request(tx, request_id))
        request = next(member for member in group if member.id == request_id)
        members = _waiting_together(request, group)
        _expect(tx, by, members or (request,))
        approver = self.approver(tx, by.id)
        known = accounts_of(tx, approver, self._keys)
        for member in members or (request,):
            check_may_decide(approver, member, known=known, operators=operators_of(tx, member))
        self._check_open(tx, request, expect)
        for member in members:
            check_first_of(approver, tx, member)
            self._check_genuine(tx, member)
        cumulative = tx.books.of_order(request.order_id).taken_minor
        return Case(
            request=request, members=members, approver=approver, cumulative_minor=cumulative
        )

    def _check_genuine(self, tx: Transaction, request: RefundRequest) -> None:
        try:
            tampered = is_tampered(tx, request, self._keys)
        except AlreadyDecided:
            raise overtaken(tx, request) from None
        if tampered:
            raise DecisionRefused(Reason.RECORD_CHANGED)

    def _check_open(self, tx: Transaction, request: RefundRequest, expect: int | None) -> None:
        late = request.status is PENDING and self._clock.now() > request.expires_at
        if late or request.status is RequestStatus.EXPIRED:
            raise RequestExpired(request.id, at=request.expires_at)
        if request.status is not PENDING:
            raise moved_meanwhile(tx, request.id)
        if expect is not None and expect != request.version:
            raise StaleDecision(request.id, expected=expect, actual=request.version)

    def reach(self, tx: Transaction, case: Case, policy: Policy) -> int:
        """The approver's limit, which reaches under today's policy.

        Raises:
            InsufficientAuthority: names who else may.
            DecisionRefused: ABOVE_POLICY_LIMIT; nobody may let it pass any more.
        """
        try:
            limits = [
                check_reach(case.approver, member, policy, cumulative_minor=case.cumulative_minor)
                for member in case.members
            ]
        except InsufficientAuthority as refused:
            raise self._with_others(tx, case, refused) from refused
        except RefundRefused as refused:
            raise DecisionRefused(refused.reason, **refused.facts) from refused
        return limits[0]

    def authority(self, tx: Transaction, case: Case) -> int:
        """The approver's limit, whatever the policy says today.

        Saying no, asking or lowering has to stay possible when a limit was lowered.

        Raises:
            InsufficientAuthority: names who else may.
        """
        try:
            limits = [
                check_authority(case.approver, member, cumulative_minor=case.cumulative_minor)
                for member in case.members
            ]
        except InsufficientAuthority as refused:
            raise self._with_others(tx, case, refused) from refused
        return limits[0]

    def _with_others(
        self, tx: Transaction, case: Case, refused: InsufficientAuthority
    ) -> InsufficientAuthority:
        others = deciders_of(tx, case.members, self._policies.current(tx))
        who = f"{', '.join(others)} may decide" if others else "nobody's authority reaches"
        return InsufficientAuthority(f"{refused}; {who}", limit=refused.limit, others=others)


def pending_members(tx: Transaction, request: RefundRequest) -> tuple[RefundRequest, ...]:
    """Those of the request's group that wait for a decision with it, in filing order."""
    return _waiting_together(request, group_of(tx, request))


def _expect(tx: Transaction, by: Principal, members: Iterable[RefundRequest]) -> None:
    tx.audit.expect(
        ("approver", by.id),
        ("approver.token", by.id),
        ("person", by.person_id or by.id),
        ("policy", IN_FORCE),
        *((REQUESTS, member.id) for member in members),
    )


def _waiting_together(
    request: RefundRequest, group: Iterable[RefundRequest]
) -> tuple[RefundRequest, ...]:
    """One that staff retried is decided alone: who looks at another has not seen it come back."""
    since = (request.attempt_no, request.expires_at)
    return tuple(
        member
        for member in group
        if member.status is PENDING and (member.attempt_no, member.expires_at) == since
    )


def check_first_of(approver: Approver, tx: Transaction, request: RefundRequest) -> None:
    """A person decides a round once.

    Raises:
        SecondPersonNeeded: this person approved, and the request waits for another one.
        AlreadyDecided: with who decided last, and when.
    """
    decisions = (d for d in tx.decisions.of(request.id) if d.round == request.round)
    own = next((d for d in decisions if d.person_id == approver.person_id), None)
    if own is None:
        return
    now = tx.requests.get(request.id)
    if now is None or now.status is not PENDING:
        raise moved_meanwhile(tx, request.id)
    raise SecondPersonNeeded(request.id, status=now.status, by=own.name, at=own.at)


def overtaken(tx: Transaction, request: RefundRequest) -> SupportAgentError:
    """What somebody else did to the request since it was read."""
    now = tx.requests.get(request.id)
    if now is not None and now.status is PENDING and now.version != request.version:
        return StaleDecision(request.id, expected=request.version, actual=now.version)
    return moved_meanwhile(tx, request.id)


def deciders_of(
    tx: Transaction, requests: Sequence[RefundRequest], policy: Policy
) -> tuple[str, ...]:
    """Approvers whose level and limit reach for all of them, and who have not decided yet."""
    if not requests:
        return ()
    known, operators = tx.people.list(), operators_of(tx, requests[0])
    cumulative = tx.books.of_order(requests[0].order_id).taken_minor
    decided = {
        decision.person_id
        for request in requests
        for decision in tx.decisions.of(request.id)
        if decision.round == request.round
    }
    return tuple(
        approver.name
        for approver in known
        if approver.person_id not in decided
        and all(
            _may(approver, request, policy, cumulative, known, operators) for request in requests
        )
    )


def operators_of(tx: Transaction, request: RefundRequest) -> frozenset[str]:
    """Who wrote for the customer in its conversation, whichever of them filed it."""
    conversation_id = request.conversation_id
    return tx.conversations.operators(conversation_id) if conversation_id else frozenset()


def _may(
    approver: Approver,
    request: RefundRequest,
    policy: Policy,
    cumulative: int,
    known: tuple[Approver, ...],
    operators: frozenset[str],
) -> bool:
    try:
        check_may_decide(approver, request, known=known, operators=operators)
        check_reach(approver, request, policy, cumulative_minor=cumulative)
    except (NotAuthorised, RefundRefused):
        return False
    return True

"""Ending a manual review: a second person says, with a proof, whether the money was paid."""

import unicodedata
from dataclasses import dataclass, replace

from support_agent.domain.approvals import (
    Choice,
    Decision,
    check_authority,
    check_may_decide,
    signed,
)
from support_agent.domain.errors import (
    ApproverNotFound,
    DecisionRefused,
    IllegalTransition,
    InvalidInput,
    StaleDecision,
)
from support_agent.domain.orders import PAID_BY_HAND
from support_agent.domain.people import Approver, Principal
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.domain.signing import KeyRing
from support_agent.domain.text import visible
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.payments import GatewayStatus, PaymentGateway
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.approvers import check_acting
from support_agent.services.authority import accounts_of
from support_agent.services.deciding import operators_of
from support_agent.services.destinations import check as check_destination
from support_agent.services.gateway_calls import GatewayCalls, instruction_of
from support_agent.services.outcomes import task_about, task_id
from support_agent.services.refunds import RefundLife
from support_agent.services.request_facts import decision_facts
from support_agent.services.standing import is_tampered
from support_agent.services.stored_requests import moved_meanwhile, posting_of, stored_request
from support_agent.services.tasks import PAY_BY_HAND, done_event
from support_agent.services.terms import RefundTerms

S = RequestStatus
SHORTEST_EVIDENCE, LONGEST_EVIDENCE = 3, 100
NOT_PAID = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})
# The money left, or did not: what each word does to the request and to an attempt that hung.
ENDS = {
    Choice.PAID: (S.REFUNDED, AttemptStatus.SUCCEEDED),
    Choice.NOT_PAID: (S.FAILED, AttemptStatus.FAILED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What the second person says, and the proof."""

    choice: Choice
    evidence: str
    note: str | None
    expect: int | None


class Resolutions:
    """Ends manual reviews. Authority is checked in the transaction that writes the decision."""

    def __init__(
        self,
        *,
        database: Database,
        gateway: PaymentGateway,
        life: RefundLife,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._database = database
        self._gateway = gateway
        self._calls = GatewayCalls(gateway=gateway, timeout_s=terms.gateway_timeout_s)
        self._life = life
        self._keys = keys
        self._clock = clock
        self._ids = ids

    async def resolve(
        self,
        request_id: str,
        *,
        paid: bool,
        evidence: str,
        by: Principal,
        note: str | None = None,
        expect: int | None = None,
    ) -> RefundRequest:
        """REFUNDED when it was paid, FAILED when it was not; the customer is told.

        Raises:
            InvalidInput: the evidence is no id.
            RequestNotFound, IllegalTransition, AlreadyDecided, StaleDecision: look again.
            NotAuthorised: this person may not.
            DecisionRefused: SECOND_PERSON_NEEDED, EVIDENCE_USED, RECORD_CHANGED, or
                PAID_AFTER_ALL when the gateway says that what was "not paid" is.
            PaymentError: the gateway could not be asked whether it paid; nothing was changed.
        """
        verdict = _Verdict(
            choice=Choice.PAID if paid else Choice.NOT_PAID,
            evidence=clean_evidence(evidence),
            note=note,
            expect=expect,
        )
        if not paid:
            await self._check_not_paid(request_id)
        return await self._database.transact(lambda tx: self._resolve(tx, request_id, verdict, by))

    async def _check_not_paid(self, request_id: str) -> None:
        """The gateway's word stands above a person's: its money would be promised twice."""
        request, attempt = await self._database.read(
            lambda tx: (stored_request(tx, request_id), tx.attempts.live(request_id))
        )
        if attempt is not None and attempt.gateway == self._gateway.name:
            found = await self._calls.known(attempt)
        elif attempt is None and not self._by_hand(request):
            # Our books may have been put back to before it was sent.
            key = attempt_key(request.id, request.attempt_no)
            sent = replace(instruction_of(request), key=key)
            found = await self._calls.ask(self._gateway.find(sent))
        else:
            return
        if found is not None and found.status not in NOT_PAID:
            task = task_about(request, "paid_after_all", self._clock)
            await self._database.transact(lambda tx: tx.tasks.add(task))
            raise DecisionRefused(Reason.PAID_AFTER_ALL)

    def _by_hand(self, request: RefundRequest) -> bool:
        return request.method in PAID_BY_HAND or request.gateway != self._gateway.name

    def _resolve(
        self, tx: Transaction, request_id: str, verdict: _Verdict, by: Principal
    ) -> RefundRequest:
        request = stored_request(tx, request_id)
        approver = self._checked(tx, request, by, verdict.expect)
        _check_not_of_another(tx, request, verdict.evidence)
        # Whatever the policy says today: a limit that was lowered must not keep it here for good.
        cumulative = tx.books.of_order(request.order_id).taken_minor
        limit = check_authority(approver, request, cumulative_minor=cumulative)
        decision = self._sign(request, approver, by, verdict, limit)
        status, attempt_status = ENDS[verdict.choice]
        facts = {**decision_facts(decision), "evidence": verdict.evidence}
        # Before the rows of money: `tasks done` holds a task while it waits for the history.
        task = self._no_longer_to_pay(tx, request, by)
        moved = self._life.transition(tx, request, status, actor=by, data=facts)
        if task is not None:
            tx.audit.append(done_event(task, by=by, at=self._clock.now()))
        tx.decisions.add(decision)  # under the row that was just moved, as an approval is
        attempt = tx.attempts.live(request.id)
        if attempt is not None:
            tx.attempts.finish(
                attempt.id,
                attempt_status,
                provider_refund_id=attempt.provider_refund_id,
                error_code=attempt.error_code,
            )
        return moved

    def _no_longer_to_pay(
        self, tx: Transaction, request: RefundRequest, by: Principal
    ) -> Task | None:
        """Its task to pay by hand, done now: who works through the list must not pay it again."""
        task = tx.tasks.get(task_id(request, PAY_BY_HAND))
        if task is None or not tx.tasks.finish(task.id, by=by.id, at=self._clock.now()):
            return None
        return task

    def _checked(
        self, tx: Transaction, request: RefundRequest, by: Principal, expect: int | None
    ) -> Approver:
        """The approver, once the request is what it was and they may end its review."""
        approver = check_acting(tx, by, self._keys)
        if approver is None:
            raise ApproverNotFound(by.id)
        known = accounts_of(tx, approver, self._keys)
        check_may_decide(approver, request, known=known, operators=operators_of(tx, request))
        if request.status is not S.MANUAL_REVIEW:
            wanted = f"resolved: only {S.MANUAL_REVIEW} ones are"
            raise IllegalTransition(request.id, current=request.status, wanted=wanted)
        if expect is not None and expect != request.version:
            raise StaleDecision(request.id, expected=expect, actual=request.version)
        decided = (d.person_id for d in tx.decisions.of(request.id) if d.round == request.round)
        if approver.person_id in decided:
            raise DecisionRefused(Reason.SECOND_PERSON_NEEDED, name=approver.name)
        held = tx.books.holds(posting_of(request, request.created_at))
        if not held or is_tampered(tx, request, self._keys):
            if tx.requests.get(request.id) != request:  # somebody ended it between two looks
                raise moved_meanwhile(tx, request.id)
            raise DecisionRefused(Reason.RECORD_CHANGED)
        check_destination(tx, request.destination, self._keys)
        return approver

    def _sign(
        self,
        request: RefundRequest,
        approver: Approver,
        by: Principal,
        verdict: _Verdict,
        limit: int,
    ) -> Decision:
        decision = Decision(
            id=self._ids.new("dec"),
            request_id=request.id,
            round=request.round,
            choice=verdict.choice,
            level=approver.level,
            person_id=approver.person_id,
            name=approver.name,
            proof=by.proof,
            fingerprint=request.fingerprint,
            amount_minor=request.amount_minor,
            currency=request.currency,
            limit_minor=limit,
            note=verdict.note,
            at=self._clock.now(),
            evidence=verdict.evidence,
        )
        return signed(decision, self._keys)


def _check_not_of_another(tx: Transaction, request: RefundRequest, evidence: str) -> None:
    """The gateway's id of a refund proves the request that it was made for, and no other."""
    attempt = tx.attempts.by_provider_id(request.gateway, evidence)
    if attempt is not None and attempt.request_id != request.id:
        raise DecisionRefused(Reason.EVIDENCE_USED, evidence=evidence)


def clean_evidence(text: str) -> str:
    """A transfer's or refund's id as it is compared: the same id is the same text.

    Raises:
        InvalidInput: too short, too long, or with something in it that cannot be seen.
    """
    evidence = unicodedata.normalize("NFKC", text.strip())
    if not SHORTEST_EVIDENCE <= len(evidence) <= LONGEST_EVIDENCE:
        raise InvalidInput(
            "evidence",
            f"must have {SHORTEST_EVIDENCE} to {LONGEST_EVIDENCE} characters: "
            "the id of the transfer or of the gateway's refund",
        )
    whole = evidence == visible(evidence, LONGEST_EVIDENCE)
    if not whole or any(character.isspace() for character in evidence):
        raise InvalidInput("evidence", "must not contain blanks or invisible characters")
    return evidence

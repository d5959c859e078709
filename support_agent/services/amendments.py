"""Lowering a waiting request's amount, and asking the customer about it: neither decides it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support_agent.domain.approvals import Choice
from support_agent.domain.assessment import required_approvals
from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Author
from support_agent.domain.errors import (
    DecisionRefused,
    InvalidInput,
    RefundRefused,
    ReserveMissing,
)
from support_agent.domain.money import Money, format_money
from support_agent.domain.orders import Order
from support_agent.domain.people import Principal
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.reduction import reduced_level, reduced_lines
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.text import clean_message, visible
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Shortage, Transaction
from support_agent.services.deciding import Case, Deciding, overtaken
from support_agent.services.decisions import Decisions
from support_agent.services.outgoing import send_later
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.request_facts import decision_facts
from support_agent.services.standing import Objection, judge_again
from support_agent.services.stored_requests import posting_of

LONGEST_QUESTION = 1_000
PENDING = RequestStatus.PENDING_APPROVAL


class Amendments:
    """Moves a waiting request from PENDING to PENDING; who may decide it may do so."""

    def __init__(
        self,
        *,
        deciding: Deciding,
        decisions: Decisions,
        life: RefundLife,
        policies: PoliciesInForce,
        clock: Clock,
    ) -> None:
        self._deciding = deciding
        self._decisions = decisions
        self._life = life
        self._policies = policies
        self._clock = clock

    def reduce(
        self,
        tx: Transaction,
        request_id: str,
        *,
        amount_minor: int,
        by: Principal,
        order: Order | None,
        expect: int | None,
        note: str | None,
    ) -> RefundRequest:
        """Lower the amount; every decision so far is void, and somebody still has to approve."""
        case = self._deciding.opened(tx, request_id, by=by, expect=expect)
        limit = self._deciding.authority(tx, case)
        lower = self._lower(tx, case.request, amount_minor)
        policy = self._policies.current(tx)
        judged = judge_again(tx, lower, order, policy, self._clock.now())
        if isinstance(judged, Objection):
            raise DecisionRefused(judged.reason, **judged.facts)
        cumulative = self._reserve_less(tx, case.request, lower)
        changes = _terms_of(case, lower, policy, cumulative)
        decision = self._decisions.sign(case.request, case.approver, Choice.REDUCE, by, limit, note)
        moved = self._life.transition(
            tx,
            case.request,
            PENDING,
            actor=by,
            next_round=True,
            changes=changes,
            data={**decision_facts(decision), "amount_before": str(case.request.amount_minor)},
        )
        tx.decisions.add(decision)
        return moved

    def _lower(self, tx: Transaction, request: RefundRequest, amount_minor: int) -> RefundRequest:
        if len(tx.requests.of_group(request.group_id)) > 1:
            raise DecisionRefused(Reason.GROUP_NOT_REDUCED)
        amount = Money(amount_minor=amount_minor, currency=request.currency).amount_minor
        if not 0 < amount < request.amount_minor:
            now = format_money(request.amount_minor, request.currency)
            raise DecisionRefused(Reason.AMOUNT_NOT_LOWER, amount=now)
        return replace(request, amount_minor=amount, lines=reduced_lines(request.lines, amount))

    def _reserve_less(self, tx: Transaction, before: RefundRequest, lower: RefundRequest) -> int:
        """Exchange the reserve; the order's cumulative amount after it.

        The old one goes out under the old round and the lower one comes in under the next, so
        that a later posting of this request never meets one of the same round.
        """
        now = self._clock.now()
        try:
            tx.books.release(posting_of(before, now))
        except ReserveMissing:
            # Of two movers at once the second finds the reserve gone, with the row moved.
            if tx.requests.get(before.id) != before:
                raise overtaken(tx, before) from None
            raise
        held = tx.books.reserve(posting_of(replace(lower, round=before.round + 1), now))
        if isinstance(held, Shortage):
            raise DecisionRefused(Reason.QUOTE_STALE)
        return held

    def ask(
        self,
        tx: Transaction,
        request_id: str,
        *,
        question: str,
        by: Principal,
        expect: int | None,
    ) -> RefundRequest:
        """Put the question to the customer; the request waits on, until when it did before."""
        case = self._deciding.opened(tx, request_id, by=by, expect=expect)
        self._deciding.authority(tx, case)
        text = question_text(question)
        conversation = case.request.conversation_id
        talk = None if conversation is None else tx.conversations.get(conversation)
        if conversation is None or talk is None or talk.erased:
            raise DecisionRefused(Reason.NO_CONVERSATION)
        now = self._clock.now()
        moved = self._life.move_group(
            tx, case.members, PENDING, actor=by, changes={"asked_at": now}
        )
        seq = tx.conversations.append(
            conversation, author=Author.STAFF, text=text, at=now, run_id=None
        )
        send_later(tx, conversation, seq, at=now)
        tx.audit.append(
            AuditEvent(
                action="approval.asked",
                actor=by,
                subject=case.request.id,
                at=now,
                data={"conversation": conversation, "message": str(seq)},
            )
        )
        return case.moved(moved)


def _terms_of(
    case: Case, lower: RefundRequest, policy: Policy, cumulative: int
) -> Mapping[str, Any]:
    """What the lower amount changes of the request, its level and approvals among it."""
    request = case.request
    try:
        level = reduced_level(request, policy, cumulative_minor=cumulative)
    except RefundRefused as refused:
        raise DecisionRefused(refused.reason, **refused.facts) from refused
    return {
        "amount_minor": lower.amount_minor,
        "lines": lower.lines,
        "required_level": level,
        "approvals_needed": required_approvals(policy, request.currency, cumulative),
        "reasons": tuple(dict.fromkeys((*request.reasons, Reason.REDUCED))),
    }


def question_text(question: str) -> str:
    """A question as the customer gets it: cleaned, with nothing in it that hides.

    Raises:
        InvalidInput: empty, too long, or not text.
    """
    try:
        text = clean_message(question, max_chars=LONGEST_QUESTION)
    except InvalidInput as error:
        raise InvalidInput("question", error.problem) from error
    return visible(text, LONGEST_QUESTION * 2, keep_newlines=True)

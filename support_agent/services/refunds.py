"""The life of a refund request. `transition` alone writes its status, ledger, audit and outbox."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

import structlog

from support_agent.domain.approvals import Decision
from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Author
from support_agent.domain.errors import (
    AlreadyDecided,
    IllegalTransition,
    RefundRefused,
    RequestNotFound,
    ReserveMissing,
)
from support_agent.domain.people import SYSTEM, Asker, Principal
from support_agent.domain.reasons import Language, Reason
from support_agent.domain.refunds import (
    MOVES,
    OPEN,
    LedgerKind,
    RefundRequest,
    RequestStatus,
    filing_digest,
    fingerprint,
)
from support_agent.domain.wording import request_sentence
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Posting, Transaction
from support_agent.services.order_lookup import foreign_access
from support_agent.services.sweeps import PAGE, sweep

log = structlog.get_logger(__name__)
S = RequestStatus
NOTHING: Mapping[str, str] = MappingProxyType({})

# The customer hears of these when they happen outside of a turn; the rest is our own bookkeeping.
TOLD = frozenset(
    {S.APPROVED, S.REFUNDED, S.REJECTED, S.CANCELLED, S.EXPIRED, S.FAILED, S.IN_DOUBT}
    | {S.MANUAL_REVIEW, S.PROVIDER_PENDING}
)


class RefundLife:
    """Moves requests through the state table of `domain.refunds.MOVES`, and nowhere else."""

    def __init__(self, *, clock: Clock, books_only: bool) -> None:
        self._clock = clock
        self._books_only = books_only

    def admit(
        self, tx: Transaction, request: RefundRequest, *, data: Mapping[str, str] = NOTHING
    ) -> None:
        """The move out of nothing: store a filed request whose reserve is already held."""
        self._check_move(request.id, None, request.status, request.requester)
        tx.requests.add(request)
        self._record(tx, request, "refund.filed", request.requester, data)

    def transition(
        self,
        tx: Transaction,
        request: RefundRequest,
        to: RequestStatus,
        *,
        actor: Principal,
        notify: bool = True,
        approved_until: datetime | None = None,
        next_round: bool = False,
        data: Mapping[str, str] = NOTHING,
    ) -> RefundRequest:
        """Move the request, with the ledger, audit, outbox and notice that belong to the move.

        Balances are taken before the request's row and caps after it, in the order of everyone
        else. A new round voids the decisions of the old one, and what they counted into caps.

        Raises:
            IllegalTransition: the state table does not list it for this actor.
            AlreadyDecided: somebody else moved the request meanwhile.
        """
        effect = self._check_move(request.id, request.status, to, actor)
        moved = replace(
            request,
            status=to,
            version=request.version + 1,
            round=request.round + 1 if next_round else request.round,
            approved_until=approved_until,
        )
        self._book(tx, request, effect)
        if not tx.requests.move(request, to, round=moved.round, approved_until=approved_until):
            raise moved_meanwhile(tx, request.id)
        if next_round or effect is LedgerKind.RELEASE:
            tx.books.give_back_caps(posting_of(request, self._clock.now()))
        self._record(tx, moved, f"refund.{to.lower()}", actor, data)
        if notify and to in TOLD:
            self._tell(tx, moved)
        return moved

    def cancel(self, tx: Transaction, request_id: str, asker: Asker) -> RefundRequest:
        """The customer takes a request back, before any attempt to pay it exists.

        Raises:
            RequestNotFound: unknown, or another customer's.
            RefundRefused: ALREADY_PAYING.
            AlreadyDecided: it is final already.
        """
        request = self.owned(tx, request_id, asker)
        return self._cancel(tx, request, asker.principal, notify=False)

    def cancel_for_shop(self, tx: Transaction, request_id: str, *, by: Principal) -> RefundRequest:
        """Staff takes a request back under the same rules; the customer is told.

        Raises:
            RequestNotFound, RefundRefused, AlreadyDecided: as `cancel`.
        """
        return self._cancel(tx, stored_request(tx, request_id), by, notify=True)

    def _cancel(
        self, tx: Transaction, request: RefundRequest, actor: Principal, *, notify: bool
    ) -> RefundRequest:
        if request.status not in OPEN:
            raise moved_meanwhile(tx, request.id)
        if (request.status, S.CANCELLED) not in MOVES or tx.attempts.live(request.id) is not None:
            raise RefundRefused(Reason.ALREADY_PAYING)
        return self.transition(tx, request, S.CANCELLED, actor=actor, notify=notify)

    def owned(self, tx: Transaction, request_id: str, asker: Asker) -> RefundRequest:
        """The asker's request; another customer's answers exactly like a missing one."""
        request = tx.requests.get(request_id)
        if request is None or request.customer_id != asker.customer_id:
            raise RequestNotFound(request_id)
        return request

    async def expire_due(self, database: Database) -> tuple[RefundRequest, ...]:
        """Void what waited too long; expiry means no.

        Each in a transaction of its own: together they would take rows of many orders and
        conversations, in no order that others could keep.
        """
        now = self._clock.now()

        async def expire(request_id: str) -> RefundRequest | None:
            return await database.transact(lambda tx: self._expire(tx, request_id))

        return await sweep(
            database, lambda tx, last: tx.requests.expired(now, limit=PAGE, after=last), expire
        )

    def _expire(self, tx: Transaction, request_id: str) -> RefundRequest | None:
        """A row somebody changed by hand stays as it is, for `refunds check`."""
        request = stored_request(tx, request_id)
        if not _is_late(request, self._clock.now()):  # decided since it was listed
            return None
        if not tx.books.holds(posting_of(request, request.created_at)):
            log.error("refund.reserve_missing", refund_id=request.id)
            return None
        return self.transition(tx, request, S.EXPIRED, actor=SYSTEM)

    def _check_move(
        self,
        request_id: str,
        current: RequestStatus | None,
        to: RequestStatus,
        actor: Principal,
    ) -> LedgerKind | None:
        move = MOVES.get((current, to))
        if move is None or actor.kind not in move.actors:
            raise IllegalTransition(request_id, current=current or "not filed", wanted=to)
        return move.effect

    def _book(self, tx: Transaction, request: RefundRequest, effect: LedgerKind | None) -> None:
        posting = posting_of(request, self._clock.now())
        try:
            if effect is LedgerKind.RELEASE:
                tx.books.release(posting)
            elif effect is LedgerKind.SETTLE:
                tx.books.settle(posting)
        except ReserveMissing:
            # Of two movers at once the second finds the reserve gone, with the row moved.
            if tx.requests.get(request.id) != request:
                raise moved_meanwhile(tx, request.id) from None
            raise

    def _record(
        self,
        tx: Transaction,
        request: RefundRequest,
        action: str,
        actor: Principal,
        data: Mapping[str, str],
    ) -> None:
        now = self._clock.now()
        facts = {**state_facts(request), **data}
        tx.audit.append(
            AuditEvent(action=action, actor=actor, subject=request.id, at=now, data=facts)
        )
        body = {"request_id": request.id, "status": request.status, "order_id": request.order_id}
        tx.outbox.add(action, key=f"{request.id}:{request.version}", body=body, at=now)

    def _tell(self, tx: Transaction, request: RefundRequest) -> None:
        if request.conversation_id is None:
            return
        conversation = tx.conversations.get(request.conversation_id)
        language: Language = conversation.language if conversation else "vi"
        tx.conversations.append(
            request.conversation_id,
            author=Author.NOTICE,
            text=request_sentence(request, language, books_only=self._books_only),
            at=self._clock.now(),
            run_id=None,
        )


def stored_request(tx: Transaction, request_id: str) -> RefundRequest:
    """The request as its row is now.

    Raises:
        RequestNotFound: unknown id.
    """
    request = tx.requests.get(request_id)
    if request is None:
        raise RequestNotFound(request_id)
    return request


def _is_late(request: RefundRequest, now: datetime) -> bool:
    until = {S.PENDING_APPROVAL: request.expires_at, S.APPROVED: request.approved_until}
    limit = until.get(request.status)
    return limit is not None and now > limit


def agrees(request: RefundRequest, facts: Mapping[str, str]) -> bool:
    """Whether the row is what an audit event says of it, down to its fingerprint."""
    told = all(facts.get(key) == value for key, value in state_facts(request).items())
    return told and request.fingerprint == fingerprint(request)


def state_facts(request: RefundRequest) -> dict[str, str]:
    """What the audit says of a request; `audit verify` compares the newest with the row."""
    until = request.approved_until
    return {
        "status": request.status,
        "version": str(request.version),
        "round": str(request.round),
        "order": request.order_id,
        "customer": request.customer_id,
        "amount_minor": str(request.amount_minor),
        "currency": request.currency,
        "level": str(request.required_level),
        "fingerprint": request.fingerprint,
        "filing": filing_digest(request),
        "approved_until": until.astimezone(UTC).isoformat() if until else "",
    }


def decision_facts(decision: Decision) -> dict[str, str]:
    """What the audit says of a decision, so that one that is deleted later is missed."""
    return {"decision": decision.id, "decision_mac": decision.mac}


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
    decisions = tx.decisions.of(request_id)
    last = decisions[-1] if decisions else None
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

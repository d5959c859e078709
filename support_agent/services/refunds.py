"""The life of refund requests. `move_group` alone writes status, ledger, audit and outbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import structlog

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    IllegalTransition,
    RefundRefused,
    RequestNotFound,
    ReserveMissing,
)
from support_agent.domain.people import SYSTEM, Asker, Principal
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    CHANGEABLE,
    MOVES,
    OPEN,
    LedgerKind,
    RefundRequest,
    RequestStatus,
    fingerprint,
)
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Posting, Shortage, Transaction
from support_agent.services.notices import Notices
from support_agent.services.request_facts import move_facts, state_facts
from support_agent.services.stored_requests import (
    group_of,
    moved_meanwhile,
    posting_of,
    stored_request,
)
from support_agent.services.sweeps import PAGE, sweep

log = structlog.get_logger(__name__)
S = RequestStatus
NOTHING: Mapping[str, str] = MappingProxyType({})
NO_DATA: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class RefundLife:
    """Moves requests through the state table of `domain.refunds.MOVES`, and nowhere else."""

    def __init__(self, *, clock: Clock, books_only: bool) -> None:
        self._clock = clock
        self._notices = Notices(clock=clock, books_only=books_only)

    def admit(
        self, tx: Transaction, request: RefundRequest, *, data: Mapping[str, str] = NOTHING
    ) -> None:
        """The move out of nothing: store a filed request whose reserve is already held."""
        self._check_move(request.id, None, request.status, request.requester)
        tx.requests.add(request)
        self._record(tx, None, request, "refund.filed", request.requester, data)

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
        changes: Mapping[str, Any] = NOTHING,
        on_reserved: Callable[[int], Mapping[str, Any]] | None = None,
        data: Mapping[str, str] = NOTHING,
    ) -> RefundRequest:
        """Move the request, with the ledger, audit, outbox and notice that belong to the move.

        Balances are taken before the request's row and caps after it, in the order of everyone
        else. A new round voids the decisions of the old one, and what they counted into caps.
        `changes` are other fields of CHANGEABLE; where they change what a decision is bound to, the
        round has to change too. `on_reserved` gives more of them for a move that reserves, from the
        order's cumulative amount as the reserve returned it.

        Raises:
            IllegalTransition: the state table does not list it for this actor.
            AlreadyDecided: somebody else moved the request meanwhile.
        """
        (moved,) = self.move_group(
            tx,
            (request,),
            to,
            actor=actor,
            notify=notify,
            approved_until=approved_until,
            next_round=next_round,
            changes=changes,
            on_reserved=on_reserved,
            data={request.id: data},
        )
        return moved

    def move_group(
        self,
        tx: Transaction,
        requests: Sequence[RefundRequest],
        to: RequestStatus,
        *,
        actor: Principal,
        notify: bool = True,
        approved_until: datetime | None = None,
        next_round: bool = False,
        changes: Mapping[str, Any] = NOTHING,
        on_reserved: Callable[[int], Mapping[str, Any]] | None = None,
        data: Mapping[str, Mapping[str, str]] = NO_DATA,
    ) -> tuple[RefundRequest, ...]:
        """`transition` of requests of one group, all or none, with one notice about all of them.

        Balances of all come first, then the rows of all, then the caps: in any other order two
        groups could wait for one another. What changes is the same for all, `data` is by request.

        Raises:
            IllegalTransition, AlreadyDecided: as `transition`, for any of them.
        """
        after: list[RefundRequest] = []
        releases = next_round
        for request in requests:
            effect = self._check_move(request.id, request.status, to, actor)
            releases = releases or effect is LedgerKind.RELEASE
            moved = _changed(
                request,
                changes,
                status=to,
                version=request.version + 1,
                round=request.round + 1 if next_round else request.round,
                approved_until=approved_until,
            )
            cumulative = self._book(tx, request, moved, effect)
            if on_reserved is not None and cumulative is not None:
                moved = _changed(moved, on_reserved(cumulative))
            after.append(moved)
        for request, moved in zip(requests, after, strict=True):
            if not tx.requests.move(request, moved):
                raise moved_meanwhile(tx, request.id)
        for request in requests if releases else ():
            tx.books.give_back_caps(posting_of(request, self._clock.now()))
        for request, moved in zip(requests, after, strict=True):
            facts = data.get(moved.id, NOTHING)
            self._record(tx, request, moved, f"refund.{to.lower()}", actor, facts)
        if notify:
            self._notices.tell(tx, requests, after)
        return tuple(after)

    def tell_unless_stated(
        self, tx: Transaction, before: RefundRequest, moved: RefundRequest
    ) -> None:
        """Tell of a move within a turn, when no answer will: the turn was taken over and ended."""
        conversation_id = moved.conversation_id
        if conversation_id is not None and not tx.runs.will_state(conversation_id, moved.id):
            self._notices.tell(tx, (before,), (moved,))

    def tell_approved(self, tx: Transaction, request_id: str, *, version: int) -> None:
        """Tell of an approval that no payment followed: the gateway is away, or payouts are paused.

        With it of the others that were approved together; the first that waits is asked for all.
        `version` is the one that was approved.
        """
        request = tx.requests.get(request_id)
        if request is None or request.version > version + 1:
            return  # more than a payment was begun since, which is told by itself
        decided = [one for one in group_of(tx, request) if _decided_with(one, request)]
        unpaid = [one for one in decided if one.status in {S.APPROVED, S.PAYING}]
        if unpaid and unpaid[0].id == request_id:
            self._notices.tell(tx, unpaid, unpaid)

    def cancel(self, tx: Transaction, request_id: str, asker: Asker) -> RefundRequest:
        """The customer takes a request back, before any attempt to pay it exists.

        With it goes what it was filed with: nothing of the group may be on its way.

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
        still_open = [member for member in group_of(tx, request) if member.status in OPEN]
        if not still_open:
            raise moved_meanwhile(tx, request.id)
        for member in still_open:
            movable = (member.status, S.CANCELLED) in MOVES
            if not movable or tx.attempts.live(member.id) is not None:
                raise RefundRefused(Reason.ALREADY_PAYING)
        self.move_group(tx, still_open, S.CANCELLED, actor=actor, notify=notify)
        return stored_request(tx, request.id)

    def owned(self, tx: Transaction, request_id: str, asker: Asker) -> RefundRequest:
        """The asker's request; another customer's answers exactly like a missing one."""
        request = tx.requests.get(request_id)
        if request is None or request.customer_id != asker.customer_id:
            raise RequestNotFound(request_id)
        return request

    async def expire_due(self, database: Database) -> tuple[RefundRequest, ...]:
        """Void what waited too long; expiry means no.

        Each group in a transaction of its own: together they would take rows of many orders and
        conversations, in no order that others could keep.
        """
        now = self._clock.now()
        done: dict[str, RefundRequest] = {}

        async def expire(request_id: str) -> RefundRequest | None:
            if request_id not in done:  # not with another of its group
                expired = await database.transact(lambda tx: self._expire(tx, request_id))
                done.update({request.id: request for request in expired})
            return done.get(request_id)

        return await sweep(
            database, lambda tx, last: tx.requests.expired(now, limit=PAGE, after=last), expire
        )

    def _expire(self, tx: Transaction, request_id: str) -> tuple[RefundRequest, ...]:
        """A row somebody changed by hand stays as it is, for `refunds check`."""
        now = self._clock.now()
        late = [
            member
            for member in group_of(tx, stored_request(tx, request_id))
            if _is_late(member, now) and tx.attempts.live(member.id) is None
        ]
        for member in late:
            if not tx.books.holds(posting_of(member, member.created_at)):
                log.error("refund.reserve_missing", refund_id=member.id)
                return ()
        if request_id not in {member.id for member in late}:  # decided since it was listed
            return ()
        return self.move_group(tx, late, S.EXPIRED, actor=SYSTEM)

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

    def _book(
        self,
        tx: Transaction,
        request: RefundRequest,
        moved: RefundRequest,
        effect: LedgerKind | None,
    ) -> int | None:
        """Post what the move does; the order's cumulative amount when it reserves."""
        posting = posting_of(request, self._clock.now())
        try:
            match effect:
                case LedgerKind.RELEASE:
                    tx.books.release(posting)
                case LedgerKind.SETTLE | LedgerKind.MANUAL:
                    tx.books.settle(posting, by_hand=effect is LedgerKind.MANUAL)
                case LedgerKind.REVERSE:
                    tx.books.reverse(posting)
                case LedgerKind.RESERVE:
                    return _reserve_again(tx, request, posting_of(moved, self._clock.now()))
        except ReserveMissing:
            # Of two movers at once the second finds the reserve gone, with the row moved.
            if tx.requests.get(request.id) != request:
                raise moved_meanwhile(tx, request.id) from None
            raise
        return None

    def _record(
        self,
        tx: Transaction,
        before: RefundRequest | None,
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
        key, body = f"{request.id}:{request.version}", move_facts(before, request, data)
        tx.outbox.add(action, key=key, body=body, at=now)


def _decided_with(one: RefundRequest, other: RefundRequest) -> bool:
    """One that staff retried is decided alone."""
    return (one.attempt_no, one.expires_at) == (other.attempt_no, other.expires_at)


def _changed(request: RefundRequest, changes: Mapping[str, Any], **moves: Any) -> RefundRequest:  # noqa: ANN401 - field values
    unknown = changes.keys() - CHANGEABLE
    if unknown:
        raise RuntimeError(f"a request's {sorted(unknown)} never change")
    moved = replace(request, **{**moves, **changes})
    bound = fingerprint(moved)
    return moved if bound == moved.fingerprint else replace(moved, fingerprint=bound)


def _reserve_again(tx: Transaction, request: RefundRequest, posting: Posting) -> int:
    held = tx.books.reserve(posting)
    if isinstance(held, Shortage):
        if tx.requests.get(request.id) != request:  # the room went to who retried it first
            raise moved_meanwhile(tx, request.id)
        raise RefundRefused(Reason.QUOTE_STALE)
    return held


def _is_late(request: RefundRequest, now: datetime) -> bool:
    until = {S.PENDING_APPROVAL: request.expires_at, S.APPROVED: request.approved_until}
    limit = until.get(request.status)
    return limit is not None and now > limit

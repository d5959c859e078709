"""Settling attempts whose outcome is not known: ask first, send again only what is proved."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import PaymentDeclined, PaymentOutcomeUnknown
from support_agent.domain.people import SYSTEM
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Attempt, RefundRequest, RequestStatus
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, SwitchName, Transaction
from support_agent.services.breaker import Breaker
from support_agent.services.clearance import Clearance
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.outcomes import UNSETTLED, Outcomes, hold_back
from support_agent.services.refunds import RefundLife
from support_agent.services.sending import Sending
from support_agent.services.stored_requests import moved_meanwhile, stored_request
from support_agent.services.sweeps import PAGE, sweep
from support_agent.services.switches import Switchboard

S = RequestStatus
# Ages are by the database's clock, from the moment that the request's signed row names.
IN_FLIGHT = timedelta(minutes=5)  # so young, another process may be waiting for the answer
KEY_LASTS = timedelta(hours=23)  # a gateway keeps a key for 24 hours: after it a resend pays twice
MOST_SKEW = timedelta(seconds=60)  # between the database's clock and ours
# So long a gateway may tell nothing; what is neither paid nor not by then, no machine finds out.
NEVER_TELLS = timedelta(days=3)
# The same key again waits this long at least, and each time as long as all before together.
BETWEEN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A request and its live attempt, and how old that is; no age: no clock to be trusted."""

    request: RefundRequest
    attempt: Attempt | None
    age: timedelta | None

    @property
    def is_in_flight(self) -> bool:
        young = self.age is not None and self.age <= IN_FLIGHT
        return young and self.request.status is S.PAYING

    @property
    def why_not_again(self) -> str | None:
        """Why the key may never be sent again."""
        if self.age is None:
            return "AGE_UNKNOWN"
        return "TOO_OLD" if self.age >= KEY_LASTS else None

    @property
    def is_hopeless(self) -> bool:
        """Whether silence alone is enough to call a person, who could not end it otherwise."""
        old = self.age is not None and self.age >= NEVER_TELLS
        return old and self.request.status is not S.PROVIDER_PENDING


class Reconciliation:
    """Asks the gateway about our attempts. "Not found" is no proof that nothing was paid."""

    def __init__(
        self,
        *,
        database: Database,
        calls: GatewayCalls,
        sending: Sending,
        clearance: Clearance,
        outcomes: Outcomes,
        breaker: Breaker,
        switchboard: Switchboard,
        life: RefundLife,
        clock: Clock,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._calls = calls
        self._sending = sending
        self._clearance = clearance
        self._outcomes = outcomes
        self._breaker = breaker
        self._switchboard = switchboard
        self._life = life
        self._clock = clock
        self._wall_clock = wall_clock

    async def run(self) -> tuple[RefundRequest, ...]:
        """What became of each unclear request. What only waits for the provider comes last."""
        return (*await self._over(S.PAYING, S.IN_DOUBT), *await self._over(S.PROVIDER_PENDING))

    async def _over(self, *statuses: RequestStatus) -> tuple[RefundRequest, ...]:
        return await sweep(
            self._database,
            lambda tx, last: tx.requests.in_status(statuses, limit=PAGE, after=last),
            self.one,
            going_on=self._calls.worth_asking(),
        )

    async def one(self, request_id: str) -> RefundRequest:
        """Settle one request as far as the gateway's word goes.

        Raises:
            RequestNotFound: unknown id.
            PaymentError: the gateway could not be asked; nothing was changed.
        """
        case = await self._database.read(lambda tx: self._case(tx, request_id))
        if case.request.status not in UNSETTLED:
            return case.request
        if case.attempt is None:
            return await self._database.transact(lambda tx: self._hold(tx, case.request))
        if not self._calls.knows(case.attempt):
            return await self._elsewhere(case, case.attempt)
        try:
            async with self._breaker.watching(self._calls.gateway.name):
                found = await self._calls.known(case.attempt)
        except (PaymentOutcomeUnknown, PaymentDeclined):
            if not case.is_hopeless:
                raise
            return await self._outcomes.given_up(case.attempt, code="NEVER_TOLD", notify=True)
        if found is not None:
            return await self._outcomes.answered(case.attempt, found, notify=True)
        return await self._not_found(case, case.attempt)

    async def _elsewhere(self, case: _Case, attempt: Attempt) -> RefundRequest:
        """It was sent to another gateway, of which ours knows nothing, declines included."""
        if case.why_not_again is not None:
            return await self._outcomes.given_up(attempt, code=case.why_not_again, notify=True)
        return case.request

    async def _not_found(self, case: _Case, attempt: Attempt) -> RefundRequest:
        if case.why_not_again is not None:
            return await self._outcomes.given_up(attempt, code=case.why_not_again, notify=True)
        if case.is_in_flight:
            return case.request
        if case.request.status is S.PROVIDER_PENDING:  # it was accepted: it may show up again
            return await self._database.transact(lambda tx: self._genuine(tx, case.request))
        proved = await self._database.transact(lambda tx: self._again(tx, case.request))
        if isinstance(proved, RefundRequest):
            return proved
        doubt_told = case.request.status is S.IN_DOUBT
        return await self._sending.send(proved, notify=True, again=True, doubt_told=doubt_told)

    def _case(self, tx: Transaction, request_id: str) -> _Case:
        request = stored_request(tx, request_id)
        return _Case(
            request=request, attempt=tx.attempts.live(request_id), age=self._age(tx, request)
        )

    def _age(self, tx: Transaction, request: RefundRequest) -> timedelta | None:
        now, ours = tx.database_now(), self._wall_clock()
        if request.attempt_at is None or abs(now - ours) > MOST_SKEW:
            return None
        age = now - request.attempt_at
        return None if age < timedelta() else age

    def _again(self, tx: Transaction, seen: RefundRequest) -> Attempt | RefundRequest:
        """The attempt whose very bytes may be sent again, or the request as it stays.

        Everything is looked at anew: what was read before the gateway was asked may be old.
        """
        case = self._case(tx, seen.id)
        request, attempt = case.request, case.attempt
        if request != seen or attempt is None or case.why_not_again is not None:
            return request  # it moved meanwhile, or the next look will see to it
        if not self._switchboard.is_on(tx, SwitchName.PAYOUTS):
            return request
        now = tx.database_now()
        if attempt.checked_at is not None and now - attempt.checked_at < _pause(attempt):
            return request
        held = self._held_back(tx, request)
        if held is not None:
            return held
        self._mark(tx, request, attempt)
        tx.attempts.mark_checked(attempt.id, now)
        return attempt

    def _genuine(self, tx: Transaction, seen: RefundRequest) -> RefundRequest:
        """The request as it is; one that we never wrote so is somebody's task."""
        request = stored_request(tx, seen.id)
        return request if request != seen else self._held_back(tx, request) or request

    def _held_back(self, tx: Transaction, request: RefundRequest) -> RefundRequest | None:
        forged = self._clearance.forgery_again(tx, request)
        if forged is None:
            return None
        current = stored_request(tx, request.id)  # another may have moved it while we looked
        return current if current != request else hold_back(tx, request, forged, self._clock)

    def _mark(self, tx: Transaction, request: RefundRequest, attempt: Attempt) -> None:
        """Say in the history that it is sent again, with the request's row in hand."""
        data = {"attempt": attempt.id, "key": attempt.key}
        if request.status is S.IN_DOUBT:
            self._life.transition(tx, request, S.PAYING, actor=SYSTEM, notify=False, data=data)
            return
        if not tx.requests.hold(request):
            raise moved_meanwhile(tx, request.id)
        tx.audit.append(
            AuditEvent(
                action="payout.sent_again",
                actor=SYSTEM,
                subject=request.id,
                at=self._clock.now(),
                data=data,
            )
        )

    def _hold(self, tx: Transaction, seen: RefundRequest) -> RefundRequest:
        """Its attempt is not there: somebody wrote the status, or deleted the row."""
        request = stored_request(tx, seen.id)
        if request != seen or tx.attempts.live(seen.id) is not None:
            return request
        return hold_back(tx, request, Reason.RECORD_CHANGED, self._clock)


def _pause(attempt: Attempt) -> timedelta:
    if attempt.checked_at is None:
        return timedelta()
    return max(BETWEEN, attempt.checked_at - attempt.sent_at)

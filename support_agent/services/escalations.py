"""What nobody decided in time goes to a higher level and to the head of the queue."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import structlog

from support_agent.domain.people import SYSTEM
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.deciding import PENDING, pending_members
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.standing import is_tampered
from support_agent.services.stored_requests import stored_request
from support_agent.services.sweeps import PAGE, sweep
from support_agent.services.terms import RefundTerms

OVERDUE = "overdue_approval"
log = structlog.get_logger(__name__)


class Escalations:
    """Raises level and rank of what is overdue. Never decides, and never waits longer for it."""

    def __init__(
        self,
        *,
        database: Database,
        life: RefundLife,
        policies: PoliciesInForce,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
    ) -> None:
        self._database = database
        self._life = life
        self._policies = policies
        self._terms = terms
        self._keys = keys
        self._clock = clock

    async def run(self) -> tuple[RefundRequest, ...]:
        """Escalate what is overdue, each group once, in a transaction of its own."""
        now = self._clock.now()

        async def escalate(request_id: str) -> RefundRequest | None:
            return await self._database.transact(lambda tx: self._escalate(tx, request_id))

        return await sweep(
            self._database, lambda tx, last: tx.requests.due(now, limit=PAGE, after=last), escalate
        )

    def _escalate(self, tx: Transaction, request_id: str) -> RefundRequest | None:
        members = pending_members(tx, stored_request(tx, request_id))
        request = next((member for member in members if member.id == request_id), None)
        now = self._clock.now()
        # Decided, or escalated with its group, since it was listed; or for expiry to end.
        if request is None or request.due_at >= now or now > request.expires_at:
            return None
        # Moving a row that somebody wrote by hand would sign what he wrote.
        if any(is_tampered(tx, member, self._keys) for member in members):
            log.error("escalation.record_changed", refund_id=request.id)
            return None
        moved = self._raise(tx, members, self._policies.current(tx), now)
        escalated = next(member for member in moved if member.id == request_id)
        if escalated.round == request.round:
            tx.tasks.add(_overdue(escalated, now))
        return escalated

    def _raise(
        self, tx: Transaction, members: Sequence[RefundRequest], policy: Policy, now: datetime
    ) -> tuple[RefundRequest, ...]:
        """One level up where there is one, and ahead of all that were raised less often."""
        level = max(member.required_level for member in members)
        top = max(level, _top_level(policy, members[0].currency))
        times = 1 + max(member.escalations for member in members)
        higher = level < top
        changes: dict[str, Any] = {"escalations": times, "due_at": self._next_due(members, now)}
        if higher:
            reasons = (reason for member in members for reason in member.reasons)
            changes |= {
                "required_level": level + 1,
                "reasons": tuple(dict.fromkeys((*reasons, Reason.ESCALATED))),
            }
        data = {"reason": Reason.ESCALATED, "escalations": str(times)}
        return self._life.move_group(
            tx,
            members,
            PENDING,
            actor=SYSTEM,
            # Who approved below the new level did not decide what now has to be decided.
            next_round=higher,
            changes=changes,
            data={member.id: data for member in members},
        )

    def _next_due(self, members: Sequence[RefundRequest], now: datetime) -> datetime:
        """One more term; from now when `tick` did not run for longer than that."""
        due = min(member.due_at for member in members) + self._terms.decide_within
        return due if due > now else now + self._terms.decide_within


def _top_level(policy: Policy, currency: str) -> int:
    limits = policy.limits.get(currency)
    return len(limits.levels) if limits else policy.top_level


def _overdue(request: RefundRequest, now: datetime) -> Task:
    return Task(
        id=f"task_{OVERDUE}_{request.id}_{request.escalations}",
        kind=OVERDUE,
        subject=request.id,
        conversation_id=request.conversation_id,
        created_at=now,
    )

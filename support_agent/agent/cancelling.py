"""Calls a run off, whichever process has it: what it committed stands, and nothing more follows."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from support_agent.agent.budget import NOT_EXECUTED
from support_agent.agent.ending import Ending
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import ConversationBusy, RunEnded, RunNotFound
from support_agent.domain.people import Principal
from support_agent.domain.runs import Observation, Run, ToolCall
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction
from support_agent.services.consent import RUN_CANCELLED

log = structlog.get_logger(__name__)
# True of each that is open: what a tool changes is committed with its answer, or not at all.
CALLED_OFF = Observation(
    ok=False,
    content=f"ERROR {NOT_EXECUTED}: the run was cancelled before this call had any effect",
    error_code=NOT_EXECUTED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelling:
    """Ends a run in one transaction, and takes the conversation from whoever has it.

    The owner finds that out at its next commit, which is refused, as after any other take-over. A
    payout that it has begun ends by its own rules: it was committed before it was sent.
    """

    ending: Ending
    clock: Clock

    def cancel(self, tx: Transaction, run_id: str, *, by: Principal) -> None:
        """End it as CANCELLED, with every call answered and the customer told.

        Raises:
            RunNotFound: unknown.
            RunEnded: it has ended already.
        """
        found = tx.runs.get(run_id)
        # The conversation's row before the run's, as everywhere.
        epoch = None if found is None else tx.conversations.seize(found.conversation_id)
        if found is None or epoch is None:
            raise RunNotFound(run_id)
        run = tx.runs.take_over(found.conversation_id, epoch=epoch, counts=False)
        if run is None or run.id != run_id:
            now = tx.runs.get(run_id) or found
            raise RunEnded(run_id, status=now.status)
        for call in _open_calls(tx, run):
            tx.runs.answer(call, CALLED_OFF, epoch=epoch)
        self.ending.call_off(tx, run)
        tx.audit.append(
            AuditEvent(
                action=RUN_CANCELLED,
                actor=by,
                subject=run_id,
                at=self.clock.now(),
                data={"conversation": run.conversation_id},
            )
        )


def _open_calls(tx: Transaction, run: Run) -> Iterator[ToolCall]:
    for step in tx.runs.steps(run.id):
        yield from (recorded.call for recorded in step.calls if recorded.observation is None)


class UnderWay:
    """The runs that this process carries, so that one that was called off stops at once."""

    def __init__(self) -> None:
        self._scopes: dict[str, asyncio.Timeout] = {}

    @asynccontextmanager
    async def carried(self, run: Run) -> AsyncIterator[None]:
        """Around what carries a run.

        Raises:
            ConversationBusy: it was broken off; its conversation is not this owner's any more.
        """
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes[run.id] = scope
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            log.info("run.called_off", run_id=run.id)
            raise ConversationBusy(run.conversation_id) from error
        finally:
            if self._scopes.get(run.id) is scope:
                del self._scopes[run.id]

    def break_off(self, run_id: str) -> None:
        """Stop carrying it, if it is this process that does."""
        scope = self._scopes.get(run_id)
        if scope is not None:
            scope.reschedule(asyncio.get_running_loop().time())

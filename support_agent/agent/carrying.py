"""Carries a run that began to its end, or leaves it as whoever comes next needs it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from support_agent.agent.cancelling import UnderWay
from support_agent.agent.ending import Ending
from support_agent.agent.loop import AgentLoop
from support_agent.agent.results import TurnResult
from support_agent.agent.state import LoopEnd, RunState
from support_agent.domain.errors import (
    ConfigurationError,
    ConversationBusy,
    DatabaseUnavailable,
    SupportAgentError,
)
from support_agent.domain.runs import StopReason
from support_agent.ports.storage import Database, Transaction

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrying:
    """Runs the loop of what began and stores how it ended, whatever happens meanwhile."""

    database: Database
    loop: AgentLoop
    ending: Ending
    under_way: UnderWay = field(default_factory=UnderWay)

    async def carry(
        self, state: RunState, *, tell: bool, stays: bool = False, lets_go: bool = False
    ) -> TurnResult:
        """Run the loop and store the end; broken off, it is left as whoever comes next needs it.

        `stays`: its process goes on working, and so does the run, at once or elsewhere. `lets_go`:
        cancelled, the run goes on elsewhere, as others wait for it too.
        """
        try:
            with structlog.contextvars.bound_contextvars(run_id=state.run.id):
                async with self.under_way.carried(state.run):
                    return await self._driven(state, tell=tell)
        except asyncio.CancelledError:
            await self.torn_down(state, tell=tell, lets_go=stays or lets_go)
            raise
        except DatabaseUnavailable:
            if not stays:
                await self._let_go(state)
            raise
        except ConversationBusy:
            # What was counted ahead is not used, whoever has the conversation now.
            await self._quietly(lambda tx: self.loop.end(tx, state), state)
            raise
        except BaseException as error:
            await self._failed(state, error, tell=tell)
            raise

    async def _driven(self, state: RunState, *, tell: bool) -> TurnResult:
        end = LoopEnd(reason=StopReason.HANDED_OFF) if state.silent else await self.loop.run(state)
        with state.counted_unless_it_fails():
            return await self.database.transact(
                lambda tx: self.ending.finish(tx, state, end, tell=tell)
            )

    async def torn_down(self, state: RunState, *, tell: bool, lets_go: bool) -> None:
        """Cancelled: by who waits for the answer, or because the process stops."""
        if lets_go:
            await self._let_go(state)
        else:
            await self._break_off(state, StopReason.CANCELLED, say=False, tell=tell)

    async def _let_go(self, state: RunState) -> None:
        await self._quietly(lambda tx: self.ending.let_go(tx, state), state)

    async def _failed(self, state: RunState, error: BaseException, *, tell: bool) -> None:
        """Something that will not mend itself: the customer is told, the run can be resumed."""
        reason = StopReason.CANCELLED
        if isinstance(error, ConfigurationError):  # the model could not be asked at all
            reason = StopReason.MODEL_UNAVAILABLE
        if isinstance(error, SupportAgentError):
            log.warning("run.broken_off", run_id=state.run.id, problem=str(error))
        else:
            log.error("run.failed", run_id=state.run.id, exc_info=error)
        await self._break_off(state, reason, say=True, tell=tell)

    async def _break_off(
        self, state: RunState, reason: StopReason, *, say: bool, tell: bool
    ) -> None:
        await self._quietly(
            lambda tx: self.ending.break_off(tx, state, reason, say=say, tell=tell), state
        )

    async def _quietly(self, work: Callable[[Transaction], object], state: RunState) -> None:
        """While an error is on its way out already."""
        try:
            await self.database.transact(work)
        except SupportAgentError as problem:
            # It ended, another owner has it, or the database is away: the lease ends it then.
            log.warning("run.not_closed", run_id=state.run.id, problem=str(problem))

"""The loop: think, act, observe, until there is an answer or a reason to stop."""

import asyncio
from dataclasses import dataclass, field
from typing import assert_never

import structlog

from support_agent.agent.budget import Budget
from support_agent.agent.prompt import SYSTEM
from support_agent.agent.tool_runner import ToolRunner
from support_agent.domain.conversation import Conversation
from support_agent.domain.errors import ModelReplyInvalid, ModelUnavailable
from support_agent.domain.people import Asker
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    Decision,
    FinalAnswer,
    Observation,
    Run,
    StopReason,
    ToolCall,
    Usage,
)
from support_agent.ports.clock import Clock
from support_agent.ports.model import (
    AssistantCalls,
    ChatModel,
    Correction,
    ModelReply,
    ModelRequest,
    ToolResult,
    Turn,
)
from support_agent.ports.storage import Database
from support_agent.ports.tool import CallContext

log = structlog.get_logger(__name__)
TOO_MANY_CALLS = "TOO_MANY_CALLS"
MOST_CALLS = 64  # of one reply; each would be stored, answered and shown in every later request


@dataclass(slots=True, kw_only=True)
class RunState:
    """Everything a run has in memory; each part of it is committed before what follows it."""

    run: Run
    conversation: Conversation
    asker: Asker
    turns: list[Turn]
    budget: Budget
    step: int = 0  # committed decisions
    call_index: int = 0  # model calls of the conversation before the next one
    handed_off: bool = False
    quote_ids: list[str] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnd:
    """Why the loop ended, with the model's words if it had any."""

    reason: StopReason
    text: str | None = None


class AgentLoop:
    """Drives one run. It knows the model and the tools by their ports, and nothing of refunds."""

    def __init__(
        self, *, model: ChatModel, tools: ToolRunner, database: Database, clock: Clock
    ) -> None:
        self._model = model
        self._tools = tools
        self._database = database
        self._clock = clock

    async def run(self, state: RunState) -> LoopEnd:
        """Go on until the run ends. A stopped run can be continued from what is stored."""
        while True:
            stop = state.budget.spent()
            if stop is not None:
                return LoopEnd(reason=stop)
            try:
                reply = await self._think(state)
            except ModelReplyInvalid as error:
                stop = self._correct(state, error)
                if stop is not None:
                    return LoopEnd(reason=stop)
                continue
            except ModelUnavailable as error:
                log.warning("model.unavailable", problem=str(error))
                late = state.budget.is_late
                return LoopEnd(reason=StopReason.DEADLINE if late else StopReason.MODEL_UNAVAILABLE)
            await self._commit(state, reply)
            end = await self._follow(state, reply.decision)
            if end is not None:
                return end

    async def _think(self, state: RunState) -> ModelReply:
        timeout = state.budget.model_timeout()
        request = ModelRequest(
            conversation_id=state.conversation.id,
            run_id=state.run.id,
            step=state.step + 1,
            call_index=state.call_index,
            system=SYSTEM,
            tools=self._tools.specs,
            turns=tuple(state.turns),
            timeout_s=timeout,
            language=state.conversation.language,
        )
        state.budget.steps += 1
        state.call_index += 1
        usage = Usage(requests=1)  # of an attempt that brought nothing, also when it is cancelled
        try:
            async with asyncio.timeout(timeout):
                reply = await self._model.decide(request)
            usage = reply.usage
        except TimeoutError as error:
            raise ModelUnavailable(f"no answer within {timeout:.1f} s") from error
        except ModelReplyInvalid as error:
            usage = error.usage
            raise
        finally:
            state.budget.usage += usage
        decision = reply.decision
        if isinstance(decision, CallTools) and len(decision.calls) > MOST_CALLS:
            raise ModelReplyInvalid(f"{len(decision.calls)} calls in one reply; ask for a few")
        return reply

    def _correct(self, state: RunState, error: ModelReplyInvalid) -> StopReason | None:
        """Tell the model that its reply was not usable."""
        log.warning("model.reply_invalid", problem=str(error))
        state.turns.append(Correction(text=f"ERROR {error.code}: {error}"))
        return state.budget.note_result(ok=False)

    async def _commit(self, state: RunState, reply: ModelReply) -> None:
        """The decision with its call ids is stored before any of its tools runs."""
        state.step += 1
        number, now = state.step, self._clock.now()
        await self._database.transact(
            lambda tx: tx.runs.add_step(
                run_id=state.run.id,
                number=number,
                decision=reply.decision,
                usage=reply.usage,
                at=now,
            ),
            durable=False,
        )

    async def _follow(self, state: RunState, decision: Decision) -> LoopEnd | None:
        match decision:
            case FinalAnswer(text=text):
                return LoopEnd(reason=StopReason.ANSWERED, text=text)
            case AskCustomer(question=question):
                return LoopEnd(reason=StopReason.ASKED_CUSTOMER, text=question)
            case CallTools():
                stop = await self._act(state, decision)
                return None if stop is None else LoopEnd(reason=stop)
            case _:
                assert_never(decision)

    async def _act(self, state: RunState, decision: CallTools) -> StopReason | None:
        """Run the calls in order; each is answered exactly once, also those after a stop."""
        state.turns.append(AssistantCalls(calls=decision.calls, thought=decision.thought))
        stop: StopReason | None = None
        for index, call in enumerate(decision.calls):
            repeated = state.budget.note_call(call)
            stop = stop or repeated or (StopReason.DEADLINE if state.budget.is_late else None)
            observation = await self._answer(state, call, index, stop)
            state.turns.append(ToolResult(call=call, content=observation.content))
            if stop is None:
                stop = self._after(state, observation)
        return stop

    async def _answer(
        self, state: RunState, call: ToolCall, index: int, stop: StopReason | None
    ) -> Observation:
        if stop is not None:
            why = f"the run stopped: {stop}"
            return await self._tools.skip(call, "NOT_EXECUTED", why, epoch=state.run.epoch)
        most = state.budget.limits.max_calls_per_step
        if index >= most:
            return await self._tools.skip(
                call,
                TOO_MANY_CALLS,
                f"at most {most} calls at once; ask again for this one",
                epoch=state.run.epoch,
            )
        context = CallContext(
            asker=state.asker,
            call_id=call.id,
            epoch=state.run.epoch,
            language=state.conversation.language,
        )
        ran = await self._tools.run(
            call,
            context,
            assurance=state.conversation.assurance,
            timeout_s=state.budget.tool_timeout(),
        )
        state.quote_ids += ran.observation.quote_ids
        state.request_ids += ran.observation.request_ids
        if ran.hands_off:
            state.handed_off = True
        return ran.observation

    def _after(self, state: RunState, observation: Observation) -> StopReason | None:
        if state.handed_off:
            return StopReason.HANDED_OFF
        if observation.error_code == TOO_MANY_CALLS:
            return None  # one reply with many calls is not many errors in a row
        return state.budget.note_result(ok=observation.ok)

"""The loop: think, act, observe, until there is an answer or a reason to stop."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

import structlog

from support_agent.agent.budget import NOT_EXECUTED, TOO_MANY_CALLS
from support_agent.agent.metering import Metering
from support_agent.agent.spending import Spending
from support_agent.agent.state import LoopEnd, RunState
from support_agent.agent.tool_runner import ToolRunner
from support_agent.agent.views import View, Views
from support_agent.domain.errors import (
    ContextTooLong,
    ConversationBusy,
    ModelReplyInvalid,
    ModelUnavailable,
)
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    Decision,
    FinalAnswer,
    Observation,
    StopReason,
    ToolCall,
)
from support_agent.ports.clock import Clock
from support_agent.ports.model import (
    AssistantCalls,
    ChatModel,
    Correction,
    ModelReply,
    ModelRequest,
    ToolResult,
)
from support_agent.ports.storage import Database, Transaction
from support_agent.ports.tool import CallContext

log = structlog.get_logger(__name__)
MOST_CALLS = 64  # of one reply; each would be stored, answered and shown in every later request


class AgentLoop:
    """Drives one run. It knows the model and the tools by their ports, and nothing of refunds."""

    def __init__(
        self,
        *,
        model: ChatModel,
        tools: ToolRunner,
        views: Views,
        metering: Metering,
        database: Database,
        clock: Clock,
        system: str,
    ) -> None:
        self._model = model
        self._tools = tools
        self._views = views
        self._metering = metering
        self._database = database
        self._clock = clock
        self._system = system
        metering.check(views.whole(()).tokens)

    def begin(self, tx: Transaction, state: RunState) -> None:
        """In the transaction that starts or reopens a run: hold its first model call."""
        self._metering.begin(tx, state, self._views.size(state))

    def end(self, tx: Transaction, state: RunState) -> None:
        """In the transaction that ends a run: count what it used."""
        self._views.keep(tx, state)
        self._metering.end(tx, state)

    async def run(self, state: RunState) -> LoopEnd:
        """Go on until the run ends. One that broke off is continued from what is stored."""
        end = await self._finish_step(state)
        if end is not None:
            return end
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
            if isinstance(reply, LoopEnd):
                return reply
            await self._commit(state, reply)
            end = await self._follow(state, reply.decision)
            if end is not None:
                return end

    async def _think(self, state: RunState) -> ModelReply | LoopEnd:
        """Ask the model; once more with a shorter view when it cannot read that much."""
        view = await self._views.of(state)
        try:
            return await self._ask(state, view)
        except ContextTooLong as error:
            log.warning("model.context_too_long", problem=str(error), tokens=view.tokens)
            shorter = await self._views.of(state, squeeze=True)
            if shorter.tokens >= view.tokens:
                raise
            return await self._ask(state, shorter)

    async def _ask(self, state: RunState, view: View) -> ModelReply | LoopEnd:
        spending = Spending(state=state, metering=self._metering, view_tokens=view.tokens)
        end = await spending.room()
        if end is not None:
            return end
        request = ModelRequest(
            conversation_id=state.conversation.id,
            run_id=state.run.id,
            step=state.step + 1,
            call_index=state.call_index,
            system=self._system,
            tools=self._tools.specs,
            turns=view.turns,
            timeout_s=state.budget.model_timeout(),
            max_output_tokens=spending.output_tokens,
            language=state.conversation.language,
            again=spending.again,
        )
        state.budget.steps += 1
        state.call_index += 1
        try:
            reply = await self._decide(request, spending)
        except ModelUnavailable:
            if spending.end is not None:
                return spending.end
            raise
        self._views.heard(state, reply.usage)
        decision = reply.decision
        if isinstance(decision, CallTools) and len(decision.calls) > MOST_CALLS:
            raise ModelReplyInvalid(f"{len(decision.calls)} calls in one reply; ask for a few")
        return reply

    async def _decide(self, request: ModelRequest, spending: Spending) -> ModelReply:
        """Ask, and count what it cost however it ends."""
        try:
            async with asyncio.timeout(request.timeout_s):
                reply = await self._model.decide(request)
        except (ModelReplyInvalid, ModelUnavailable) as error:
            spending.count(error.usage)
            raise
        except TimeoutError as error:
            spending.count_lost()
            raise ModelUnavailable(f"no answer within {request.timeout_s:.1f} s") from error
        except asyncio.CancelledError:
            spending.count_lost()
            raise
        except Exception:
            spending.count_refused()
            raise
        spending.count(reply.usage)
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
        calls = len(reply.decision.calls) if isinstance(reply.decision, CallTools) else 0
        size = self._views.size(state) + reply.usage.output_tokens

        def commit(tx: Transaction) -> None:
            added = tx.runs.add_step(
                run_id=state.run.id,
                number=number,
                decision=reply.decision,
                usage=reply.usage,
                at=now,
                epoch=state.run.epoch,
            )
            if not added:
                raise ConversationBusy(state.conversation.id)
            self._views.keep(tx, state)
            self._metering.step(tx, state, size, calls=calls)

        with state.counted_unless_it_fails():
            await self._database.transact(commit, durable=False)

    async def _finish_step(self, state: RunState) -> LoopEnd | None:
        """The decision a run that goes on was left with: it is paid for, and done in part."""
        step, state.left_open = state.left_open, None
        if step is None or not isinstance(step.decision, CallTools):
            return None if step is None else await self._follow(state, step.decision)
        answered = [call for call in step.calls if call.observation is not None]
        for recorded in answered:
            await self._tools.follow_up_again(
                recorded,
                self._context(state, recorded.call),
                timeout_s=state.budget.tool_timeout(),
            )
        stop = StopReason.HANDED_OFF if state.handed_off else None
        if len(answered) < len(step.calls):
            stop = stop or state.budget.standing()
            stop = await self._run_calls(state, step.decision.calls, first=len(answered), stop=stop)
        return None if stop is None else LoopEnd(reason=stop)

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
        state.turns.append(
            AssistantCalls(
                calls=decision.calls,
                thought=decision.thought,
                provider_state=decision.provider_state,
            )
        )
        return await self._run_calls(state, decision.calls, first=0, stop=None)

    async def _run_calls(
        self,
        state: RunState,
        calls: Sequence[ToolCall],
        *,
        first: int,
        stop: StopReason | None,
    ) -> StopReason | None:
        """From the first that is not answered; after a stop they are answered and not run."""
        for index, call in enumerate(calls[first:], start=first):
            repeated = state.budget.note_call(call)
            stop = stop or repeated or state.budget.no_more_calls()
            observation = await self._answer(state, call, index, stop)
            state.turns.append(ToolResult(call=call, content=observation.content))
            if stop is None:
                stop = self._after(state, observation)
        return stop

    async def _answer(
        self, state: RunState, call: ToolCall, index: int, stop: StopReason | None
    ) -> Observation:
        context = self._context(state, call)
        if stop is not None:
            why = f"the run stopped: {stop}"
            return await self._tools.skip(call, NOT_EXECUTED, why, context)
        most = state.budget.limits.max_calls_per_step
        if index >= most:
            why = f"at most {most} calls at once; ask again for this one"
            return await self._tools.skip(call, TOO_MANY_CALLS, why, context)
        state.budget.tool_calls += 1
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

    def _context(self, state: RunState, call: ToolCall) -> CallContext:
        return CallContext(
            asker=state.asker,
            call_id=call.id,
            epoch=state.run.epoch,
            language=state.conversation.language,
        )

    def _after(self, state: RunState, observation: Observation) -> StopReason | None:
        if state.handed_off:
            return StopReason.HANDED_OFF
        if observation.error_code == TOO_MANY_CALLS:
            return None  # one reply with many calls is not many errors in a row
        return state.budget.note_result(ok=observation.ok)

"""Take a customer's message: the one use case that every entry point calls."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from support_agent.agent.answers import Answers
from support_agent.agent.budget import WITHOUT_RUNNING, Budget, RunLimits, what_is_asked
from support_agent.agent.history import History, history_of, read_history
from support_agent.agent.loop import AgentLoop
from support_agent.agent.shown import shown_of
from support_agent.agent.state import LoopEnd, RunState
from support_agent.domain.conversation import Author, Conversation, Message
from support_agent.domain.errors import (
    ConfigurationError,
    Conflict,
    ConversationBusy,
    RunNotFound,
    SupportAgentError,
)
from support_agent.domain.language import detect
from support_agent.domain.people import Asker, customer_principal
from support_agent.domain.refunds import Quote, RefundRequest
from support_agent.domain.runs import (
    CallTools,
    Run,
    RunStatus,
    RunStep,
    StopReason,
    Usage,
    status_of,
)
from support_agent.domain.text import clean_message, redact_cards
from support_agent.domain.wording import (
    stop_sentence,
)
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Database, RunEnd, Transaction
from support_agent.services.conversations import Binding, ConversationDesk
from support_agent.services.terms import RefundTerms

log = structlog.get_logger(__name__)
LEASE_GRACE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A customer's message as a channel hands it over; the binding is the channel's word."""

    text: str
    binding: Binding
    conversation_id: str | None = None
    operator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What a message came to. `answer` holds the model's words and the sentences code added."""

    conversation_id: str
    run_id: str
    status: RunStatus
    stop_reason: StopReason
    answer: str
    steps: tuple[RunStep, ...]
    quotes: tuple[Quote, ...]
    requests: tuple[RefundRequest, ...]
    usage: Usage


class Agent:
    """One turn: commit the message, run the loop, commit the answer with what it shows."""

    def __init__(
        self,
        *,
        database: Database,
        desk: ConversationDesk,
        loop: AgentLoop,
        limits: RunLimits,
        terms: RefundTerms,
        clock: Clock,
        ids: Ids,
        answers: Answers,
        max_chars: int,
    ) -> None:
        self._database = database
        self._desk = desk
        self._loop = loop
        self._limits = limits
        self._terms = terms
        self._clock = clock
        self._ids = ids
        self._max_chars = max_chars
        self._answers = answers

    async def take(self, incoming: Incoming) -> TurnResult:
        """Answer a message.

        Raises:
            InvalidInput: empty, too long or not text.
            CustomerNotFound, ConversationNotFound: not this customer's.
            ConversationBusy: another turn of the conversation is running.
        """
        text = redact_cards(clean_message(incoming.text, max_chars=self._max_chars))
        conversation, is_new = await self._desk.find(
            incoming.binding, conversation_id=incoming.conversation_id, first_text=text
        )

        def start(tx: Transaction) -> RunState:
            if is_new:
                tx.conversations.add(conversation)
            return self._start(tx, conversation, text, incoming)

        return await self._turn(start)

    async def resume(self, run_id: str, *, operator: str, via: str) -> TurnResult:
        """Continue a stopped run; its counters go on, its deadline is new.

        Raises:
            RunNotFound: unknown.
            Conflict: it is not stopped, so there is nothing to resume.
        """
        return await self._turn(lambda tx: self._reopen(tx, run_id, operator, via))

    async def _turn(self, start: Callable[[Transaction], RunState]) -> TurnResult:
        """Begin, run, finish; torn down anywhere in it, the stop is stored and can be resumed."""
        begun: list[RunState] = []  # a cancellation is raised after the commit, in place of it
        try:
            await self._database.transact(lambda tx: begun.append(start(tx)))
            return await self._go(begun[0])
        except BaseException as error:
            if begun:
                await self._close(begun[0], error)
            raise

    async def _go(self, state: RunState) -> TurnResult:
        with structlog.contextvars.bound_contextvars(run_id=state.run.id):
            end = (
                LoopEnd(reason=StopReason.HANDED_OFF)
                if state.handed_off
                else await self._loop.run(state)
            )
            with state.counted_unless_it_fails():
                return await self._database.transact(lambda tx: self._finish(tx, state, end))

    async def _close(self, state: RunState, error: BaseException) -> None:
        """Give the conversation back and leave the run stopped, unless either is done already."""
        reason, answer = StopReason.CANCELLED, None
        if isinstance(error, ConfigurationError):  # the model could not be asked at all
            reason = StopReason.MODEL_UNAVAILABLE
        if isinstance(error, SupportAgentError):
            log.warning("run.broken_off", run_id=state.run.id, problem=str(error))
        elif not isinstance(error, asyncio.CancelledError):
            log.error("run.failed", run_id=state.run.id, exc_info=error)
        if not isinstance(error, asyncio.CancelledError):
            answer = stop_sentence(reason, state.conversation.language)
        try:
            await self._database.transact(lambda tx: self._end(tx, state, reason, answer))
        except SupportAgentError as problem:
            # It ended, another owner has it, or the database is away: the lease ends it then.
            log.warning("run.not_closed", run_id=state.run.id, problem=str(problem))

    def _start(
        self, tx: Transaction, conversation: Conversation, text: str, incoming: Incoming
    ) -> RunState:
        epoch = self._claim(tx, conversation.id)
        run_id = self._ids.new("run")
        now = self._clock.now()
        seq = tx.conversations.append(
            conversation.id, author=Author.CUSTOMER, text=text, at=now, run_id=run_id
        )
        language = detect(text, conversation.language)
        if language != conversation.language:
            tx.conversations.set_language(conversation.id, language)
        run = Run(
            id=run_id,
            conversation_id=conversation.id,
            trigger_seq=seq,
            status=RunStatus.RUNNING,
            stop_reason=None,
            operator=incoming.operator,
            started_at=now,
            # A channel that is less sure of who is writing now than it was then is believed.
            assurance=min(conversation.assurance, incoming.binding.assurance),
            epoch=epoch,
        )
        if not tx.runs.start(run):
            raise ConversationBusy(conversation.id)
        asker = Asker(
            customer_id=incoming.binding.customer_id,
            principal=incoming.binding.principal,
            operator=incoming.operator,
            conversation_id=conversation.id,
            run_id=run_id,
        )
        message = Message(
            conversation_id=conversation.id,
            seq=seq,
            author=Author.CUSTOMER,
            text=text,
            at=now,
            run_id=run_id,
        )
        return self._begun(tx, run, asker, message)

    def _begun(
        self, tx: Transaction, run: Run, asker: Asker, message: Message | None = None
    ) -> RunState:
        state = self._state(tx, run, asker, message)
        if not state.handed_off:
            self._loop.begin(tx, state)
        return state

    def _claim(self, tx: Transaction, conversation_id: str) -> int:
        epoch = tx.conversations.claim(
            conversation_id, lease_s=self._limits.run_seconds + LEASE_GRACE_S
        )
        if epoch is None:
            raise ConversationBusy(conversation_id)
        orphan = tx.runs.close_orphan(conversation_id, at=self._clock.now())
        if orphan is not None:
            log.warning("run.orphan_closed", orphan=orphan, conversation_id=conversation_id)
        return epoch

    def _state(self, tx: Transaction, run: Run, asker: Asker, message: Message | None) -> RunState:
        conversation = tx.conversations.get(run.conversation_id)
        if conversation is None:
            raise RunNotFound(run.id)
        history, calls_so_far = self._history(tx, run, conversation, message)
        own = [step for step in history.steps if step.run_id == run.id]
        seen = [call.observation for step in own for call in step.calls if call.observation]
        return RunState(
            run=run,
            conversation=replace(conversation, assurance=run.assurance),
            asker=asker,
            turns=[*history.turns],
            shown=shown_of(history),
            budget=self._budget(run, own),
            step=len(own),
            call_index=calls_so_far,
            handed_off=conversation.handed_off,
            quote_ids=[quote_id for one in seen for quote_id in one.quote_ids],
            request_ids=[request_id for one in seen for request_id in one.request_ids],
        )

    def _history(
        self, tx: Transaction, run: Run, conversation: Conversation, new: Message | None
    ) -> tuple[History, int]:
        """What the model may be shown, and how often it was asked before."""
        zone = self._terms.zone
        if new is not None and (new.seq == 1 or conversation.handed_off):
            # Nothing was said before, or a person has the conversation and no model is asked.
            return history_of([new], (), zone), 0
        # What a resumed run was answered with stands behind its steps, now and later.
        history = read_history(tx, conversation.id, through_seq=run.trigger_seq, zone=zone)
        cut = history.cut
        after = cut.through_seq if cut else 0
        calls = tx.runs.model_calls(conversation.id, after_seq=after)
        return history, calls + (cut.model_calls if cut else 0)

    def _budget(self, run: Run, own: list[RunStep]) -> Budget:
        calls = Counter(
            what_is_asked(call)
            for step in own
            if isinstance(step.decision, CallTools)
            for call in step.decision.calls
        )
        answered = [call.observation for step in own for call in step.calls if call.observation]
        return Budget(
            limits=self._limits,
            usage=run.usage,
            steps=run.steps,
            consecutive_errors=run.consecutive_errors,
            tool_calls=sum(one.error_code not in WITHOUT_RUNNING for one in answered),
            calls=calls,
        )

    def _reopen(self, tx: Transaction, run_id: str, operator: str, via: str) -> RunState:
        run = tx.runs.get(run_id)
        conversation = tx.conversations.get(run.conversation_id) if run else None
        if run is None or conversation is None or conversation.customer_id is None:
            raise RunNotFound(run_id)
        if run.status is not RunStatus.STOPPED:
            raise Conflict(f"run {run_id!r} is {run.status}, not stopped: nothing to resume")
        later = tx.conversations.messages(run.conversation_id, after_seq=run.trigger_seq)
        if any(message.author is Author.CUSTOMER for message in later):
            raise Conflict(f"run {run_id!r} was overtaken: the customer has written since")
        epoch = self._claim(tx, run.conversation_id)
        if not tx.runs.reopen(run_id, epoch=epoch):
            raise ConversationBusy(run.conversation_id)
        asker = Asker(
            customer_id=conversation.customer_id,
            principal=customer_principal(conversation.customer_id, via=via),
            operator=operator,
            conversation_id=conversation.id,
            run_id=run.id,
        )
        return self._begun(tx, replace(run, epoch=epoch), asker)

    def _finish(self, tx: Transaction, state: RunState, end: LoopEnd) -> TurnResult:
        answer = self._answers.compose(tx, state, end)
        seq = self._end(tx, state, answer.reason, answer.text)
        return TurnResult(
            conversation_id=state.conversation.id,
            run_id=state.run.id,
            status=status_of(answer.reason),
            stop_reason=answer.reason,
            answer=answer.text,
            steps=tx.runs.steps(state.run.id),
            quotes=self._answers.shown(tx, state, answer.quotes, seq),
            requests=answer.requests,
            usage=state.budget.usage,
        )

    def _end(self, tx: Transaction, state: RunState, reason: StopReason, answer: str | None) -> int:
        """Store how the run ended and give the conversation back; the answer's seq, 0 without."""
        now, run = self._clock.now(), state.run
        seq = 0
        if answer is not None:
            seq = tx.conversations.append(
                run.conversation_id, author=Author.AGENT, text=answer, at=now, run_id=run.id
            )
        # The conversation's row before the run's, as who takes the conversation over has it.
        released = tx.conversations.release(run.conversation_id, epoch=run.epoch)
        ended = released and tx.runs.end(
            RunEnd(
                run_id=run.id,
                status=status_of(reason),
                stop_reason=reason,
                usage=state.budget.usage,
                steps=state.budget.steps,
                consecutive_errors=state.budget.consecutive_errors,
                answer_seq=seq or None,
                at=now,
            )
        )
        if not ended:
            raise ConversationBusy(run.conversation_id)
        # Last, so that the counters all conversations share are locked for as short as can be.
        self._loop.end(tx, state)
        return seq

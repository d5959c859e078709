"""Reads a recorded run again: what would its calls, and what code adds to its answer, be today?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from enum import StrEnum

from support_agent.agent.answers import Answers
from support_agent.agent.budget import WITHOUT_RUNNING, Budget, RunLimits
from support_agent.agent.differences import Allowance, Difference, Names, differences, renamed
from support_agent.agent.history import turns_of
from support_agent.agent.state import LoopEnd, RunState
from support_agent.agent.tool_runner import Rehearsed, ToolRunner
from support_agent.domain.conversation import Author, Conversation, Message
from support_agent.domain.errors import (
    Conflict,
    InvalidArguments,
    RunNotFound,
    SupportAgentError,
    UnknownTool,
)
from support_agent.domain.language import detect
from support_agent.domain.people import Asker, customer_principal
from support_agent.domain.preferences import spoken
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import Quote
from support_agent.domain.runs import (
    AskCustomer,
    FinalAnswer,
    Observation,
    RecordedCall,
    Run,
    RunStatus,
    RunStep,
    StopReason,
    ToolCall,
)
from support_agent.domain.wording import valid_until
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Rehearsal, Transaction
from support_agent.ports.tool import CallContext, ToolOutput

NOT_ACCEPTED = frozenset({UnknownTool.code, InvalidArguments.code})
# How a run ended that said no words of the model's, where the words only depend on that.
SAID_BY_CODE = frozenset(
    {
        StopReason.HANDED_OFF,
        StopReason.MAX_STEPS,
        StopReason.DEADLINE,
        StopReason.REPEATED_ERRORS,
        StopReason.NO_PROGRESS,
        StopReason.MODEL_UNAVAILABLE,
    }
)
Apply = Callable[[Transaction], ToolOutput]


class Verdict(StrEnum):
    """What a recorded call came to when it was tried again."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_RUN = "not_run"  # code answered it without running it, and would again
    UNANSWERED = "unanswered"  # the run was interrupted in it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A recorded call beside what it would come to today; None where it was not tried."""

    step: int
    call: ToolCall
    recorded: Observation | None
    now: Observation | None
    verdict: Verdict
    differences: tuple[Difference, ...] = ()

    @property
    def is_accepted(self) -> bool | None:
        """Whether the tool is still there and takes these arguments."""
        return None if self.now is None else self.now.error_code not in NOT_ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedAnswer:
    """The answer as the customer got it, and as code would put it together today."""

    recorded: str
    now: str

    @property
    def differs(self) -> bool:
        return self.recorded != self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A run read again at `at`; `answer` is None where nothing can be compared."""

    run: Run
    steps: tuple[RunStep, ...]
    calls: tuple[ReplayedCall, ...]
    answer: ReplayedAnswer | None
    at: datetime

    @property
    def differs(self) -> bool:
        by_call = any(call.verdict is Verdict.DIFFERS for call in self.calls)
        return by_call or (self.answer is not None and self.answer.differs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What is stored of a run and of what was said before it."""

    run: Run
    conversation: Conversation
    messages: tuple[Message, ...]
    steps: tuple[RunStep, ...]  # its own
    earlier: tuple[RunStep, ...]
    answer: str | None

    @property
    def asker(self) -> Asker:
        customer = self.conversation.customer_id or ""
        return Asker(
            customer_id=customer,
            principal=customer_principal(customer, via="replay"),
            operator=self.run.operator,
            conversation_id=self.conversation.id,
            run_id=self.run.id,
        )

    @property
    def runs_before(self) -> frozenset[str | None]:
        return frozenset(message.run_id for message in self.messages) - {self.run.id}

    @property
    def end(self) -> LoopEnd | None:
        """How the loop ended, where that says all of what the answer was made from."""
        reason = self.run.stop_reason
        match self.steps[-1].decision if self.steps else None:
            case FinalAnswer(text=said) | AskCustomer(question=said) if reason in {
                StopReason.ANSWERED,
                StopReason.ASKED_CUSTOMER,
            }:
                return LoopEnd(reason=reason, text=said)
        if self.run.status is RunStatus.DEAD:  # its last owner never came to an end of the loop
            return None
        return LoopEnd(reason=reason) if reason in SAID_BY_CODE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A call that was tried again, with what is needed to do its part a second time."""

    replayed: ReplayedCall
    apply: Apply | None = None


class Replay:
    """Tries a run's recorded calls again, on a database that keeps nothing; no model is asked.

    What the run itself did is in the database already: a refund that it filed is found filed. Each
    call is tried by itself, and what would follow its commit never comes.
    """

    def __init__(
        self,
        *,
        database: Rehearsal,
        tools: ToolRunner,
        answers: Answers,
        limits: RunLimits,
        clock: Clock,
        zone: tzinfo,
    ) -> None:
        self._database = database
        self._tools = tools
        self._answers = answers
        self._limits = limits
        self._clock = clock
        self._zone = zone

    async def of(self, run_id: str) -> Replayed:
        """The run beside what it would be today.

        Raises:
            RunNotFound: unknown.
            Conflict: its texts were erased.
            NewerState: recorded by a newer program.
        """
        record = await self._database.read(lambda tx: _recorded(tx, run_id))
        tried = [
            await self._try(record, step, call) for step in record.steps for call in step.calls
        ]
        end, said = record.end, record.answer
        answer = None
        if end is not None and said is not None:
            now = await self._database.transact(lambda tx: self._compose(tx, record, end, tried))
            answer = ReplayedAnswer(recorded=said, now=now)
        return Replayed(
            run=record.run,
            steps=record.steps,
            calls=tuple(one.replayed for one in tried),
            answer=answer,
            at=self._clock.now(),
        )

    async def _try(self, record: _Record, step: RunStep, recorded: RecordedCall) -> _Tried:
        call, was = recorded.call, recorded.observation
        if was is None or was.error_code in WITHOUT_RUNNING:
            verdict = Verdict.UNANSWERED if was is None else Verdict.NOT_RUN
            replayed = ReplayedCall(
                step=step.number, call=call, recorded=was, now=None, verdict=verdict
            )
            return _Tried(replayed=replayed)
        rehearsed = await self._rehearsed(record, call)
        makes = rehearsed.apply is not None
        ids = _made(was, rehearsed.observation) if makes else {}
        found = differences(was, rehearsed.observation, Allowance(ids=ids, moments=makes))
        replayed = ReplayedCall(
            step=step.number,
            call=call,
            recorded=was,
            now=rehearsed.observation,
            verdict=Verdict.DIFFERS if found else Verdict.SAME,
            differences=found,
        )
        return _Tried(replayed=replayed, apply=rehearsed.apply)

    async def _rehearsed(self, record: _Record, call: ToolCall) -> Rehearsed:
        context = CallContext(
            asker=record.asker,
            call_id=call.id,
            epoch=record.run.epoch,
            language=record.conversation.language,
        )
        return await self._tools.rehearse(
            call,
            context,
            assurance=record.run.assurance,
            timeout_s=self._limits.tool_seconds,
            rehearsal=self._database,
        )

    def _compose(
        self, tx: Transaction, record: _Record, end: LoopEnd, tried: Sequence[_Tried]
    ) -> str:
        """The answer as it would be today, in a transaction where the calls are done again."""
        opened = tx.quotes.open_in(record.conversation.id)
        if any(quote.run_id not in record.runs_before for quote in opened):
            tx.quotes.supersede(record.conversation.id)  # of this run, or of a later one
        ids: dict[str, str] = {}
        outputs: list[Observation | ToolOutput] = []
        for one in tried:
            seen = _again(tx, one)
            ids |= _made(one.replayed.recorded, seen) if one.apply is not None else {}
            outputs.append(seen)
        state = RunState(
            run=record.run,
            conversation=replace(record.conversation, assurance=record.run.assurance),
            asker=record.asker,
            turns=turns_of(record.messages, _steps_of_today(record, tried), self._zone),
            budget=Budget(limits=self._limits),
            quote_ids=[quote_id for one in outputs for quote_id in one.quote_ids],
            request_ids=[request_id for one in outputs for request_id in one.request_ids],
        )
        answer = self._answers.compose(tx, state, end)
        return renamed(answer.text, self._names(tx, answer.quotes, ids))

    def _names(self, tx: Transaction, quotes: Sequence[Quote], ids: Names) -> Names:
        """The ids, and until when the offers of today stand: later than those did, of course."""
        names = dict(ids)
        for quote in quotes:
            was = tx.quotes.get(ids.get(quote.id, quote.id))
            if was is not None:
                names[valid_until(quote, self._zone)] = valid_until(was, self._zone)
        return names


def _recorded(tx: Transaction, run_id: str) -> _Record:
    run = tx.runs.get(run_id)
    conversation = tx.conversations.get(run.conversation_id) if run else None
    if run is None or conversation is None:
        raise RunNotFound(run_id)
    if conversation.erased:
        raise Conflict(f"the texts of run {run_id!r} were erased: there is nothing to read again")
    messages = tx.conversations.messages(conversation.id)
    steps = tx.runs.steps_of_conversation(conversation.id)
    return _Record(
        run=run,
        conversation=replace(conversation, language=_language(run, conversation, messages)),
        messages=tuple(m for m in messages if m.seq <= run.trigger_seq),
        steps=tx.runs.steps(run.id),
        earlier=tuple(step for step in steps if step.run_id != run.id),
        answer=next((m.text for m in messages if m.seq == run.answer_seq), None),
    )


def _language(run: Run, conversation: Conversation, messages: Sequence[Message]) -> Language:
    """In which the run answered: what was said later may have changed it."""
    asked_for = spoken(one for one in conversation.known if one.seq <= run.trigger_seq)
    if asked_for is not None:
        return asked_for
    language = conversation.language
    for message in messages:
        if message.seq <= run.trigger_seq and message.author is Author.CUSTOMER:
            language = detect(message.text, language)
    return language


def _made(was: Observation | None, now: Observation | ToolOutput) -> Names:
    """What a call made, by place: it makes new ids each time."""
    if was is None or len(was.quote_ids) != len(now.quote_ids):
        return {}
    if len(was.request_ids) != len(now.request_ids):
        return {}
    pairs = zip((*now.quote_ids, *now.request_ids), (*was.quote_ids, *was.request_ids), strict=True)
    return {made: recorded for made, recorded in pairs if made != recorded}


def _again(tx: Transaction, one: _Tried) -> Observation | ToolOutput:
    """What the call brings to the answer; one that does not go with those before brings nothing."""
    if one.apply is not None:
        try:
            return one.apply(tx)
        except SupportAgentError:
            return ToolOutput(content={})
    seen = one.replayed.now or one.replayed.recorded
    return seen or ToolOutput(content={})


def _steps_of_today(record: _Record, tried: Sequence[_Tried]) -> tuple[RunStep, ...]:
    """All steps up to the run's end, its own calls with what they would come to."""
    now = {one.replayed.call.id: one.replayed.now or one.replayed.recorded for one in tried}
    own = (
        replace(
            step,
            calls=tuple(replace(call, observation=now[call.call.id]) for call in step.calls),
        )
        for step in record.steps
    )
    return (*record.earlier, *own)

"""How a turn ends: answered, broken off, let go for another owner, or given up for good."""

from dataclasses import dataclass
from datetime import datetime

import structlog

from support_agent.agent.answers import Answers
from support_agent.agent.loop import AgentLoop
from support_agent.agent.results import TurnResult, request_ids_of
from support_agent.agent.state import LoopEnd, RunState
from support_agent.domain.conversation import Author, Conversation, Released
from support_agent.domain.errors import ConversationBusy
from support_agent.domain.people import Asker
from support_agent.domain.reasons import Language
from support_agent.domain.runs import Run, RunStatus, StopReason, status_of
from support_agent.ports.clock import Clock
from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import RunEnd, Task, Transaction
from support_agent.services.hand_offs import (
    called_by_the_agent,
    customer_wrote,
    for_the_agent,
    hand_off,
)
from support_agent.services.outgoing import send_later, tell_of_run
from support_agent.services.tasks import DEAD_RUN

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Ends runs. Each way stores the end and gives the conversation back in one commit."""

    loop: AgentLoop
    answers: Answers
    queue: TurnQueue
    clock: Clock

    def finish(self, tx: Transaction, state: RunState, end: LoopEnd, *, tell: bool) -> TurnResult:
        """The answer is stored with what it shows; `tell`: nobody waits for it, so it is sent.

        Raises:
            ConversationBusy: a later owner has the conversation; nothing is stored.
        """
        released = self._release(tx, state)
        # A person who took the conversation meanwhile is not to be talked over.
        silent = state.silent or (released.handed_off and not self._called(tx, state))
        answer = self.answers.silence(tx, state) if silent else self.answers.compose(tx, state, end)
        if silent and released.handed_off:
            customer_wrote(tx, state.conversation.id, at=self.clock.now())
        text = answer.text or None
        seq = self._end(tx, state, answer.reason, text, tell=tell, released=released)
        # Given back since it began: nobody has read what this turn was silent about.
        if silent and not released.handed_off and for_the_agent(tx, state.conversation.id):
            self.queue.wake(tx, state.conversation.id)
        return TurnResult(
            conversation_id=state.conversation.id,
            run_id=state.run.id,
            status=status_of(answer.reason),
            stop_reason=answer.reason,
            answer=answer.text,
            steps=tx.runs.steps(state.run.id),
            quotes=self.answers.shown(tx, state, answer.quotes, seq),
            requests=answer.requests,
            usage=state.budget.usage,
        )

    def break_off(
        self,
        tx: Transaction,
        state: RunState,
        reason: StopReason,
        *,
        say: bool,
        tell: bool,
    ) -> None:
        """Stopped where it is; it can be resumed. `say`: the customer hears of it.

        Raises:
            ConversationBusy: as `finish`.
        """
        released = self._release(tx, state)
        answer = self._regret(tx, state.run, reason, state.conversation.language) if say else None
        self._end(tx, state, reason, answer, tell=tell, released=released)

    def let_go(self, tx: Transaction, state: RunState) -> None:
        """Not ended: whoever takes the conversation next goes on with the run, at once."""
        if tx.conversations.release(state.conversation.id, epoch=state.run.epoch) is not None:
            tx.runs.give_up(state.run.id, epoch=state.run.epoch)
            self.queue.wake(tx, state.conversation.id)
            # As in `_end`: what was counted ahead is not used, and the next owner counts its own.
            self.loop.end(tx, state)

    def bury(self, tx: Transaction, run: Run, conversation: Conversation, asker: Asker) -> None:
        """A run that broke each of its owners: a person has the conversation now."""
        now = self.clock.now()
        log.error("run.dead", run_id=run.id, attempts=run.attempts - 1)
        task_id = f"task_{DEAD_RUN}_{run.id}"
        seq: int | None = None
        if hand_off(tx, asker, task_id=task_id, kind=DEAD_RUN, at=now):
            answer = self._regret(tx, run, StopReason.HANDED_OFF, conversation.language)
            seq = self._say(tx, run, answer, now, tell=True)
        else:  # a person has it, and is to know this as well
            tx.tasks.add(_task(task_id, run, now))
        released = tx.conversations.release(conversation.id, epoch=run.epoch)
        if released is not None and released.has_unread:
            self.queue.wake(tx, conversation.id)
        end = RunEnd(
            run_id=run.id,
            status=RunStatus.DEAD,
            stop_reason=StopReason.REPEATED_ERRORS,
            usage=run.usage,
            steps=run.steps,
            consecutive_errors=run.consecutive_errors,
            answer_seq=seq,
            at=now,
        )
        if tx.runs.end(end) and released is not None:
            tell_of_run(tx, run, end, released)

    def call_off(self, tx: Transaction, run: Run) -> None:
        """A run that somebody cancelled, its conversation just taken over from its owner."""
        conversation = tx.conversations.get(run.conversation_id)
        released = tx.conversations.release(run.conversation_id, epoch=run.epoch)
        if conversation is None or released is None:
            raise ConversationBusy(run.conversation_id)
        if released.has_unread:
            self.queue.wake(tx, run.conversation_id)
        reason, now, language = StopReason.CANCELLED, self.clock.now(), conversation.language
        if released.handed_off:  # a person has it, who is not to be talked over
            answer = self.answers.done(tx, request_ids_of(tx.runs.steps(run.id)), language)
            customer_wrote(tx, run.conversation_id, at=now)
        else:
            answer = self._regret(tx, run, reason, language)
        end = RunEnd(
            run_id=run.id,
            status=status_of(reason),
            stop_reason=reason,
            usage=run.usage,
            steps=run.steps,
            consecutive_errors=run.consecutive_errors,
            answer_seq=self._say(tx, run, answer, now, tell=True) if answer else None,
            at=now,
        )
        if not tx.runs.end(end):
            raise ConversationBusy(run.conversation_id)
        tell_of_run(tx, run, end, released)

    def _regret(self, tx: Transaction, run: Run, reason: StopReason, language: Language) -> str:
        """By what is stored of the run: whoever broke off need not know what it did last."""
        request_ids = request_ids_of(tx.runs.steps(run.id))
        return self.answers.regret(tx, reason, request_ids, language)

    def _called(self, tx: Transaction, state: RunState) -> bool:
        """Whether this turn called the person; one who was there first is not spoken for."""
        return state.handed_off and called_by_the_agent(tx, state.conversation.id)

    def _release(self, tx: Transaction, state: RunState) -> Released:
        """The conversation's row before the run's, as who takes the conversation over has it."""
        released = tx.conversations.release(state.conversation.id, epoch=state.run.epoch)
        if released is None:
            raise ConversationBusy(state.conversation.id)
        if released.has_unread:  # came while this turn ran
            self.queue.wake(tx, state.conversation.id)
        return released

    def _end(
        self,
        tx: Transaction,
        state: RunState,
        reason: StopReason,
        answer: str | None,
        *,
        tell: bool,
        released: Released,
    ) -> int:
        """The answer's seq, 0 without one."""
        now, run = self.clock.now(), state.run
        seq = 0 if answer is None else self._say(tx, run, answer, now, tell=tell)
        end = RunEnd(
            run_id=run.id,
            status=status_of(reason),
            stop_reason=reason,
            usage=state.budget.usage,
            steps=state.budget.steps,
            consecutive_errors=state.budget.consecutive_errors,
            answer_seq=seq or None,
            at=now,
        )
        if not tx.runs.end(end):
            raise ConversationBusy(run.conversation_id)
        tell_of_run(tx, run, end, released)
        # Last, so that the counters all conversations share are locked for as short as can be.
        self.loop.end(tx, state)
        return seq

    def _say(self, tx: Transaction, run: Run, answer: str, at: datetime, *, tell: bool) -> int:
        seq = tx.conversations.append(
            run.conversation_id, author=Author.AGENT, text=answer, at=at, run_id=run.id
        )
        if tell:
            send_later(tx, run.conversation_id, seq, at=at)
        return seq


def _task(task_id: str, run: Run, at: datetime) -> Task:
    return Task(
        id=task_id,
        kind=DEAD_RUN,
        subject=run.conversation_id,
        conversation_id=run.conversation_id,
        created_at=at,
    )

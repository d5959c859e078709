"""Conversations, messages, runs and steps as they are stored."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.conversation import (
    Assurance,
    Author,
    Claim,
    Conversation,
    Message,
    Released,
    Unread,
    Waiting,
)
from support_agent.domain.preferences import Known
from support_agent.domain.reasons import Language
from support_agent.domain.runs import (
    Decision,
    Observation,
    Run,
    RunStatus,
    RunStep,
    StopReason,
    ToolCall,
    Usage,
)

Question = tuple[str, datetime]  # in which conversation, and when it was asked
Mark = tuple[object, ...]  # is another one as soon as there is something new to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who writes, and where: what a conversation is bound to."""

    channel: str
    account: str
    external_contact: str
    customer_id: str  # a contact may be another customer's by now
    conversation_id: str | None  # None: whichever of theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A customer's message as its channel handed it over."""

    conversation_id: str
    text: str
    at: datetime
    message_id: str | None  # the channel's own
    operator: str | None
    assurance: Assurance
    run_id: str | None


class Conversations(Protocol):
    """Append-only messages under a binding that never changes."""

    def add(self, conversation: Conversation) -> None:
        """A new one, with what is remembered of its customer if this is surely they.

        The language that they asked for once is its language.
        """
        ...

    def get(self, conversation_id: str) -> Conversation | None: ...

    def list(
        self,
        *,
        customer_id: str | None,
        limit: int,
        before: str | None,
        handed_off: bool = False,
        sender: Sender | None = None,
        at_most: Assurance = Assurance.VERIFIED,
    ) -> tuple[Conversation, ...]:
        """Newest first by id; `before` is the last id of the page before.

        `handed_off`: only those that a person has. `sender`: only theirs that are not erased.
        `at_most`: only those of which the channel was not surer than this.
        """
        ...

    def append(
        self, conversation_id: str, *, author: Author, text: str, at: datetime, run_id: str | None
    ) -> int:
        """The new message's `seq`: gapless, counted in the conversation's row."""
        ...

    def receive(self, message: Received) -> int:
        """A customer's message, with what is to be known when it is answered; its `seq`.

        It is unread when it names no run.
        """
        ...

    def delivered(self, sender: Sender, message_id: str) -> Message | None:
        """The message that came under this id before, from this sender.

        Until the transaction ends nobody else delivers a message under the same id.
        """
        ...

    def unread(self, conversation_id: str) -> tuple[Unread, ...]:
        """What customers wrote and no run has read, in order of `seq`."""
        ...

    def mark_read(
        self, conversation_id: str, *, run_id: str, through_seq: int, last_seq: int
    ) -> None:
        """What is unread up to a message is read by this run, when `last_seq` is the newest."""
        ...

    def unread_again(self, conversation_id: str, *, after_seq: int) -> int:
        """What was written to a person after message `after_seq` is for the agent; how many."""
        ...

    def message(self, conversation_id: str, seq: int) -> Message | None: ...

    def operators(self, conversation_id: str) -> frozenset[str]:
        """Everybody who wrote in it for the customer."""
        ...

    def due(self, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        """Ids of conversations that somebody has to look at, in order, after the last of a page.

        There is something unread in them and nobody has them, or their run's owner is gone.
        """
        ...

    def waiting(self, conversation_id: str) -> Waiting | None:
        """What is to be done in it; None when there is no such conversation."""
        ...

    def messages(
        self, conversation_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> tuple[Message, ...]:
        """In order of `seq`."""
        ...

    def progress(self, conversation_ids: Collection[str]) -> Mapping[str, Mark]:
        """How far each of them is, in one look: its messages, its turns, and whether it is erased.

        Ids that are unknown are left out.
        """
        ...

    def answered(self, questions: Sequence[Question]) -> frozenset[Question]:
        """Those of staff's questions that the customer wrote after, in one look."""
        ...

    def know(self, conversation_id: str, new: Sequence[Known]) -> None:
        """Preferences that were said in it, in the order they were; what it knew before stays."""
        ...

    def set_language(self, conversation_id: str, language: Language) -> None: ...

    def claim(
        self, conversation_id: str, *, lease_s: float, held: int | None = None
    ) -> Claim | None:
        """Take the conversation for one turn; None while another's lease runs.

        Leases are counted by the database's clock. `held` is the epoch of a lease of one's own.
        """
        ...

    def seize(self, conversation_id: str) -> int | None:
        """Take it from whoever has it, who stores nothing in it any more; the new epoch.

        It is to be given back in the same transaction. None: there is no such conversation.
        """
        ...

    def release(self, conversation_id: str, *, epoch: int) -> Released | None:
        """Give it back; None when a later owner took it meanwhile."""
        ...

    def hand_off(self, conversation_id: str) -> bool:
        """A person takes over; False when one has already."""
        ...

    def give_back(self, conversation_id: str) -> bool:
        """The agent answers again; False when no person had it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended, with its final counters."""

    run_id: str
    status: RunStatus
    stop_reason: StopReason
    usage: Usage
    steps: int
    consecutive_errors: int
    answer_seq: int | None
    at: datetime


class Runs(Protocol):
    """The Thought-Action-Observation record. A conversation has at most one RUNNING run."""

    def start(self, run: Run) -> bool:
        """False while another run of the conversation is unfinished."""
        ...

    def take_over(
        self, conversation_id: str, *, epoch: int, counts: bool = True, operator: str | None = None
    ) -> Run | None:
        """Go on with the run that is unfinished, in a later epoch; None when there is none.

        Its counters are at least those of its steps. `counts`: as one more attempt. `operator`: who
        goes on with it by hand.
        """
        ...

    def give_up(self, run_id: str, *, epoch: int) -> None:
        """Its owner stops in good order before it is done: the next one is no further attempt."""
        ...

    def end(self, end: RunEnd) -> bool:
        """False when the run was ended by somebody else meanwhile."""
        ...

    def reopen(self, run_id: str, *, epoch: int, operator: str | None) -> bool:
        """STOPPED or DEAD back to RUNNING, counters kept; False when it is neither.

        Its attempts are counted anew. It is `operator`'s now; who wrote for the customer before
        stands beside the messages.
        """
        ...

    def get(self, run_id: str) -> Run | None: ...

    def list(
        self,
        *,
        conversation_id: str | None,
        limit: int,
        before: str | None,
        status: RunStatus | None = None,
    ) -> tuple[Run, ...]:
        """Newest first by id; `before` is the last id of the page before."""
        ...

    def since(self, conversation_id: str, *, epoch: int, limit: int) -> tuple[Run, ...]:
        """Those that began or went on in this epoch of the conversation or later, in that order."""
        ...

    def progress(self, run_ids: Collection[str]) -> Mapping[str, Mark]:
        """How far each of them is, in one look: its steps, its answered calls and how it stands.

        Ids that are unknown are left out.
        """
        ...

    def add_step(
        self,
        *,
        run_id: str,
        number: int,
        decision: Decision,
        usage: Usage,
        at: datetime,
        epoch: int,
    ) -> bool:
        """Commit a decision with its calls, before any of them runs.

        False, and nothing is written, when the run was ended or taken over since `epoch`.
        """
        ...

    def answer(self, call: ToolCall, observation: Observation, *, epoch: int) -> bool:
        """Answer a call of a run that is running in this epoch, each id exactly once.

        False when it was answered already, or the run was taken over since `epoch`.
        """
        ...

    def steps(self, run_id: str) -> tuple[RunStep, ...]: ...

    def steps_of_conversation(
        self, conversation_id: str, *, after_seq: int = 0
    ) -> tuple[RunStep, ...]:
        """The steps of the runs that messages after `after_seq` started, oldest run first."""
        ...

    def model_calls(self, conversation_id: str, *, after_seq: int = 0) -> int:
        """How often a model was asked by the runs that messages after `after_seq` started.

        Failed attempts are included.
        """
        ...

    def will_state(self, conversation_id: str, request_id: str) -> bool:
        """Whether a run that goes on spoke of the request, so that its answer says how it stands.

        It does not end before this transaction does.
        """
        ...

    def not_found(self, conversation_id: str) -> tuple[str, ...]:
        """The arguments of all its calls that came to `ORDER_NOT_FOUND`."""
        ...

"""Conversations, messages, runs and steps as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.conversation import Author, Conversation, Message
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


class Conversations(Protocol):
    """Append-only messages under a binding that never changes."""

    def add(self, conversation: Conversation) -> None: ...

    def get(self, conversation_id: str) -> Conversation | None: ...

    def list(
        self, *, customer_id: str | None, limit: int, before: str | None
    ) -> tuple[Conversation, ...]:
        """Newest first by id; `before` is the last id of the page before."""
        ...

    def append(
        self, conversation_id: str, *, author: Author, text: str, at: datetime, run_id: str | None
    ) -> int:
        """The new message's `seq`: gapless, counted in the conversation's row."""
        ...

    def messages(self, conversation_id: str, *, after_seq: int = 0) -> tuple[Message, ...]:
        """In order of `seq`."""
        ...

    def answered(self, questions: Sequence[Question]) -> frozenset[Question]:
        """Those of staff's questions that the customer wrote after, in one look."""
        ...

    def set_language(self, conversation_id: str, language: Language) -> None: ...

    def claim(self, conversation_id: str, *, lease_s: float) -> int | None:
        """Take the conversation for one turn: its new epoch, None while another's lease runs.

        Leases are counted by the database's clock.
        """
        ...

    def release(self, conversation_id: str, *, epoch: int) -> bool:
        """Give it back; False when a later owner took it meanwhile."""
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

    def close_orphan(self, conversation_id: str, *, at: datetime) -> str | None:
        """Stop the unfinished run a dead owner left (reason `cancelled`); its id, or None."""
        ...

    def end(self, end: RunEnd) -> bool:
        """False when the run was ended by somebody else meanwhile."""
        ...

    def reopen(self, run_id: str, *, epoch: int) -> bool:
        """STOPPED back to RUNNING, counters kept; False when it is not stopped."""
        ...

    def get(self, run_id: str) -> Run | None: ...

    def list(
        self, *, conversation_id: str | None, limit: int, before: str | None
    ) -> tuple[Run, ...]: ...

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

    def not_found(self, conversation_id: str) -> tuple[str, ...]:
        """The arguments of all its calls that came to `ORDER_NOT_FOUND`."""
        ...

"""What a run has in memory while it goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from support_agent.agent.budget import Budget
from support_agent.agent.shown import Shown
from support_agent.domain.conversation import Conversation
from support_agent.domain.people import Asker
from support_agent.domain.runs import Run, RunStep, StopReason, Usage
from support_agent.domain.usage import Hold, OverBudget
from support_agent.ports.model import Turn


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
    silent: bool = False  # a person had the conversation when it began: nothing is said
    left_open: RunStep | None = None  # the last decision of a run that goes on, to be finished
    quote_ids: list[str] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    hold: Hold | None = None  # counted ahead for the next model call
    unsettled: Usage = field(default_factory=Usage)  # spent and not yet counted in the books of use
    over: OverBudget | None = None  # the limit that leaves no room for another call
    shown: Shown = field(default_factory=Shown)  # what the model sees of the turns

    @contextmanager
    def counted_unless_it_fails(self) -> Iterator[None]:
        """Around a transaction that counts: when it fails, nothing was counted, no cut stored.

        A cancelled one was committed before the cancellation was raised, unless that has a cause.
        """
        before = self.hold, self.unsettled, self.over
        is_due = self.shown.is_due
        try:
            yield
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError) or error.__cause__ is not None:
                self.hold, self.unsettled, self.over = before
                self.shown.is_due = is_due
            raise

    def spend(self, usage: Usage) -> None:
        """Count what a model call cost, also one that brought nothing."""
        self.budget.usage += usage
        self.unsettled += usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnd:
    """Why the loop ended, with the model's words if it had any and the limit if it was one."""

    reason: StopReason
    text: str | None = None
    over: OverBudget | None = None

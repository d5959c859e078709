"""What the model is shown of a run: its turns, and how many tokens they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from support_agent.agent.cuts import Cut, plan
from support_agent.agent.history import recap_of
from support_agent.agent.recap import Recaps
from support_agent.agent.shown import Shown
from support_agent.agent.state import RunState
from support_agent.agent.weights import tool_tokens, turn_tokens
from support_agent.domain.runs import Usage
from support_agent.domain.tokens import estimate_tokens
from support_agent.ports.model import AssistantCalls, CustomerTurn, Recap, ToolSpec, Turn
from support_agent.ports.storage import Database, MadeBy, Transaction

log = structlog.get_logger(__name__)

# How far what the server counts is believed to be off what was estimated.
LEAST_RATIO, MOST_RATIO = 0.5, 2.0
MOST_RECAP_TOKENS = 600
LEAST_SHARE = 8  # a cut of less than this part of a step is not worth a broken prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Tokens of the turns shown, without the system text and the tools."""

    high: int  # above it the view is cut
    low: int  # down to this

    @property
    def step(self) -> int:
        """How much a view grows between two cuts."""
        return self.high - self.low

    @property
    def recap(self) -> int:
        """What is kept free for facts and summary when runs are cut off."""
        return min(self.low // 3, MOST_RECAP_TOKENS)

    @property
    def summary_chars(self) -> int:
        """As many as leave the facts some room."""
        return self.recap * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one request shows; `tokens` counts the system text and the tools as well."""

    turns: tuple[Turn, ...]
    tokens: int


class Views:
    """Builds views. They start alike from step to step, so that a provider's cache serves them.

    A view that has passed the high-water mark is cut once, down to the low-water mark, and grows
    again from there. A cut is stored with the next commit, so that every later view is cut there.
    """

    def __init__(
        self,
        *,
        system: str,
        tools: Sequence[ToolSpec],
        marks: Marks,
        recaps: Recaps,
        database: Database,
    ) -> None:
        self._fixed = estimate_tokens(system) + sum(map(tool_tokens, tools))
        self._marks = marks
        self._recaps = recaps
        self._database = database

    async def of(self, state: RunState, *, squeeze: bool = False) -> View:
        """The view for the next call; `squeeze` makes it as short as it can be."""
        shown = state.shown
        shown.grow(state.turns)
        if not shown.limit:
            shown.limit = max(self._marks.high, _recap_tokens(state) + self._marks.step)
        limit = max(shown.limit, self._marks.high)
        if squeeze or shown.tokens * shown.ratio > limit:
            await self._cut(state, squeeze=squeeze)
        return View(turns=tuple(shown.turns), tokens=self._tokens(shown))

    def size(self, state: RunState) -> int:
        """Tokens of the next view, if it is not cut."""
        state.shown.grow(state.turns)
        return self._tokens(state.shown)

    def whole(self, turns: Sequence[Turn]) -> View:
        """A view of these turns and nothing else."""
        return View(turns=tuple(turns), tokens=self._fixed + sum(map(turn_tokens, turns)))

    def heard(self, state: RunState, usage: Usage) -> None:
        """Correct the estimates by what the server counted for the last view."""
        shown = state.shown
        if usage.requests == 1 and usage.input_tokens:
            ratio = usage.input_tokens / (self._fixed + shown.tokens)
            shown.ratio = min(max(ratio, LEAST_RATIO), MOST_RATIO)

    def keep(self, tx: Transaction, state: RunState) -> None:
        """Store a new cut, in a commit that is made anyway; none of an owner that was overtaken."""
        shown = state.shown
        if shown.is_due and shown.stored is not None:
            conversation = tx.conversations.get(state.conversation.id)
            if conversation is not None and conversation.epoch == state.run.epoch:
                tx.compactions.add(shown.stored)
            shown.is_due = False

    def _tokens(self, shown: Shown) -> int:
        return round((self._fixed + shown.tokens) * shown.ratio)

    async def _cut(self, state: RunState, *, squeeze: bool) -> None:
        shown, before = state.shown, state.shown.tokens
        planned = self._plan(state, squeeze=squeeze)
        if planned is not None:
            sums_up = planned.first != shown.cut.first
            made = await self._recaps.made(state, planned)
            known = state.conversation.known
            recap = recap_of(made, known) if sums_up else shown.recap
            shown.lay(state.turns, planned, recap=recap)
            shown.stored, shown.is_due = made, True
            if sums_up and made.made_by is MadeBy.MODEL:  # it was paid for
                with state.counted_unless_it_fails():
                    await self._database.transact(lambda tx: self.keep(tx, state), durable=False)
            log.info(
                "view.cut",
                conversation_id=state.conversation.id,
                number=made.number,
                through_seq=made.through_seq,
                tokens_before=before,
                tokens=shown.tokens,
            )
        # Where little can be cut, it is not tried again at each step.
        shown.limit = round(shown.tokens * shown.ratio) + self._marks.step

    def _plan(self, state: RunState, *, squeeze: bool) -> Cut | None:
        """Where to cut; None where that would bring next to nothing."""
        shown = state.shown
        recap = 0 if shown.recap is None else turn_tokens(shown.recap)  # not one of the turns
        planned, left = plan(
            state.turns,
            shown.weights,
            shown.cut,
            shown.digests,
            starts=shown.starts,
            end=_newest_step(state.turns),
            target=0 if squeeze else int(self._marks.low / shown.ratio) - recap,
            reserve=self._marks.recap - recap,
        )
        least = 1 if squeeze else self._marks.step // LEAST_SHARE
        worth_it = planned.first != shown.cut.first or shown.tokens - recap - left >= least
        return planned if worth_it else None


def _recap_tokens(state: RunState) -> int:
    """Of the recap that a run begins with: a new cut would bring one as long."""
    return state.shown.weights[0] if state.turns and isinstance(state.turns[0], Recap) else 0


def _newest_step(turns: Sequence[Turn]) -> int:
    """Where the results begin that the model has not seen yet."""
    for index in range(len(turns) - 1, -1, -1):
        if isinstance(turns[index], AssistantCalls):
            return index
        if isinstance(turns[index], CustomerTurn):
            break
    return len(turns)

"""Makes what stands for turns that are cut off: facts that code keeps, and a summary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from support_agent.agent.cuts import Cut
from support_agent.agent.intent import Intents
from support_agent.agent.shown import step_at
from support_agent.agent.state import RunState
from support_agent.agent.summaries import Summaries
from support_agent.domain.conversation import Author
from support_agent.domain.memory import Memory, recalled
from support_agent.ports.clock import Clock
from support_agent.ports.model import AssistantTurn, CustomerTurn, ToolResult, Turn
from support_agent.ports.storage import Compaction, Database, Transaction

MOST_MASKS = 50  # of each kind that are still known when they come again


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What the books say of the facts when they are written down."""

    memory: Memory
    model_calls: int


class Recaps:
    """Turns a planned cut into one that can be stored."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        summaries: Summaries,
        intents: Intents | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._summaries = summaries
        self._intents = intents

    async def made(self, state: RunState, cut: Cut) -> Compaction:
        """The cut as it is stored; requests and quotes as they stand now."""
        shown = state.shown
        before = shown.stored or Compaction(
            conversation_id=state.conversation.id, number=0, at=self._clock.now()
        )
        run_id, step = step_at(state.turns, cut.digested, cut.first)
        after = replace(
            before,
            number=before.number + 1,
            at=self._clock.now(),
            digested_run_id=run_id,
            digested_step=step,
        )
        if cut.first == shown.cut.first:
            return after
        return await self._without(state, after, cut)

    async def _without(self, state: RunState, before: Compaction, cut: Cut) -> Compaction:
        """With the runs before `cut.first` told by facts and summary alone."""
        shown = state.shown
        place = next(p for p in shown.history.places if p.index == cut.first)
        authors = {p.index: p.author for p in shown.history.places}
        gone = range(shown.cut.first, cut.first)
        memory = _remembered(recalled(before.facts), state.turns, gone, authors)
        if self._intents is not None:
            memory = memory.wants(await self._intents.of(state, memory.wishes))
        through_seq = place.seq - 1
        standing = await self._database.read(
            lambda tx: self._standing(tx, before, memory, through_seq)
        )
        kept = len(shown.turns) - (len(state.turns) - cut.first)
        summary, made_by = await self._summaries.of(
            state, before=before.summary, turns=shown.turns[:kept]
        )
        return replace(
            before,
            through_seq=through_seq,
            facts=standing.memory.facts(),
            masks=shown.history.masker.up_to(place.masked, most=MOST_MASKS),
            summary=summary,
            made_by=made_by,
            model_calls=standing.model_calls,
        )

    def _standing(
        self, tx: Transaction, before: Compaction, memory: Memory, through_seq: int
    ) -> _Standing:
        conversation_id, now = before.conversation_id, self._clock.now()
        found = [tx.requests.get(request.id) for request in memory.requests]
        quotes = tx.quotes.open_in(conversation_id)
        behind = tx.runs.model_calls(conversation_id, after_seq=before.through_seq)
        left = tx.runs.model_calls(conversation_id, after_seq=through_seq)
        return _Standing(
            memory=memory.standing(
                {request.id: request.status.value for request in found if request is not None},
                {quote.id for quote in quotes if quote.expires_at >= now},
            ),
            model_calls=before.model_calls + behind - left,
        )


def _remembered(
    memory: Memory, turns: Sequence[Turn], gone: range, authors: dict[int, Author]
) -> Memory:
    for index in gone:
        match turns[index]:
            case ToolResult(content=content):
                memory = memory.told(content)
            case CustomerTurn(text=text) | AssistantTurn(text=text):
                memory = memory.said(authors.get(index, Author.AGENT), text)
            case _:
                pass
    return memory

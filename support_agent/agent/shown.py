"""What a run's model is shown, kept from call to call: between two cuts it only grows."""

from dataclasses import dataclass, field, replace

from support_agent.agent.cuts import Cut
from support_agent.agent.digests import Digests, run_of
from support_agent.agent.history import History
from support_agent.agent.weights import turn_tokens
from support_agent.ports.model import AssistantCalls, Recap, ToolResult, Turn
from support_agent.ports.storage import Compaction


@dataclass(slots=True, kw_only=True)
class Shown:
    """The view of a run's turns, and by which cut it was made."""

    history: History = field(default_factory=History)
    stored: Compaction | None = None  # the cut in force
    is_due: bool = False  # it has still to be stored
    cut: Cut = field(default_factory=Cut)
    recap: Recap | None = None  # made in this run; an earlier one is among the turns
    turns: list[Turn] = field(default_factory=list)
    tokens: int = 0  # of `turns`, as estimated
    weights: list[int] = field(default_factory=list)  # of all turns of the run, whole
    digests: Digests = field(default_factory=Digests)
    ratio: float = 1.0  # of what the server counted to what was estimated
    limit: int = 0  # tokens from which on it is cut again

    @property
    def starts(self) -> list[int]:
        """Where the view may begin: at the first of the messages that a run read.

        Not where one of them was written before something of ours that stands above it: what is
        read again of a conversation is read by `seq`.
        """
        found: list[int] = []
        newest = 0
        for place in self.history.places:
            if place.starts_run and place.seq > newest:
                found.append(place.index)
            newest = max(newest, place.seq)
        return found

    def grow(self, turns: list[Turn]) -> None:
        """Take in what was appended to the run's turns."""
        known = len(self.weights)
        if known == len(turns):
            return
        new = turns[known:]
        weights = [turn_tokens(turn) for turn in new]
        self.weights += weights
        if known == 0 and self.stored is not None:
            self.lay(turns, Cut(digested=_digested(turns, self.stored)), recap=None)
            return
        self.turns += new
        self.tokens += sum(weights)

    def lay(self, turns: list[Turn], cut: Cut, *, recap: Recap | None) -> None:
        """Make the view anew, as a cut has it."""
        shorter = self.digests.among(turns, cut.first, cut.digested)
        going_on, _ = step_at(turns, cut.digested, cut.first)
        view: list[Turn] = [] if recap is None else [recap]
        tokens = sum(turn_tokens(turn) for turn in view)
        for index in range(cut.first, len(turns)):
            turn, weight = turns[index], self.weights[index]
            if index < cut.digested and (made := _shorter(turn, shorter.get(index), going_on)):
                turn, weight = made, self._weight(made)
            view.append(turn)
            tokens += weight
        self.turns, self.tokens, self.cut, self.recap = view, tokens, cut, recap

    def _weight(self, turn: Turn) -> int:
        if isinstance(turn, ToolResult):
            return self.digests.weight(turn.content)
        return turn_tokens(turn)


def _shorter(turn: Turn, content: str | None, going_on: str | None) -> Turn | None:
    """What stands for a turn before the cut, if something shorter does.

    What an adapter kept of a run that is over (signed thinking) is of no use to it any more; of the
    run that the cut goes through it may be.
    """
    if isinstance(turn, ToolResult) and content is not None:
        return ToolResult(call=turn.call, content=content)
    if isinstance(turn, AssistantCalls) and turn.calls and turn.provider_state:
        is_over = run_of(turn.calls[0]) != going_on
        return replace(turn, provider_state="") if is_over else None
    return None


def shown_of(history: History) -> Shown:
    """What a run begins with."""
    return Shown(history=history, stored=history.cut)


def step_at(turns: list[Turn], index: int, first: int) -> tuple[str | None, int]:
    """Run and number of the last step before `index`; None and 0 when there is none from `first`.

    Ids of calls are `run_id:step:index`.
    """
    for turn in reversed(turns[first:index]):
        if isinstance(turn, AssistantCalls) and turn.calls:
            run_id, step, _ = turn.calls[0].id.rsplit(":", 2)
            return run_id, int(step)
    return None, 0


def _digested(turns: list[Turn], stored: Compaction) -> int:
    """The index behind the last step whose results are digests."""
    if stored.digested_run_id is None:
        return 0
    prefix = f"{stored.digested_run_id}:{stored.digested_step}:"
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if isinstance(turn, ToolResult) and turn.call.id.startswith(prefix):
            return index + 1
    return 0

"""Where a view that has grown too long is cut: results to digests first, then whole runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from support_agent.agent.digests import NEWER_BELOW, Digests, is_refusal
from support_agent.ports.model import AssistantCalls, CustomerTurn, ToolResult, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Turns from `first` on are shown; results before `digested` are shown as digests."""

    first: int = 0
    digested: int = 0


def plan(
    turns: Sequence[Turn],
    weights: Sequence[int],
    now: Cut,
    digests: Digests,
    *,
    starts: Sequence[int],
    end: int,
    target: int,
    reserve: int,
) -> tuple[Cut, int]:
    """The least that brings the view down to `target` tokens, or all that may be cut.

    Of `turns`, whose `weights` are their tokens, results from `end` on stay whole. `starts` are
    where the runs begin that may stand first, the current one last. `reserve` tokens are kept free
    for the recap when runs are cut off. Also says how many tokens are left then.
    """
    sizes = [*weights]
    total = sum(weights[now.first :])
    waiting: dict[tuple[str, str], list[int]] = {}  # results that no later call stands for yet
    end = max(end, now.digested)
    for index in range(now.first, end):
        turn = turns[index]
        at_a_step = isinstance(turn, AssistantCalls | CustomerTurn)
        if at_a_step and index >= now.digested and total <= target:
            return Cut(first=now.first, digested=index), total
        if not isinstance(turn, ToolResult):
            continue
        what = (turn.call.name, turn.call.arguments)
        smaller = {index: digests.of(turn.content)}
        if not is_refusal(turn.content):
            smaller |= dict.fromkeys(waiting.pop(what, ()), NEWER_BELOW)
        waiting.setdefault(what, []).append(index)
        for place, content in smaller.items():
            size = min(weights[place], digests.weight(content))
            total += size - sizes[place]
            sizes[place] = size
    first = now.first
    if total > target:
        first = _first_shown(sizes, [s for s in starts if s > now.first], now, target - reserve)
    return Cut(first=first, digested=end), sum(sizes[first:])


def _first_shown(sizes: Sequence[int], starts: Sequence[int], now: Cut, target: int) -> int:
    """The earliest start from which on the view is short enough, or else the last one."""
    left = sum(sizes[now.first :])
    before = now.first
    for start in starts:
        left -= sum(sizes[before:start])
        before = start
        if left <= target:
            break
    return before

"""Counts what a decision costs while it is being made, attempt by attempt."""

from dataclasses import replace

from support_agent.agent.metering import Metering
from support_agent.agent.state import LoopEnd, RunState
from support_agent.domain.runs import StopReason, Usage
from support_agent.ports.model import ModelRequest


class Spending:
    """One decision's use. What a failed attempt cost is counted before another one is sent.

    So a decision that is cancelled, or whose process dies, has counted what it knows of.
    """

    def __init__(self, *, state: RunState, metering: Metering, view_tokens: int) -> None:
        self._state = state
        self._metering = metering
        self._view_tokens = view_tokens
        self._counted = Usage()
        self.output_tokens = 0  # the most the answer may have, once there is room
        self.end: LoopEnd | None = None  # why there is no room for another attempt

    async def room(self) -> LoopEnd | None:
        """None when the call fits and is held, why the run ends otherwise."""
        if self._state.budget.is_late:
            return LoopEnd(reason=StopReason.DEADLINE)
        room = self._metering.output_room(self._state, self._view_tokens)
        if isinstance(room, StopReason):
            return LoopEnd(reason=room)
        self.output_tokens = room
        over = await self._metering.cover(self._state, self._view_tokens)
        return None if over is None else LoopEnd(reason=over.stop_reason, over=over)

    async def again(self, so_far: Usage) -> int | None:
        """Count what the attempts have cost so far; the room there is for one more, if any."""
        self.count(so_far)
        self.end = await self.room()
        return self.output_tokens if self.end is None else None

    def count(self, so_far: Usage) -> None:
        """Count what all attempts cost, less what was counted of it before."""
        self._state.spend(so_far - self._counted)
        self._counted = so_far

    def count_refused(self) -> None:
        """Count an attempt that nobody answered for: a wrong setting, a fault of the program."""
        self.count(self._counted + Usage(requests=1))

    def count_lost(self) -> None:
        """Count an attempt that was broken off: it may have been billed without an answer."""
        self.count(self._counted + self._metering.lost(self._view_tokens))


async def next_attempt(request: ModelRequest, spent: Usage) -> ModelRequest | None:
    """The request as it may be sent once more after that was spent; None: it may not."""
    if request.again is None:
        return request
    room = await request.again(spent)
    if room is None:
        return None
    most = request.max_output_tokens
    return replace(request, max_output_tokens=room if most is None else min(room, most))

"""Takes messages in and has their turns carried behind the request, whatever becomes of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from support_agent.agent.turns import (
    FIRST_LOOK_S,
    LONGEST_LOOK_S,
    Agent,
    Begun,
    Incoming,
    Posted,
    TurnResult,
)
from support_agent.api.background import Background
from support_agent.api.problems import ProblemError
from support_agent.domain.runs import Run
from support_agent.services.workers import tell, until


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """A message in the inbox. `ended` is set when the turn that this process carries has ended."""

    posted: Posted
    ended: asyncio.Event | None = None


class Turns:
    """Where nobody else is woken (`here`), this process carries the turns of what it takes in."""

    def __init__(
        self, *, agent: Agent, background: Background, here: bool, poke: Callable[[], None]
    ) -> None:
        self._agent = agent
        self._background = background
        self._here = here
        self._poke = poke

    async def take(self, incoming: Incoming) -> TakenIn:
        """Commit the message. A request that is given up meanwhile has sent it all the same.

        Raises:
            InvalidInput, CustomerNotFound, ConversationNotFound: as `Agent.take`.
        """
        if not self._here:
            return TakenIn(posted=await self._agent.post(incoming))
        begun: asyncio.Future[Begun] = asyncio.get_running_loop().create_future()
        begun.add_done_callback(_looked_at)
        ended = asyncio.Event()
        self._background.start(self._turn(incoming, begun, ended), name="turn")
        posted = (await asyncio.shield(begun)).posted
        return TakenIn(posted=posted, ended=ended)

    async def answer(
        self, taken: TakenIn, *, within_s: float, is_gone: Callable[[], Awaitable[bool]]
    ) -> TurnResult | None:
        """What the message was answered with; None when it took longer, or nobody waits."""
        ended, closing = taken.ended, self._background.closing
        over, look_s = time.monotonic() + within_s, FIRST_LOOK_S
        while True:
            result = await self._agent.answer_to(taken.posted)
            left_s = over - time.monotonic()
            if result is not None or left_s <= 0 or closing.is_set() or await is_gone():
                return result
            if ended is not None and ended.is_set():
                ended = None  # another turn came first
            events = (closing,) if ended is None else (closing, ended)
            await until(*events, within_s=min(look_s, left_s))
            look_s = min(look_s * 2, LONGEST_LOOK_S)

    async def resume(self, run: Run, *, operator: str | None, via: str) -> None:
        """Go on with a run, behind the request.

        Raises:
            RunNotFound, Conflict: as `Agent.resume`.
        """
        carry = await self._agent.reopen(run.id, operator=operator, via=via)
        self._poke()

        async def resumed() -> None:
            await self._carried(carry)
            if self._here:
                await self._drained(run.conversation_id)

        self._background.start(resumed(), name="turn")

    def drain(self, conversation_id: str) -> None:
        """Answer what is left in a conversation, if that is this process's business."""
        self._poke()
        if self._here:
            self._background.start(self._drained(conversation_id), name="turn")

    async def _turn(
        self, incoming: Incoming, begun: "asyncio.Future[Begun]", ended: asyncio.Event
    ) -> None:
        try:
            begin = await self._agent.begin(incoming)
        except asyncio.CancelledError:
            begun.set_exception(_stopping())
            raise
        except Exception as error:  # noqa: BLE001 - it is the request's
            begun.set_exception(error)
            return
        begun.set_result(begin)
        self._poke()
        if begin.carry is not None:
            try:
                await self._carried(begin.carry)
            finally:
                ended.set()
        if begin.carry is not None or begin.posted.is_known:
            await self._drained(begin.posted.conversation_id)

    async def _carried(self, carry: Callable[[], Awaitable[None]]) -> None:
        try:
            await carry()
        except Exception as error:  # noqa: BLE001 - what came meanwhile is answered all the same
            tell(error, "turn.failed")
        finally:
            self._poke()

    async def _drained(self, conversation_id: str) -> None:
        """What came meanwhile found the conversation taken, and nobody else looks at it so soon."""
        await self._agent.work(conversation_id)
        self._poke()


def _looked_at(begun: "asyncio.Future[Begun]") -> None:
    """An error that no request waits for any more is not one of the loop's."""
    if not begun.cancelled():
        begun.exception()


def _stopping() -> ProblemError:
    return ProblemError(
        503,
        "STOPPING",
        "this process is about to stop; send it again with the same message_id",
        headers={"Retry-After": "1"},
    )

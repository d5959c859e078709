"""Take customers' messages and answer them: the use cases that every entry point calls."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from support_agent.agent.beginning import Beginning, Later, Taken
from support_agent.agent.cancelling import Cancelling
from support_agent.agent.carrying import Carrying
from support_agent.agent.results import TurnResult, result_for
from support_agent.agent.state import RunState
from support_agent.domain.conversation import Conversation
from support_agent.domain.errors import (
    ConversationBusy,
    DatabaseUnavailable,
    InvalidInput,
)
from support_agent.domain.people import Principal
from support_agent.domain.text import clean_message, redact_cards
from support_agent.ports.storage import Database, Transaction
from support_agent.services.conversations import ConversationDesk
from support_agent.services.inbox import Inbox, Incoming, Posted

__all__ = ["Agent", "Begun", "Incoming", "Posted", "TurnResult"]

T = TypeVar("T")
log = structlog.get_logger(__name__)
FIRST_LOOK_S, LONGEST_LOOK_S = 0.02, 0.5  # between two looks at what another owner does
LONGEST_MESSAGE_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the agent waits: for the turns before a message, and for a database that is away."""

    turn_s: float
    database_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A message in the inbox, and its run where one began with it and this process has it.

    Attributes:
        run_id: the run that reads it; None when turns before it, or other processes, come first.
        carry: runs what began, whoever waits for it; to be awaited once, and only where `run_id`
            or a turn before it is this process's. Cancelled it is left to the next owner.
    """

    posted: Posted
    run_id: str | None = None
    carry: Callable[[], Awaitable[None]] | None = None


class Agent:
    """A turn: commit the message, run the loop, commit the answer with what it shows.

    Any number of processes may work on the same conversations: one of them has a conversation at a
    time, and what it has committed is not done again by the next.
    """

    def __init__(
        self,
        *,
        database: Database,
        desk: ConversationDesk,
        inbox: Inbox,
        beginning: Beginning,
        cancelling: Cancelling,
        carrying: Carrying,
        patience: Patience,
        max_chars: int,
    ) -> None:
        self._database = database
        self._desk = desk
        self._inbox = inbox
        self._beginning = beginning
        self._cancelling = cancelling
        self._carrying = carrying
        self._patience = patience
        self._max_chars = max_chars

    async def post(self, incoming: Incoming) -> Posted:
        """Commit a message to the inbox and wake whoever answers it; nothing is answered here.

        Raises:
            InvalidInput, CustomerNotFound, ConversationNotFound: as `take`.
        """
        text, conversation, is_new = await self._checked(incoming)

        def post(tx: Transaction) -> Posted:
            known = self._inbox.known(tx, incoming)
            if known is not None:
                return known
            if is_new:
                tx.conversations.add(conversation)
            return self._inbox.post(tx, conversation, text, incoming)

        return await self._database.transact(post)

    async def take(self, incoming: Incoming) -> TurnResult:
        """Answer a message; one that was delivered before gets the answer that it got.

        The turns before it come first, whoever has them. Cancelled, a turn of this message alone is
        stopped where it is and can be resumed; one that others wait for is left to the next owner.

        Raises:
            InvalidInput: empty, too long or not text.
            CustomerNotFound, ConversationNotFound: not this customer's.
            ConversationBusy: other turns took too long; the message is kept and answered later.
        """
        taken = await self._taken(incoming, lets_go=lambda taken: not taken.alone)
        if taken.state is not None:
            with suppress(ConversationBusy):  # then whoever took it over answers
                result = await self._carried_for(taken, taken.state)
                if taken.answers_it:
                    return result
        return await self._answered(taken.posted)

    async def begin(self, incoming: Incoming) -> Begun:
        """Commit a message and, where the conversation is free, the start of its run, as `take`.

        Nothing is answered yet: `carry` does, beside whatever else the process serves. Where it is
        not called the run is taken over when its lease ends.

        Raises:
            InvalidInput, CustomerNotFound, ConversationNotFound: as `take`.
        """
        taken = await self._taken(incoming, lets_go=lambda _: True)
        state = taken.state
        if state is None:
            return Begun(posted=taken.posted)
        run_id = state.run.id if taken.answers_it else None
        return Begun(posted=taken.posted, run_id=run_id, carry=partial(self._carry, state))

    async def answer_to(self, posted: Posted) -> TurnResult | None:
        """What the message was answered with; None as long as nobody has."""
        return await self._database.read(
            lambda tx: result_for(tx, posted.conversation_id, posted.seq), brief=True
        )

    async def resume(self, run_id: str, *, operator: str, via: str) -> TurnResult:
        """Continue a run that was stopped, is a dead letter, or whose owner is gone.

        Its counters go on, its deadline is new.

        Raises:
            RunNotFound: unknown.
            Conflict: there is nothing to resume, or somebody else has it.
        """
        state = await self._reopened(run_id, operator=operator, via=via, lets_go=False)
        return await self._carrying.carry(state, tell=True)

    async def reopen(
        self, run_id: str, *, operator: str | None, via: str
    ) -> Callable[[], Awaitable[None]]:
        """As `resume` up to where it goes on, which is what comes back, as `Begun.carry`.

        `operator`: None when it is the customer who wants it.
        """
        state = await self._reopened(run_id, operator=operator, via=via, lets_go=True)
        return partial(self._carry, state)

    async def cancel(self, run_id: str, *, by: Principal) -> None:
        """End a run that goes on, here or in another process. What it committed stands.

        Raises:
            RunNotFound: unknown.
            RunEnded: it has ended already.
        """
        await self._database.transact(lambda tx: self._cancelling.cancel(tx, run_id, by=by))
        self._carrying.under_way.break_off(run_id)

    async def work(self, conversation_id: str, *, once: bool = False) -> float | None:
        """Answer all there is in a conversation, the turn first that its owner left.

        `once`: one turn of it. What came meanwhile has woken the queue, where it stands behind
        the conversations that wait longer; who goes on with his own keeps them waiting.

        Cancelled, or without a database for too long, the turn is left for the next one to go on.
        One that was taken over meanwhile is the other owner's.

        Returns:
            Seconds after which to look again; None when nothing is left.

        Raises:
            DatabaseUnavailable: for longer than a while.
        """
        held: int | None = None
        away_since: float | None = None
        while True:
            try:
                begun = await self._next(conversation_id, held=held)
                away_since = None
                if not isinstance(begun, RunState):
                    return None if begun is None else begun.seconds
                held = begun.run.epoch
                await self._carrying.carry(begun, tell=True, stays=True)
                if once:
                    return None
                held = None
            except ConversationBusy as taken_over:
                log.info("turn.taken_over", conversation_id=conversation_id, why=str(taken_over))
                return None
            except DatabaseUnavailable:
                away_since = away_since or time.monotonic()
                if held is None or time.monotonic() - away_since > self._patience.database_s:
                    raise
                await asyncio.sleep(LONGEST_LOOK_S)

    async def _checked(self, incoming: Incoming) -> tuple[str, Conversation, bool]:
        message_id = incoming.message_id
        if message_id is not None and not _is_id(message_id):
            raise InvalidInput(
                "message_id", f"is not 1 to {LONGEST_MESSAGE_ID} printable characters"
            )
        text = redact_cards(clean_message(incoming.text, max_chars=self._max_chars))
        conversation, is_new = await self._desk.find(
            incoming.binding, conversation_id=incoming.conversation_id, first_text=text
        )
        return text, conversation, is_new

    async def _taken(self, incoming: Incoming, *, lets_go: Callable[[Taken], bool]) -> Taken:
        text, conversation, is_new = await self._checked(incoming)

        def start(tx: Transaction) -> Taken:
            known = self._inbox.known(tx, incoming)
            if known is not None:
                return Taken(posted=known)
            if is_new:
                tx.conversations.add(conversation)
            return self._beginning.take(tx, conversation, text, incoming)

        return await self._begun(start, lambda taken: taken.state, lets_go=lets_go)

    async def _next(
        self, conversation_id: str, *, held: int | None = None
    ) -> RunState | Later | None:
        return await self._begun(
            lambda tx: self._beginning.next(tx, conversation_id, held=held),
            lambda begun: begun if isinstance(begun, RunState) else None,
            lets_go=lambda _: True,
        )

    async def _begun(
        self,
        start: Callable[[Transaction], T],
        state_of: Callable[[T], RunState | None],
        *,
        lets_go: Callable[[T], bool] = lambda _: False,
    ) -> T:
        """What a transaction began. A cancellation is raised after its commit, in place of it."""
        begun: list[T] = []
        try:
            await self._database.transact(lambda tx: begun.append(start(tx)))
        except asyncio.CancelledError:
            state = state_of(begun[0]) if begun else None
            if state is not None:
                await self._carrying.torn_down(state, tell=False, lets_go=lets_go(begun[0]))
            raise
        return begun[0]

    async def _reopened(
        self, run_id: str, *, operator: str | None, via: str, lets_go: bool
    ) -> RunState:
        return await self._begun(
            lambda tx: self._beginning.reopen(tx, run_id, operator=operator, via=via),
            lambda state: state,
            lets_go=lambda _: lets_go,
        )

    async def _carry(self, state: RunState) -> None:
        with suppress(ConversationBusy):  # then whoever took it over answers, or called it off
            await self._carrying.carry(state, tell=True, lets_go=True)

    async def _carried_for(self, taken: Taken, state: RunState) -> TurnResult:
        """For who waits for the answer to one message; of others' nobody here does."""
        return await self._carrying.carry(state, tell=not taken.answers_it, lets_go=not taken.alone)

    async def _answered(self, posted: Posted) -> TurnResult:
        """The answer to a message: made here as soon as nobody else makes it."""
        conversation_id, looked_s = posted.conversation_id, FIRST_LOOK_S
        give_up = time.monotonic() + self._patience.turn_s
        while True:
            result = await self._database.read(
                lambda tx: result_for(tx, conversation_id, posted.seq), brief=True
            )
            if result is not None:
                return result
            begun = await self._begun(
                lambda tx: self._beginning.answer(tx, posted),
                lambda begun: begun.state if isinstance(begun, Taken) else None,
                lets_go=lambda _: True,
            )
            if isinstance(begun, Taken) and begun.state is not None:
                with suppress(ConversationBusy):
                    result = await self._carried_for(begun, begun.state)
                    if begun.answers_it:
                        return result
            elif time.monotonic() > give_up:
                left = begun.seconds if isinstance(begun, Later) else None
                raise ConversationBusy(conversation_id, left_s=left)
            else:
                await asyncio.sleep(looked_s)
                looked_s = min(looked_s * 2, LONGEST_LOOK_S)


def _is_id(text: str) -> bool:
    return 1 <= len(text) <= LONGEST_MESSAGE_ID and text.isprintable() and not text.isspace()

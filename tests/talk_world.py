"""Conversations, workers that die or sleep, people who decide, and time: whatever may happen.

`TalkWorld` does things and refuses none; `broken` says what must hold and does not.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.requests import QuoteRow
from support_agent.domain.conversation import Author, Message
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.runs import Run, RunStatus
from support_agent.ports.storage import RequestFilter, Transaction
from tests.crashes import let_leases_end
from tests.killed_turns import YES, message
from tests.kit import TODAY, Shop
from tests.money_world import Greedy
from tests.owners import Died, Owner, owner_of
from tests.places import Places
from tests.promises import Promises

S = RequestStatus
quotes = table_of(QuoteRow)
WANTS = (
    "hoàn tiền đơn A102 20000 đồng giúp tôi",  # paid at once
    "hoàn tiền đơn A103 30000 đồng giúp tôi",
    "hoàn tiền đơn A103 150000 đồng giúp tôi",  # once, as much as a day may cost by itself
    "hoàn tiền đơn A100 giúp tôi",  # a person decides
)
TEXTS = (
    *WANTS,
    YES,
    YES,
    "không, cảm ơn",
    "Bao giờ thì xong ạ?",
)
CONVERSATIONS = 2
MOST_LOOKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as its channel sent it."""

    text: str
    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message in the inbox, and the quotes that had been shown by then."""

    text: str
    seen: frozenset[str]


@dataclass
class TalkWorld:
    places: Places
    url: str
    conversations: tuple[str, ...]
    now: datetime = TODAY
    restored: bool = False
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    arrived: dict[tuple[str, int], Arrived] = field(default_factory=dict)
    asleep: list[Owner] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = asyncio.Runner()
        self.gateway = Greedy(lambda: self.now)
        self.notes = self.places.folder / f"{self.url.rsplit('/', 1)[1]}.notes"
        self._stack = AsyncExitStack()
        self._owner: Owner | None = None
        self._clocks: list[Any] = []
        self._promises = Promises(self)  # type: ignore[arg-type] - it has what they look at

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @property
    def owner(self) -> Owner:
        """A process that is awake."""
        if self._owner is None:
            self._owner = self.run(self._open())
        return self._owner

    @property
    def shop(self) -> Shop:
        return self.owner.shop

    async def _open(self) -> Owner:
        owner = await self._stack.enter_async_context(
            owner_of(
                self.url,
                self.notes,
                clock=lambda: self.now,
                parts={"gateway": self.gateway},
                queue={"max_attempts": 100},
            )
        )
        self._clocks.append(owner.shop.clock)
        owner.shop.clock.set(self.now)
        return owner

    def close(self) -> None:
        for owner in self.asleep:
            owner.database.dead = True
            with suppress(BaseException):
                self.run(owner.goes_on())
        self.run(self._stack.aclose())
        self.runner.close()
        self.places.drop(self.url)

    # What customers do.

    def says(self, which: int, text: str, *, with_id: bool, dies: bool) -> None:
        """The channel posts it; its process may die before the commit, and nothing arrived then."""
        conversation = self.conversations[which % CONVERSATIONS]
        number = len(self.sent.setdefault(conversation, []))
        message_id = f"{conversation}.{number}" if with_id else None
        sent = Sent(text=text, message_id=message_id)
        if with_id:  # else nobody would deliver it again
            self.sent[conversation].append(sent)
        elif dies:
            return
        self._post(conversation, sent, dies=dies)

    def agrees(self, which: int, text: str) -> None:
        """Asks for a refund, is answered, and says yes; nobody has read that yet."""
        self.says(which, text, with_id=True, dies=False)
        self.leases_end()
        self.works(which)
        self.says(which, YES, with_id=True, dies=False)

    def agrees_too_early(self, which: int, text: str, number: int) -> None:
        """To what was not shown yet: the answer is on its way, or its owner has fallen asleep."""
        self.says(which, text, with_id=True, dies=False)
        self.leases_end()
        self.sleeps(which, number)
        self.says(which, YES, with_id=True, dies=False)
        self.wakes_up(-1)

    def delivers_again(self, which: int, number: int) -> None:
        """What the channel is not sure arrived, or simply twice."""
        conversation = self.conversations[which % CONVERSATIONS]
        if self.sent.get(conversation):
            sent = self.sent[conversation][number % len(self.sent[conversation])]
            self._post(conversation, sent, dies=False)

    def _post(self, conversation: str, sent: Sent, *, dies: bool) -> None:
        incoming, seen = message(sent.text, conversation, sent.message_id), self._seen()
        if dies:
            self.owner.dies_at(0)
        posted = self._attempt(self.owner.agent.post(incoming))
        if posted is not None:
            here = Arrived(text=sent.text, seen=seen)
            self.arrived.setdefault((conversation, posted.seq), here)

    # What processes do.

    def works(self, which: int) -> None:
        """A worker is woken for a conversation."""
        self._attempt(self.owner.agent.work(self.conversations[which % CONVERSATIONS]))

    def dies(self, which: int, number: int) -> None:
        """So it is, and its process is gone before its commit of that number."""
        self.owner.dies_at(number)
        self.works(which)
        if self._owner is not None:  # the turn was over before that
            self._owner.database.before = None

    def sleeps(self, which: int, number: int) -> None:
        """So it is, and falls asleep before its commit of that number."""
        owner = self.owner
        owner.stops_at(number)
        if self._attempt(owner.starts(owner.agent.work(self.conversations[which % CONVERSATIONS]))):
            self.asleep.append(owner)
            self._owner = None
        else:
            self._attempt(owner.goes_on())

    def is_stopped(self, which: int, number: int) -> None:
        """So it is, and told to stop in good order at its commit of that number."""
        owner = self.owner
        owner.is_cancelled_at(number)
        with suppress(asyncio.CancelledError):
            self._attempt(owner.starts(owner.agent.work(self.conversations[which % CONVERSATIONS])))
            self._attempt(owner.goes_on())
        owner.database.before = None

    def wakes_up(self, number: int) -> None:
        """One that slept goes on with what it was about to store."""
        if self.asleep:
            self._attempt(self.asleep.pop(number % len(self.asleep)).goes_on())

    def leases_end(self) -> None:
        self.run(let_leases_end(self.shop))

    def _attempt(self, work: Any) -> Any:
        """A refusal is an outcome; a death is one of a process, which is left as it lies."""
        try:
            return self.run(work)
        except SupportAgentError:
            return None
        except Died:
            self._owner = None
            return None

    # What people and clocks do.

    def decides(self, number: int, how: str) -> None:
        waiting = [r for r in self._requests() if r.status is S.PENDING_APPROVAL]
        if not waiting:
            return
        request, approvals = waiting[number % len(waiting)], self.shop.container.approvals()

        async def decide() -> Any:
            by = await self.shop.approver("lan")
            return await getattr(approvals, how)(request.id, by=by)

        self._attempt(decide())

    def waits(self, hours: float) -> None:
        self.now += timedelta(hours=hours)
        for clock in self._clocks:
            clock.set(self.now)

    def ticks(self) -> None:
        container = self.shop.container
        self._attempt(container.life().expire_due(container.database()))
        self._attempt(container.payouts().pay_due())
        self._attempt(container.payouts().reconcile())

    def ends(self) -> None:
        """Everybody wakes up, what is under way is ended, and what is unread is answered."""
        while self.asleep:
            self.wakes_up(0)
        for conversation in self.conversations:
            for sent in self.sent.get(conversation, ()):
                self._post(conversation, sent, dies=False)
        for _ in range(MOST_LOOKS):
            self.waits(0.2)
            self.leases_end()
            self.ticks()
            due = self.run(self.shop.read(lambda tx: tx.conversations.due(limit=10)))
            if not due:
                return
            for conversation in due:
                self._attempt(self.owner.agent.work(conversation))
        raise AssertionError("it never comes to an end")

    # What must hold.

    def broken(self, *, at_the_end: bool = False) -> list[str]:
        found = self._promises.broken()
        found += self.run(self.shop.read(lambda tx: list(self._look(tx, at_the_end=at_the_end))))
        return found

    def _look(self, tx: Transaction, *, at_the_end: bool) -> Iterator[str]:
        for conversation in self.conversations:
            messages = tx.conversations.messages(conversation)
            runs = _runs_in(tx, conversation)
            yield from _in_order(messages, runs)
            yield from _once(messages, runs)
            if at_the_end:
                yield from _all_answered(tx, messages, runs)
        for request in tx.requests.list(RequestFilter(), limit=100).data:
            yield from self._consented(tx, request)
            if at_the_end:
                yield from _told(tx, request)

    def _consented(self, tx: Transaction, request: RefundRequest) -> Iterator[str]:
        """What was approved by itself had a yes, from who had seen the quote when saying it."""
        if all(decision.name != "auto" for decision in tx.decisions.of(request.id)):
            return
        run = tx.runs.get(request.run_id or "")
        said = [
            arrived
            for (conversation, seq), arrived in self.arrived.items()
            if run and conversation == request.conversation_id and seq <= run.trigger_seq
        ]
        if not any(one.text == YES and request.quote_id in one.seen for one in said):
            yield f"{request.id} was approved by itself, and nobody had said yes to its quote"

    def _requests(self) -> tuple[RefundRequest, ...]:
        return self.run(
            self.shop.read(lambda tx: tx.requests.list(RequestFilter(), limit=100))
        ).data

    def _seen(self) -> frozenset[str]:
        """Quotes that were shown."""
        statement = sa.select(quotes.c.id).where(quotes.c.shown_seq.is_not(None))
        database = self.shop.container.database()
        return self.run(
            database.run_read(lambda connection: frozenset(connection.execute(statement).scalars()))
        )


def _runs_in(tx: Transaction, conversation: str) -> list[Run]:
    """Oldest first."""
    return [*reversed(tx.runs.list(conversation_id=conversation, limit=1_000, before=None))]


def _in_order(messages: Sequence[Message], runs: Sequence[Run]) -> Iterator[str]:
    if [message.seq for message in messages] != list(range(1, len(messages) + 1)):
        yield f"messages are numbered {[message.seq for message in messages]}"
    read = {
        run.id: [m.seq for m in messages if (m.author, m.run_id) == (Author.CUSTOMER, run.id)]
        for run in runs
    }
    if (flat := [seq for run in runs for seq in read[run.id]]) != sorted(flat):
        yield f"messages were read in the order {flat}"
    answers = [run.answer_seq for run in runs if run.answer_seq]
    if answers != sorted(answers):
        yield f"runs were answered in the order {answers}"


def _once(messages: Sequence[Message], runs: Sequence[Run]) -> Iterator[str]:
    if sum(run.status is RunStatus.RUNNING for run in runs) > 1:
        yield f"two runs of {runs[0].conversation_id} go on at once"
    said = Counter(m.run_id for m in messages if m.author is Author.AGENT)
    yield from (f"{run} answered {times} times" for run, times in said.items() if times > 1)
    told = Counter(m.text for m in messages if m.author is Author.NOTICE)
    yield from (f"{times} times: {text}" for text, times in told.items() if times > 1)


def _all_answered(
    tx: Transaction, messages: Sequence[Message], runs: Sequence[Run]
) -> Iterator[str]:
    for one in messages:
        if one.author is Author.CUSTOMER and one.run_id not in {run.id for run in runs}:
            yield f"message {one.seq} was never read: {one.text}"
    answered = {m.run_id for m in messages if m.author is Author.AGENT}
    for run in runs:
        if run.id not in answered or run.status not in {RunStatus.DONE, RunStatus.WAITING_CUSTOMER}:
            yield f"{run.id} of message {run.trigger_seq} ended as {run.status}: {run.stop_reason}"
        for step in tx.runs.steps(run.id):
            if any(call.observation is None for call in step.calls):
                yield f"a call of step {step.number} of {run.id} was never answered"


def _told(tx: Transaction, request: RefundRequest) -> Iterator[str]:
    """Whoever asked for a refund knows in the end what became of it."""
    heard = [
        m.text
        for m in tx.conversations.messages(request.conversation_id or "")
        if m.author is not Author.CUSTOMER and request.id in m.text
    ]
    words = "Đã hoàn" if request.status is S.REFUNDED else ""
    if not any(words in text for text in heard):
        yield f"{request.id} is {request.status}, and the customer was told {heard}"

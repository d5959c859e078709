"""A customer's conversation about a refund, played by a process that is killed at a counted point.

Everyone else does what they do in life: the channel delivers again what it got no answer for, the
next process takes the conversation over, the clockwork ticks. Then everything that is stored is
held against what is stored when nobody dies.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from support_agent.agent.turns import Incoming
from support_agent.domain.people import customer_principal
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.model import CustomerTurn, ModelRequest, ToolResult, Turn
from tests.agent_kit import FunctionModel
from tests.crashes import PAUSE, Fuse, let_leases_end, opened
from tests.heart import problems, requests_of
from tests.kit import TODAY, Shop, binding_of
from tests.stored import Stored, everything

S = RequestStatus
CUSTOMER = "C001"
ASKED, ANSWERED = "model asked", "model answered"
DECIDED = "after AgentLoop._commit.commit"  # the point at which an answer of the model is kept
GOES_ON = frozenset({S.APPROVED, S.PAYING, S.IN_DOUBT, S.PROVIDER_PENDING})
MOST_ROUNDS = 4


class SensibleModel(FunctionModel):
    """Does what the customer's last words ask for; each call is noted in a file, and is a point.

    It goes by what it is shown and by nothing else, so whoever continues a run gets the same. Where
    it is shown what the process is `killed_by`, the process is gone.
    """

    def __init__(self, notes: Path, fuse: Fuse, *, killed_by: str | None = None) -> None:
        super().__init__(decided)
        self._notes = notes
        self._fuse = fuse
        self._killed_by = killed_by

    async def decide(self, request: ModelRequest) -> Any:
        if self._killed_by is not None and self._killed_by in repr(request.turns):
            os.kill(os.getpid(), signal.SIGKILL)
        with self._notes.open("a") as notes:
            notes.write(f"{request.run_id}:{request.step}\n")
        self._fuse.burn(ASKED)
        await asyncio.sleep(0)  # every real model gives way to other tasks
        reply = await super().decide(request)
        self._fuse.burn(ANSWERED)
        return reply


def decided(request: ModelRequest) -> Any:
    """Calls, or the words to answer with."""
    last = max(i for i, turn in enumerate(request.turns) if isinstance(turn, CustomerTurn))
    said, since = request.turns[last], request.turns[last + 1 :]
    assert isinstance(said, CustomerTurn)
    if any(isinstance(turn, ToolResult) for turn in since):
        return f"Đã xem: {said.text}"
    if order := re.search(r"hoàn tiền đơn (\w+)(?: (\d+) đồng)?", said.text):
        about = {"order_id": order[1]}
        part = {"amount": int(order[2])} if order[2] else {}
        return [("lookup_order", json.dumps(about)), ("quote_refund", json.dumps(about | part))]
    if "đồng ý" in said.text and (quote_id := quoted_in(request.turns)):
        return [("request_refund", json.dumps({"quote_id": quote_id}))]
    return f"Vâng: {said.text}"


def quoted_in(turns: tuple[Turn, ...]) -> str | None:
    """The newest quote that a tool told of."""
    told = [turn.content for turn in turns if isinstance(turn, ToolResult)]
    found = [re.search(r'"quote_id":"(\w+)"', content) for content in told]
    return next((match[1] for match in reversed(found) if match), None)


def message(text: str, conversation: str | None, message_id: str | None = None) -> Incoming:
    binding = binding_of(CUSTOMER)
    # As who takes a turn over says it of the conversation's channel.
    binding = replace(binding, principal=customer_principal(CUSTOMER, via=binding.channel))
    return Incoming(text=text, binding=binding, conversation_id=conversation, message_id=message_id)


Step = Callable[[Shop, str], Awaitable[None]]


def says(text: str, message_id: str) -> Step:
    """The channel posts it, and a worker is woken."""

    async def step(shop: Shop, conversation: str) -> None:
        await shop.container.agent().post(message(text, conversation, message_id))
        await work_off(shop, conversation)

    return step


def asks(text: str, message_id: str) -> Step:
    """Somebody hands it over and waits for the answer."""

    async def step(shop: Shop, conversation: str) -> None:
        await shop.container.agent().take(message(text, conversation, message_id))

    return step


async def work_off(shop: Shop, conversation: str) -> None:
    assert await shop.container.agent().work(conversation) is None


async def approves(shop: Shop, _: str) -> None:
    """Lan approves what waits and pays it at once, as the terminal does."""
    for request in await requests_of(shop):
        if request.status is S.PENDING_APPROVAL:
            by = await shop.approver("lan")
            await shop.container.approvals().approve(request.id, by=by)
            await shop.container.payouts().pay(request.id)


async def ticks(shop: Shop, _: str) -> None:
    await shop.container.life().expire_due(shop.container.database())
    await shop.container.payouts().pay_due()
    await shop.container.payouts().reconcile()


WANTS_SMALL = "Chào shop, hoàn tiền đơn A102 giúp tôi"
WANTS_LARGE = "Chào shop, hoàn tiền đơn A100 giúp tôi"
YES = "đồng ý"
WAITED_FOR = "waited for"
STORIES: dict[str, tuple[Step, ...]] = {
    "automatic": (says(WANTS_SMALL, "m1"), says(YES, "m2"), ticks),
    "approved": (
        says(WANTS_LARGE, "m1"),
        says(YES, "m2"),
        says("Bao giờ thì xong ạ?", "m3"),
        approves,
        ticks,
    ),
    WAITED_FOR: (asks(WANTS_SMALL, "m1"), asks(YES, "m2"), ticks),
}


@asynccontextmanager
async def opened_with_model(
    url: str,
    *,
    notes: str,
    fuse: Fuse,
    later: timedelta = timedelta(),
    killed_by: str | None = None,
) -> AsyncIterator[Shop]:
    """Business time stands still, so that what is said of days and hours is always the same."""
    model = SensibleModel(Path(notes), fuse, killed_by=killed_by)
    async with opened(
        url, gateway=None, fuse=fuse, later=later, now=TODAY, parts={"model": model}
    ) as shop:
        yield shop


async def play_turns(
    url: str, story: str, conversation: str, *, notes: str, at: int | None
) -> list[str]:
    """The story up to point `at`, or to its end: then the points that it has."""
    fuse = Fuse(at)
    async with opened_with_model(url, notes=notes, fuse=fuse) as shop:
        for step in STORIES[story]:
            await step(shop, conversation)
    return fuse.points


async def work_turn(url: str, conversation: str, *, notes: str, killed_by: str) -> None:
    """A worker takes a conversation up."""
    async with opened_with_model(url, notes=notes, fuse=Fuse(), killed_by=killed_by) as shop:
        await work_off(shop, conversation)


async def recover_turns(url: str, story: str, conversation: str, *, notes: str) -> dict[str, Any]:
    """What whoever is left does, all of it again, until nothing is under way; and what is stored.

    The channel cannot know what arrived, and a worker not what was answered.
    """
    for number in range(1, MOST_ROUNDS):
        later = PAUSE * number
        async with opened_with_model(url, notes=notes, fuse=Fuse(), later=later) as shop:
            if number == 1:
                await let_leases_end(shop)
                await work_off(shop, conversation)
            for step in STORIES[story] if number == 1 else (ticks,):
                await step(shop, conversation)
            end = await end_of(shop, notes)
            if not {request.status for request in await requests_of(shop)} & GOES_ON:
                break
    return end


async def end_of(shop: Shop, notes: str) -> dict[str, Any]:
    """Everything that is stored, and how often the model was asked for each step."""
    refunds = [r async for r in shop.container.gateway().refunds_since(TODAY - PAUSE * 10_000)]
    return {
        "stored": await shop.container.database().run_read(everything),
        "refunds": [refund.amount_minor for refund in refunds],
        "due": list(await shop.read(lambda tx: tx.conversations.due(limit=10))),
        "books": [str(wrong) for wrong in await shop.read(lambda tx: tx.books.check())],
        "history": list(await problems(shop)),
        "asked": asked_in(notes),
    }


def asked_in(notes: str) -> list[int]:
    """How often the model was asked for each step of each run, in order of the first time."""
    times: dict[str, int] = {}
    for line in Path(notes).read_text().splitlines() if Path(notes).exists() else ():
        times[line] = times.get(line, 0) + 1
    return list(times.values())


UNDER_WAY = "Yêu cầu req_1 hoàn 120.000\u00a0₫ cho đơn A102 đang được chi trả."
REFUNDED = "Đã hoàn 120.000\u00a0₫ cho đơn A102 về thẻ đã thanh toán (req_1)."


def said(stored: Stored) -> list[tuple[str, str]]:
    """Who said what, in order."""
    messages = [json.loads(row) for row in stored["messages"]]
    return [(message["author"], message["text"]) for message in messages]


def said_in_between(told: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """As `said` when a payout was left under way: the answer says so, and a notice how it ended."""
    author, text = told[-1]
    if author == "notice":
        return told
    return [*told[:-1], (author, text.replace(REFUNDED, UNDER_WAY)), ("notice", REFUNDED)]

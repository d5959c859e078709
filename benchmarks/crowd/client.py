"""The crowd itself: `python -m benchmarks.crowd.client --stories 200`, configured by environment.

Posts turn k + 1 when turn k is answered, approves what waits for an approver, and does again what
the database did not confirm, as a channel does. Prints one JSON line at its end.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import sqlalchemy as sa

from benchmarks.crowd.talk import Kind, Said, Story, stories
from support_agent import Container, Incoming, open_container
from support_agent.domain.errors import AlreadyDecided, DatabaseUnavailable, OrdersUnavailable
from support_agent.domain.people import Principal
from support_agent.ports.storage import RequestFilter

T = TypeVar("T")
POLL_S = 0.03
AGAIN_S = 0.2
APPROVERS = ("lan", "minh")
YES_TURN = 2
_ANSWERED = sa.text(
    "SELECT m.channel_message_id FROM messages m JOIN runs r ON r.id = m.run_id "
    "WHERE r.status <> 'running' AND m.conversation_id IN :conversations "
    "AND m.channel_message_id IN :messages"
).bindparams(
    sa.bindparam("conversations", expanding=True), sa.bindparam("messages", expanding=True)
)


async def persistent(work: Callable[[], Awaitable[T]]) -> T:
    """The result, after as many tries as the database needs to come back."""
    while True:
        try:
            return await work()
        except (DatabaseUnavailable, OrdersUnavailable):
            await asyncio.sleep(AGAIN_S)


class Crowd:
    """Everybody's conversations, side by side."""

    def __init__(self, container: Container, think_s: float) -> None:
        self._think_s = think_s
        self._agent = container.agent()
        self._approvals = container.approvals()
        self._database = container.database()
        self._waiting: dict[str, tuple[str, asyncio.Future[None]]] = {}
        self.problems: list[str] = []
        self.posts = self.duplicates = 0

    async def talk(self, crowd: tuple[Story, ...]) -> None:
        watching = asyncio.create_task(self._watch())
        by = [
            await persistent(lambda name=name: self._approvals.prove(name, None, via="crowd"))
            for name in APPROVERS
        ]
        talking = (self._story(one, by[one.number // 10 % len(by)]) for one in crowd)
        await asyncio.gather(*talking)
        watching.cancel()

    async def _story(self, story: Story, approver: Principal) -> None:
        conversation = await self._open(story)
        for number, together in enumerate(story.turns):
            for said in together:
                await self._deliver(story, said, conversation)
            await asyncio.gather(*(self._answer_to(said, conversation) for said in together))
            if number == YES_TURN and story.kind is Kind.APPROVED:
                await self._approve(story, approver)
            # Each in a time of its own, from half as long to one and a half times.
            await asyncio.sleep(self._think_s * (0.5 + story.number * 37 % 100 / 100))

    async def _open(self, story: Story) -> str:
        """A new conversation, begun by the first message; its id."""
        incoming = _incoming(story, story.turns[0][0], None)
        posted = await persistent(lambda: self._agent.post(incoming))
        self.posts += 1
        self.duplicates += posted.is_known  # the database took it and was gone before it said so
        return posted.conversation_id

    async def _deliver(self, story: Story, said: Said, conversation: str) -> None:
        """As often as the channel does, at the same time."""
        incoming = _incoming(story, said, conversation)
        posted = await asyncio.gather(
            *(persistent(lambda: self._agent.post(incoming)) for _ in range(said.deliveries))
        )
        self.posts += len(posted)
        self.duplicates += sum(one.is_known for one in posted)
        if len({(one.conversation_id, one.seq) for one in posted}) > 1:
            self.problems.append(f"{said.id} delivered twice has two numbers: {posted}")

    async def _answer_to(self, said: Said, conversation: str) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[said.id] = conversation, waiting
        await waiting

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if not self._waiting:
                continue
            asked = {
                "conversations": [conversation for conversation, _ in self._waiting.values()],
                "messages": [*self._waiting],
            }
            rows = await persistent(
                lambda asked=asked: self._database.run_read(
                    lambda c: c.execute(_ANSWERED, asked).scalars().all()
                )
            )
            for message_id in rows:
                self._waiting.pop(message_id)[1].set_result(None)

    async def _approve(self, story: Story, by: Principal) -> None:
        mine = RequestFilter(order_id=story.order_id)
        page = await persistent(
            lambda: self._database.read(lambda tx: tx.requests.list(mine, limit=2))
        )
        for request in page.data:
            try:
                await persistent(lambda: self._approvals.approve(request.id, by=by))  # noqa: B023 - awaited here
            except AlreadyDecided:
                continue  # it was, though nobody was told
        if len(page.data) != 1:
            self.problems.append(f"{len(page.data)} requests for order {story.order_id}")


def _incoming(story: Story, said: Said, conversation: str | None) -> Incoming:
    return Incoming(
        text=said.text,
        binding=story.binding,
        conversation_id=conversation,
        message_id=said.id,
    )


async def run(count: int, think_s: float) -> str:
    async with open_container() as container:
        crowd = Crowd(container, think_s)
        started, cpu = time.time(), time.process_time()
        await crowd.talk(stories(count))
        told = {
            "started": started,
            "seconds": time.time() - started,
            "cpu": time.process_time() - cpu,
            "posts": crowd.posts,
            "duplicates": crowd.duplicates,
            "problems": crowd.problems,
        }
        return json.dumps(told, ensure_ascii=False)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--stories", type=int, default=200, help="how many conversations")
    options.add_argument("--think", type=float, default=0, help="seconds before the next turn")
    chosen = options.parse_args()
    print(asyncio.run(run(chosen.stories, chosen.think)), flush=True)


if __name__ == "__main__":
    main()

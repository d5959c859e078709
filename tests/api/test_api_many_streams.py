"""A thousand streams of one process: one look a round for all of them, and each hears its own."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Assurance, Author, Conversation
from tests.api_kit import HOST, opened_api
from tests.kit import TODAY
from tests.queue_kit import eventually
from tests.sse_kit import open_streams, served

MANY = 1_000
POLL_S = 0.25
MOST_PER_ROUND = 12  # statements: two of the things, one of the keys, and the proof of each key


def talk(number: int) -> Conversation:
    return Conversation(
        id=f"con_{number:04}",
        channel="zalo",
        account="oa_1",
        external_contact="C001",
        customer_id="C001",
        assurance=Assurance.VERIFIED,
        language="vi",
        created_at=TODAY,
    )


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is asked of any database within the block, without transactions' own."""
    asked: list[str] = []

    def note(*event: object) -> None:
        asked.append(str(event[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


async def until_open(
    address: str, path: str, who: dict[str, str], slots: asyncio.Semaphore
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream as a browser has it, its head and greeting read."""
    at = urlsplit(address)
    async with slots:
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        lines = [f"GET {path} HTTP/1.1", "Host: api", *(f"{k}: {v}" for k, v in who.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = await reader.readuntil(b"events follow\n\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader, writer


@pytest.fixture
async def api(shop_url):
    limits = {"stream_poll_seconds": POLL_S, "rate_per_minute": 100_000}
    async with opened_api(shop_url, api=limits) as opened:
        await opened.shop.write(
            lambda tx: [tx.conversations.add(talk(number)) for number in range(MANY)]
        )
        yield opened


async def test_a_thousand_streams_ask_the_database_once_a_round(api):
    staff = await api.staff(Scope.CONVERSATIONS_READ)
    slots = asyncio.Semaphore(50)
    async with served(api.app) as address:
        streams = await asyncio.gather(
            *(
                until_open(address, f"/v1/conversations/con_{number:04}/events", staff, slots)
                for number in range(MANY)
            )
        )
        assert open_streams(api) == MANY
        await asyncio.sleep(2 * POLL_S)  # so that none is looked at for the first time any more
        with statements() as asked:
            await asyncio.sleep(4 * POLL_S)
        rounds = sum("conversations.next_seq" in statement for statement in asked)

        await api.shop.write(
            lambda tx: tx.conversations.append(
                "con_0007", author=Author.NOTICE, text="Đã hoàn tiền", at=TODAY, run_id=None
            )
        )
        heard = await asyncio.wait_for(streams[7][0].readuntil(b"\n\n"), 5)
        (key,) = await api.shop.read(lambda tx: tx.api_keys.of_name("conversations-read"))
        await api.shop.container.api_keys().revoke(key.id, by=HOST)
        await eventually(lambda: not open_streams(api))
        for _, writer in streams:
            writer.close()

    assert 1 <= rounds <= 5
    assert len(asked) <= rounds * MOST_PER_ROUND
    assert "Đã hoàn tiền".encode() in heard

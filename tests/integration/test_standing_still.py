"""A process that stands still in the middle of a transaction does not keep the others waiting."""

import asyncio
import threading
from contextlib import aclosing

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.conversation import Assurance, Author, Conversation
from support_agent.domain.errors import DatabaseUnavailable
from tests.kit import TODAY

PATIENCE_S = 30.0
BUSY_S = 2  # a lock is waited for that long, and a transaction may stand still for half of it
CONVERSATION = Conversation(
    id="con_1",
    channel="cli",
    account="local",
    external_contact="C001",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    language="vi",
    created_at=TODAY,
)


def say(tx, text):
    return tx.conversations.append(
        CONVERSATION.id, author=Author.NOTICE, text=text, at=TODAY, run_id=None
    )


async def test_who_stands_still_loses_its_locks_and_is_told_when_it_goes_on(postgres_url, keys):
    has_the_lock, goes_on = threading.Event(), threading.Event()

    def stand_still(tx):
        say(tx, "lost")
        has_the_lock.set()
        assert goes_on.wait(PATIENCE_S)
        say(tx, "never said")

    async with (
        aclosing(SqlDatabase(postgres_url, keys, busy_timeout_s=BUSY_S)) as stopped,
        aclosing(SqlDatabase(postgres_url, keys, busy_timeout_s=BUSY_S)) as other,
    ):
        await other.transact(lambda tx: tx.conversations.add(CONVERSATION))
        standing = asyncio.create_task(stopped.transact(stand_still))
        assert await asyncio.to_thread(has_the_lock.wait, PATIENCE_S)
        try:
            assert await other.transact(lambda tx: say(tx, "first")) == 1
        finally:
            goes_on.set()
        with pytest.raises(DatabaseUnavailable):
            await standing
        assert await stopped.transact(lambda tx: say(tx, "second")) == 2  # it has new connections

"""The inbox: what is unread, who has read it, and which conversations somebody has to look at."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.conversation import Assurance, Author, Conversation
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.runs import Run, RunStatus
from support_agent.ports.storage import Received, Sender, Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
CONVERSATION = Conversation(
    id="con_1",
    channel="chat",
    account="shop",
    external_contact="0901",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    language="vi",
    created_at=NOW,
)
MESSAGE = Received(
    conversation_id="con_1",
    text="Đơn A100?",
    at=NOW,
    message_id=None,
    operator="lan",
    assurance=Assurance.CLAIMED,
    run_id=None,
)
SENDER = Sender(
    channel="chat",
    account="shop",
    external_contact="0901",
    customer_id="C001",
    conversation_id=None,
)
RUN = Run(
    id="run_1",
    conversation_id="con_1",
    trigger_seq=1,
    status=RunStatus.RUNNING,
    stop_reason=None,
    operator=None,
    started_at=NOW,
    assurance=Assurance.VERIFIED,
    epoch=1,
)


@pytest.fixture
async def inbox(database: SqlDatabase) -> SqlDatabase:
    await database.transact(lambda tx: tx.conversations.add(CONVERSATION))
    return database


def receive(**changes: object):
    return lambda tx: tx.conversations.receive(replace(MESSAGE, **changes))


async def due(database: SqlDatabase, after: str | None = None, limit: int = 10):
    return await database.read(lambda tx: tx.conversations.due(limit=limit, after=after))


async def test_a_message_is_unread_until_a_run_reads_it(inbox):
    assert await inbox.transact(receive()) == 1
    assert await inbox.transact(receive(text="Alo?", operator=None)) == 2

    first, second = await inbox.read(lambda tx: tx.conversations.unread("con_1"))
    assert (first.seq, first.text, first.operator) == (1, "Đơn A100?", "lan")
    assert first.assurance is Assurance.CLAIMED
    assert first.at == NOW
    assert first.waited_s >= second.waited_s >= 0

    def read_through(seq: int):
        return lambda tx: tx.conversations.mark_read(
            "con_1", run_id="r", through_seq=seq, last_seq=2
        )

    await inbox.transact(read_through(1))
    (left,) = await inbox.read(lambda tx: tx.conversations.unread("con_1"))
    assert left.seq == 2
    await inbox.transact(read_through(2))

    assert await inbox.read(lambda tx: tx.conversations.unread("con_1")) == ()
    read = await inbox.read(lambda tx: tx.conversations.messages("con_1"))
    assert [(message.run_id, message.read_seq) for message in read] == [("r", 2), ("r", 2)]


async def test_what_is_read_as_it_comes_is_never_unread(inbox):
    await inbox.transact(receive(run_id="run_1"))

    assert await inbox.read(lambda tx: tx.conversations.unread("con_1")) == ()
    assert await due(inbox) == ()


async def test_what_others_write_is_not_for_the_inbox(inbox):
    for author in (Author.AGENT, Author.NOTICE, Author.STAFF):
        await inbox.transact(
            lambda tx, author=author: tx.conversations.append(
                "con_1", author=author, text="…", at=NOW, run_id=None
            )
        )
    assert await due(inbox) == ()


async def test_a_message_to_nowhere_is_refused(database):
    with pytest.raises(ConversationNotFound):
        await database.transact(receive())


async def test_a_message_is_known_by_its_senders_id_alone(inbox):
    await inbox.transact(receive(message_id="m-1"))
    other = replace(CONVERSATION, id="con_2", external_contact="0902")
    await inbox.transact(lambda tx: tx.conversations.add(other))

    def known(sender: Sender, message_id: str = "m-1"):
        return inbox.transact(lambda tx: tx.conversations.delivered(sender, message_id))

    found = await known(SENDER)
    assert found is not None
    assert (found.conversation_id, found.seq) == ("con_1", 1)
    assert await known(replace(SENDER, conversation_id="con_1")) == found
    assert await known(replace(SENDER, conversation_id="con_2")) is None
    assert await known(replace(SENDER, external_contact="0902")) is None
    assert await known(replace(SENDER, customer_id="C002")) is None
    assert await known(SENDER, "m-2") is None


async def test_a_conversation_is_due_while_nobody_has_what_is_unread_in_it(inbox):
    assert await due(inbox) == ()
    await inbox.transact(receive())
    assert await due(inbox) == ("con_1",)

    claim = await inbox.transact(lambda tx: tx.conversations.claim("con_1", lease_s=60))
    assert claim is not None
    assert claim.has_unread
    assert await due(inbox) == ()

    released = await inbox.transact(lambda tx: tx.conversations.release("con_1", epoch=1))
    assert released is not None
    assert released.has_unread
    assert await due(inbox) == ("con_1",)


async def test_a_conversation_is_due_when_the_owner_of_its_run_is_gone(inbox):
    def begin(tx: Transaction) -> None:
        tx.conversations.claim("con_1", lease_s=-1)
        tx.runs.start(RUN)

    await inbox.transact(begin)
    assert await due(inbox) == ("con_1",)

    claim = await inbox.transact(lambda tx: tx.conversations.claim("con_1", lease_s=60))
    assert claim is not None
    assert claim.has_orphan
    assert await due(inbox) == ()


async def test_what_is_due_comes_in_pages(inbox):
    for number in range(2, 6):
        other = replace(CONVERSATION, id=f"con_{number}")
        await inbox.transact(lambda tx, other=other: tx.conversations.add(other))
        await inbox.transact(receive(conversation_id=other.id))

    assert await due(inbox, limit=2) == ("con_2", "con_3")
    assert await due(inbox, after="con_3") == ("con_4", "con_5")


async def test_how_long_what_is_unread_waits_is_told_by_the_database(inbox):
    assert await inbox.read(lambda tx: tx.conversations.waiting("con_9")) is None
    nothing = await inbox.read(lambda tx: tx.conversations.waiting("con_1"))
    assert (nothing.newest_s, nothing.oldest_s, nothing.is_running) == (None, None, False)
    assert nothing.left_s == 0

    await inbox.transact(receive())
    await inbox.transact(receive())
    await inbox.transact(lambda tx: tx.conversations.claim("con_1", lease_s=60))

    waiting = await inbox.read(lambda tx: tx.conversations.waiting("con_1"))
    assert 0 <= waiting.newest_s <= waiting.oldest_s < 60
    assert 0 < waiting.left_s <= 60


async def test_a_message_that_has_no_time_waits_since_long(inbox):
    """After a downgrade, which drops the column, and an upgrade."""
    await inbox.transact(receive())
    await inbox.run_write(lambda c: c.exec_driver_sql("UPDATE messages SET posted_at = NULL"))

    waiting = await inbox.read(lambda tx: tx.conversations.waiting("con_1"))

    assert waiting.newest_s > 1_000_000
    assert waiting.oldest_s > 1_000_000

"""Conversations and messages: what goes in comes back, once and in order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.conversation import (
    Assurance,
    Author,
    Claim,
    Conversation,
    Message,
    Released,
)
from support_agent.domain.errors import ConversationNotFound
from support_agent.ports.storage import Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
CONVERSATION = Conversation(
    id="conv_1",
    channel="cli",
    account="default",
    external_contact="terminal",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    language="vi",
    created_at=NOW,
)


@pytest.fixture
async def talk(database: SqlDatabase) -> SqlDatabase:
    """A database with one conversation."""
    await database.transact(lambda tx: tx.conversations.add(CONVERSATION))
    return database


@pytest.mark.parametrize(
    "conversation",
    [
        CONVERSATION,
        replace(CONVERSATION, customer_id=None, assurance=Assurance.NONE, language="en", epoch=3),
        replace(CONVERSATION, assurance=Assurance.CLAIMED, external_contact="Nguyễn Thị Đào"),
    ],
)
async def test_a_conversation_comes_back_as_added(conversation, database):
    await database.transact(lambda tx: tx.conversations.add(conversation))

    assert await database.read(lambda tx: tx.conversations.get("conv_1")) == conversation
    assert await database.read(lambda tx: tx.conversations.get("CONV_1")) is None


async def test_conversations_are_listed_newest_first_page_by_page(database):
    def fill(tx: Transaction) -> None:
        for n in range(5):
            customer = "C001" if n % 2 else "C002"
            tx.conversations.add(replace(CONVERSATION, id=f"conv_{n}", customer_id=customer))

    await database.transact(fill)

    def page(customer_id: str | None, before: str | None):
        def look(tx: Transaction) -> list[str]:
            found = tx.conversations.list(customer_id=customer_id, limit=2, before=before)
            return [conversation.id for conversation in found]

        return database.read(look)

    assert await page(None, None) == ["conv_4", "conv_3"]
    assert await page(None, "conv_3") == ["conv_2", "conv_1"]
    assert await page(None, "conv_1") == ["conv_0"]
    assert await page("C001", None) == ["conv_3", "conv_1"]
    assert await page("C001", "conv_1") == []


async def test_the_language_may_change_and_a_person_takes_over_once(talk):
    await talk.transact(lambda tx: tx.conversations.set_language("conv_1", "en"))

    assert await talk.transact(lambda tx: tx.conversations.hand_off("conv_1")) is True
    assert await talk.transact(lambda tx: tx.conversations.hand_off("conv_1")) is False
    assert await talk.transact(lambda tx: tx.conversations.hand_off("nowhere")) is False

    stored = await talk.read(lambda tx: tx.conversations.get("conv_1"))
    assert stored == replace(CONVERSATION, language="en", handed_off=True)


def say(text: str, *, author: Author = Author.CUSTOMER, conversation_id: str = "conv_1"):
    def work(tx: Transaction) -> int:
        return tx.conversations.append(
            conversation_id, author=author, text=text, at=NOW, run_id=None
        )

    return work


async def test_messages_are_numbered_within_their_conversation(talk):
    await talk.transact(lambda tx: tx.conversations.add(replace(CONVERSATION, id="conv_2")))

    numbers = [
        await talk.transact(say("Đơn A100 của tôi?")),
        await talk.transact(say("Chào", conversation_id="conv_2")),
        await talk.transact(say("Đã giao.", author=Author.AGENT)),
    ]

    assert numbers == [1, 1, 2]
    assert await talk.read(lambda tx: tx.conversations.messages("conv_1")) == (
        Message(
            conversation_id="conv_1",
            seq=1,
            author=Author.CUSTOMER,
            text="Đơn A100 của tôi?",
            at=NOW,
        ),
        Message(conversation_id="conv_1", seq=2, author=Author.AGENT, text="Đã giao.", at=NOW),
    )
    later = await talk.read(lambda tx: tx.conversations.messages("conv_1", after_seq=1))
    assert [message.seq for message in later] == [2]


async def test_a_message_that_is_undone_leaves_no_gap(talk):
    def fails(tx: Transaction) -> None:
        say("mất")(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await talk.transact(fails)

    assert await talk.transact(say("còn")) == 1


async def test_a_message_to_no_conversation_is_an_error(database):
    with pytest.raises(ConversationNotFound, match="'conv_1'"):
        await database.transact(say("?"))


def claimed(epoch: int) -> Claim:
    return Claim(epoch=epoch, has_orphan=False, has_unread=False)


def claim(lease_s: float):
    return lambda tx: tx.conversations.claim("conv_1", lease_s=lease_s)


async def test_a_conversation_has_one_owner_at_a_time(talk):
    assert await talk.transact(claim(60)) == claimed(1)
    assert await talk.transact(claim(60)) is None

    assert await talk.transact(lambda tx: tx.conversations.release("conv_1", epoch=1)) == Released(
        handed_off=False, has_unread=False
    )
    assert await talk.transact(claim(60)) == claimed(2)


async def test_an_owner_may_take_again_what_it_holds_itself(talk):
    assert await talk.transact(claim(60)) == claimed(1)

    def again(held: int):
        return lambda tx: tx.conversations.claim("conv_1", lease_s=60, held=held)

    assert await talk.transact(again(7)) is None
    assert await talk.transact(again(1)) == claimed(2)
    assert await talk.transact(again(1)) is None  # not any more


async def test_a_lease_that_ran_out_may_be_taken_and_the_late_owner_is_told(talk):
    assert await talk.transact(claim(-0.001)) == claimed(1)  # over as soon as it is given
    assert await talk.transact(claim(60)) == claimed(2)

    assert await talk.transact(lambda tx: tx.conversations.release("conv_1", epoch=1)) is None
    assert await talk.transact(claim(60)) is None


async def test_nobody_claims_what_is_not_there(database):
    assert await database.transact(claim(60)) is None


async def test_a_question_is_answered_once_the_customer_writes_after_it(talk: SqlDatabase):
    asked, answered = ("conv_1", LATER), ("conv_1", NOW)

    def say(author: Author, at: datetime):
        return talk.transact(
            lambda tx: tx.conversations.append(
                "conv_1", author=author, text="…", at=at, run_id=None
            )
        )

    await say(Author.STAFF, NOW)
    await say(Author.CUSTOMER, NOW)
    await say(Author.STAFF, LATER)
    questions = [asked, answered, ("conv_2", NOW), ("conv_1", NOW - timedelta(seconds=1))]

    found = await talk.read(lambda tx: tx.conversations.answered(questions))

    assert found == {answered}

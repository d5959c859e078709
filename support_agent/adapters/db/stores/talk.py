"""Conversations and their messages in SQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.tables.talk import ConversationRow, MessageRow
from support_agent.adapters.db.types import made_storable
from support_agent.domain.conversation import Assurance, Author, Conversation, Message
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.reasons import Language
from support_agent.ports.storage.talk import Question

conversations = table_of(ConversationRow)
messages = table_of(MessageRow)

_ID = conversations.c.id == sa.bindparam("id_")

# The update that counts also locks the row, so that two messages never share a number.
_COUNT = Prepared(
    sa.update(conversations)
    .where(_ID)
    .values(next_seq=conversations.c.next_seq + 1)
    .returning(conversations.c.next_seq - 1)
)
_CLAIM = Prepared(
    sa.update(conversations)
    .where(
        _ID,
        sa.or_(
            conversations.c.lease_until.is_(None),
            conversations.c.lease_until <= database_seconds(),
        ),
    )
    .values(
        epoch=conversations.c.epoch + 1,
        lease_until=database_seconds() + sa.bindparam("lease_s", type_=sa.Double),
    )
    .returning(conversations.c.epoch)
)
_RELEASE = Prepared(
    sa.update(conversations)
    .where(_ID, conversations.c.epoch == sa.bindparam("epoch_"))
    .values(lease_until=None)
)
_ADD = Prepared(
    sa.insert(conversations).inline(),
    columns=(
        *("id", "channel", "account", "external_contact", "customer_id", "assurance", "language"),
        *("created_at", "epoch"),
    ),
)
_GET = Prepared(sa.select(conversations).where(_ID))
_APPEND = Prepared(
    sa.insert(messages).inline(),
    columns=("conversation_id", "seq", "author", "text", "at", "run_id"),
)
_MESSAGES = Prepared(
    sa.select(messages)
    .where(
        messages.c.conversation_id == sa.bindparam("id_"),
        messages.c.seq > sa.bindparam("after_seq"),
    )
    .order_by(messages.c.seq)
)
_HAND_OFF = (
    sa.update(conversations)
    .where(_ID, conversations.c.handed_off_at.is_(None))
    .values(handed_off_at=database_seconds())
)
_GIVE_BACK = (
    sa.update(conversations)
    .where(_ID, conversations.c.handed_off_at.is_not(None))
    .values(handed_off_at=None)
)


class SqlConversations:
    """Messages are numbered in the conversation's row; leases run by the database's clock."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, conversation: Conversation) -> None:
        _ADD.run(
            self._connection,
            {
                "id": conversation.id,
                "channel": conversation.channel,
                "account": conversation.account,
                "external_contact": conversation.external_contact,
                "customer_id": conversation.customer_id,
                "assurance": int(conversation.assurance),
                "language": conversation.language,
                "created_at": conversation.created_at,
                "epoch": conversation.epoch,
            },
        )

    def get(self, conversation_id: str) -> Conversation | None:
        if not storable(conversation_id):
            return None
        row = _GET.first(self._connection, {"id_": conversation_id})
        return None if row is None else _conversation(row)

    def list(
        self, *, customer_id: str | None, limit: int, before: str | None
    ) -> tuple[Conversation, ...]:
        statement = sa.select(conversations).order_by(conversations.c.id.desc()).limit(limit)
        if customer_id is not None:
            statement = statement.where(conversations.c.customer_id == customer_id)
        if before is not None:
            statement = statement.where(conversations.c.id < before)
        return tuple(_conversation(row) for row in self._connection.execute(statement))

    def append(
        self, conversation_id: str, *, author: Author, text: str, at: datetime, run_id: str | None
    ) -> int:
        """Number it and write it.

        Raises:
            ConversationNotFound: there is none to append to.
        """
        seq = _COUNT.value(self._connection, {"id_": conversation_id})
        if seq is None:
            raise ConversationNotFound(conversation_id)
        _APPEND.run(
            self._connection,
            {
                "conversation_id": conversation_id,
                "seq": seq,
                "author": author,
                "text": made_storable(text),
                "at": at,
                "run_id": run_id,
            },
        )
        return int(seq)

    def messages(self, conversation_id: str, *, after_seq: int = 0) -> tuple[Message, ...]:
        parameters = {"id_": conversation_id, "after_seq": after_seq}
        return tuple(_message(row) for row in _MESSAGES.all(self._connection, parameters))

    def answered(self, questions: Sequence[Question]) -> frozenset[Question]:
        answer = messages.alias("answer")
        written = sa.exists().where(
            answer.c.conversation_id == messages.c.conversation_id,
            answer.c.author == Author.CUSTOMER,
            answer.c.seq > messages.c.seq,
        )
        found = self._connection.execute(
            sa.select(messages.c.conversation_id, messages.c.at).where(
                messages.c.conversation_id.in_({conversation for conversation, _ in questions}),
                messages.c.author == Author.STAFF,
                written,
            )
        )
        return frozenset(questions) & {(row.conversation_id, row.at) for row in found}

    def set_language(self, conversation_id: str, language: Language) -> None:
        self._connection.execute(
            sa.update(conversations)
            .where(conversations.c.id == conversation_id)
            .values(language=language)
        )

    def claim(self, conversation_id: str, *, lease_s: float) -> int | None:
        parameters = {"id_": conversation_id, "lease_s": lease_s}
        epoch: int | None = _CLAIM.value(self._connection, parameters)
        return epoch

    def release(self, conversation_id: str, *, epoch: int) -> bool:
        parameters = {"id_": conversation_id, "epoch_": epoch}
        return _RELEASE.run(self._connection, parameters) == 1

    def hand_off(self, conversation_id: str) -> bool:
        return self._connection.execute(_HAND_OFF, {"id_": conversation_id}).rowcount == 1

    def give_back(self, conversation_id: str) -> bool:
        return self._connection.execute(_GIVE_BACK, {"id_": conversation_id}).rowcount == 1


def _conversation(row: sa.Row[*tuple[Any, ...]]) -> Conversation:
    return Conversation(
        id=row.id,
        channel=row.channel,
        account=row.account,
        external_contact=row.external_contact,
        customer_id=row.customer_id,
        assurance=Assurance(row.assurance),
        language=cast("Language", row.language),
        created_at=row.created_at,
        handed_off=row.handed_off_at is not None,
        epoch=row.epoch,
    )


def _message(row: sa.Row[*tuple[Any, ...]]) -> Message:
    return Message(
        conversation_id=row.conversation_id,
        seq=row.seq,
        author=Author(row.author),
        text=row.text,
        at=row.at,
        run_id=row.run_id,
    )

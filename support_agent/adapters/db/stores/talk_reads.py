"""What is read of conversations and their messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa

from support_agent.adapters.db.statements import marks, storable, table_of
from support_agent.adapters.db.stores.talk_statements import (
    GET,
    IS_RUNNING,
    IS_UNREAD,
    MESSAGE,
    MESSAGES,
    MESSAGES_PAGE,
    NOBODY_HAS_IT,
    PROGRESS,
    UNREAD_IN,
    WAITING,
    conversations,
    messages,
    runs,
)
from support_agent.adapters.db.tables.trail import AuditEventRow
from support_agent.domain.audit import RUN_RESUMED
from support_agent.domain.conversation import (
    Assurance,
    Author,
    Conversation,
    Message,
    Unread,
    Waiting,
)
from support_agent.domain.people import PrincipalKind
from support_agent.domain.preferences import known_of
from support_agent.domain.reasons import Language
from support_agent.ports.storage.talk import Mark, Question, Sender

events = table_of(AuditEventRow)


class ConversationReads:
    """Changes nothing."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, conversation_id: str) -> Conversation | None:
        if not storable(conversation_id):
            return None
        row = GET.first(self._connection, {"id_": conversation_id})
        return None if row is None else _conversation(row)

    def list(
        self,
        *,
        customer_id: str | None,
        limit: int,
        before: str | None,
        handed_off: bool = False,
        sender: Sender | None = None,
        at_most: Assurance = Assurance.VERIFIED,
    ) -> tuple[Conversation, ...]:
        statement = sa.select(conversations).order_by(conversations.c.id.desc()).limit(limit)
        if sender is not None:
            statement = statement.where(
                conversations.c.channel == sender.channel,
                conversations.c.account == sender.account,
                conversations.c.external_contact == sender.external_contact,
                conversations.c.customer_id == sender.customer_id,
                conversations.c.erased_at.is_(None),
            )
        if at_most is not Assurance.VERIFIED:
            statement = statement.where(conversations.c.assurance <= int(at_most))
        if handed_off:
            statement = statement.where(conversations.c.handed_off_at.is_not(None))
        if customer_id is not None:
            if not storable(customer_id):
                return ()
            statement = statement.where(conversations.c.customer_id == customer_id)
        if before is not None:
            statement = statement.where(conversations.c.id < before)
        return tuple(_conversation(row) for row in self._connection.execute(statement))

    def unread(self, conversation_id: str) -> tuple[Unread, ...]:
        rows = UNREAD_IN.all(self._connection, {"id_": conversation_id})
        return tuple(_unread(row) for row in rows)

    def message(self, conversation_id: str, seq: int) -> Message | None:
        row = MESSAGE.first(self._connection, {"id_": conversation_id, "seq_": seq})
        return None if row is None else message_of(row)

    def operators(self, conversation_id: str) -> frozenset[str]:
        """Of messages that are older than their column the run says it.

        Its row knows the last who went on with it; the history knows all of them.
        """
        here = runs.c.conversation_id == conversation_id
        resumed = sa.and_(
            events.c.subject.in_(sa.select(runs.c.id).where(here)),
            events.c.action == RUN_RESUMED,
            events.c.actor_kind == PrincipalKind.OPERATOR,
        )
        found = sa.union(
            sa.select(messages.c.operator).where(messages.c.conversation_id == conversation_id),
            sa.select(runs.c.operator).where(here),
            sa.select(events.c.actor_id).where(resumed),
        )
        return frozenset(filter(None, self._connection.execute(found).scalars()))

    def due(self, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        waiting = sa.union(
            sa.select(messages.c.conversation_id).where(IS_UNREAD),
            sa.select(runs.c.conversation_id).where(IS_RUNNING),
        ).subquery()
        statement = (
            sa.select(conversations.c.id)
            .join(waiting, waiting.c.conversation_id == conversations.c.id)
            .where(NOBODY_HAS_IT)
            .order_by(conversations.c.id)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(conversations.c.id > after)
        return tuple(self._connection.execute(statement).scalars())

    def waiting(self, conversation_id: str) -> Waiting | None:
        row = WAITING.first(self._connection, {"id_": conversation_id})
        if row is None:
            return None
        return Waiting(
            left_s=row.left_s,
            is_running=bool(row.is_running),
            newest_s=row.newest_s,
            oldest_s=row.oldest_s,
        )

    def messages(
        self, conversation_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> tuple[Message, ...]:
        here = {"id_": conversation_id, "after_seq": after_seq}
        if limit is None:
            rows = MESSAGES.all(self._connection, here)
        else:
            rows = MESSAGES_PAGE.all(self._connection, {**here, "most": limit})
        return tuple(message_of(row) for row in rows)

    def progress(self, conversation_ids: Collection[str]) -> Mapping[str, Mark]:
        return marks(self._connection, PROGRESS, conversation_ids)

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
        last_seq=row.next_seq - 1,
        known=known_of(row.known),
        erased=row.erased_at is not None,
    )


def _unread(row: sa.Row[*tuple[Any, ...]]) -> Unread:
    return Unread(
        seq=row.seq,
        text=row.text,
        at=row.at,
        operator=row.operator,
        assurance=Assurance(row.assurance or 0),
        waited_s=row.waited_s or 0.0,
    )


def message_of(row: sa.Row[*tuple[Any, ...]]) -> Message:
    """The message that a row holds."""
    return Message(
        conversation_id=row.conversation_id,
        seq=row.seq,
        author=Author(row.author),
        text=row.text,
        at=row.at,
        run_id=row.run_id,
        read_seq=row.read_seq,
        assurance=None if row.assurance is None else Assurance(row.assurance),
    )

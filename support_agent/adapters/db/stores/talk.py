"""Conversations and their messages in SQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.statements import marks, storable, table_of
from support_agent.adapters.db.stores.talk_statements import (
    ADD,
    APPEND,
    CLAIM,
    COUNT,
    GET,
    GIVE_BACK,
    HAND_OFF,
    HOLD,
    IS_RUNNING,
    IS_UNREAD,
    MARK_READ,
    MESSAGE,
    MESSAGES,
    MESSAGES_PAGE,
    NOBODY_HAS_IT,
    PROGRESS,
    RECEIVE,
    RELEASE,
    SEIZE,
    UNREAD_IN,
    WAITING,
    conversations,
    messages,
    runs,
)
from support_agent.adapters.db.tables.trail import AuditEventRow
from support_agent.adapters.db.types import made_storable
from support_agent.domain.audit import RUN_RESUMED
from support_agent.domain.conversation import (
    Assurance,
    Author,
    Claim,
    Conversation,
    Message,
    Released,
    Unread,
    Waiting,
)
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.people import PrincipalKind
from support_agent.domain.preferences import Known, known_of, written
from support_agent.domain.reasons import Language
from support_agent.domain.runs import RunStatus
from support_agent.ports.storage.talk import Mark, Question, Received, Sender

events = table_of(AuditEventRow)


class SqlConversations:
    """Messages are numbered in the conversation's row; leases run by the database's clock."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, conversation: Conversation) -> None:
        is_sure = conversation.assurance is Assurance.VERIFIED
        ADD.run(
            self._connection,
            {
                "id": conversation.id,
                "channel": conversation.channel,
                "account": conversation.account,
                "external_contact": conversation.external_contact,
                "customer_id": conversation.customer_id,
                "assurance": int(conversation.assurance),
                "created_at": conversation.created_at,
                "epoch": conversation.epoch,
                "detected": conversation.language,
                "of_customer": conversation.customer_id if is_sure else None,
            },
        )

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

    def append(
        self, conversation_id: str, *, author: Author, text: str, at: datetime, run_id: str | None
    ) -> int:
        """Number it and write it.

        Raises:
            ConversationNotFound: there is none to append to.
        """
        seq = COUNT.value(self._connection, {"id_": conversation_id})
        if seq is None:
            raise ConversationNotFound(conversation_id)
        APPEND.run(
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

    def receive(self, message: Received) -> int:
        """Number it and write it; raises as `append`."""
        seq = COUNT.value(self._connection, {"id_": message.conversation_id})
        if seq is None:
            raise ConversationNotFound(message.conversation_id)
        RECEIVE.run(
            self._connection,
            {
                "conversation_id": message.conversation_id,
                "seq": seq,
                "author": Author.CUSTOMER,
                "text": made_storable(message.text),
                "at": message.at,
                "run_id": message.run_id,
                "channel_message_id": message.message_id,
                "operator": message.operator,
                "assurance": int(message.assurance),
            },
        )
        return int(seq)

    def delivered(self, sender: Sender, message_id: str) -> Message | None:
        """SQLite has one writer; PostgreSQL is told to let no other at the same id."""
        if is_postgres(self._connection):
            key = repr((sender.channel, sender.account, sender.external_contact, message_id))
            lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(key, 0))
            self._connection.execute(sa.select(lock))
        found = (
            sa.select(messages)
            .join(conversations, conversations.c.id == messages.c.conversation_id)
            .where(
                messages.c.channel_message_id == message_id,
                conversations.c.channel == sender.channel,
                conversations.c.account == sender.account,
                conversations.c.external_contact == sender.external_contact,
                conversations.c.customer_id == sender.customer_id,
            )
        )
        if sender.conversation_id is not None:
            found = found.where(conversations.c.id == sender.conversation_id)
        row = self._connection.execute(found.order_by(conversations.c.id).limit(1)).first()
        return None if row is None else _message(row)

    def unread(self, conversation_id: str) -> tuple[Unread, ...]:
        rows = UNREAD_IN.all(self._connection, {"id_": conversation_id})
        return tuple(_unread(row) for row in rows)

    def mark_read(
        self, conversation_id: str, *, run_id: str, through_seq: int, last_seq: int
    ) -> None:
        here = {"id_": conversation_id, "through": through_seq}
        MARK_READ.run(self._connection, {**here, "reader": run_id, "last": last_seq})

    def unread_again(self, conversation_id: str, *, after_seq: int) -> int:
        unanswered = sa.select(runs.c.id).where(
            runs.c.conversation_id == conversation_id,
            runs.c.status == RunStatus.HANDED_OFF,
            runs.c.answer_seq.is_(None),
        )
        written = sa.and_(
            messages.c.conversation_id == conversation_id,
            messages.c.author == Author.CUSTOMER,
            messages.c.seq > after_seq,
            messages.c.run_id.in_(unanswered),
        )
        unread = sa.update(messages).where(written).values(run_id=None, read_seq=None)
        return self._connection.execute(unread).rowcount

    def message(self, conversation_id: str, seq: int) -> Message | None:
        row = MESSAGE.first(self._connection, {"id_": conversation_id, "seq_": seq})
        return None if row is None else _message(row)

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
        return tuple(_message(row) for row in rows)

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

    def know(self, conversation_id: str, new: Sequence[Known]) -> None:
        before = sa.func.coalesce(conversations.c.known + " ", "")
        self._connection.execute(
            sa.update(conversations)
            .where(conversations.c.id == conversation_id)
            .values(known=before + written(new))
        )

    def set_language(self, conversation_id: str, language: Language) -> None:
        self._connection.execute(
            sa.update(conversations)
            .where(conversations.c.id == conversation_id)
            .values(language=language)
        )

    def claim(
        self, conversation_id: str, *, lease_s: float, held: int | None = None
    ) -> Claim | None:
        self._hold(conversation_id)
        parameters = {"id_": conversation_id, "lease_s": lease_s, "held": held}
        row = CLAIM.first(self._connection, parameters)
        if row is None:
            return None
        return Claim(
            epoch=row.epoch, has_orphan=bool(row.has_orphan), has_unread=bool(row.has_unread)
        )

    def seize(self, conversation_id: str) -> int | None:
        self._hold(conversation_id)
        epoch = SEIZE.value(self._connection, {"id_": conversation_id})
        return None if epoch is None else int(epoch)

    def release(self, conversation_id: str, *, epoch: int) -> Released | None:
        self._hold(conversation_id)
        parameters = {"id_": conversation_id, "epoch_": epoch}
        row = RELEASE.first(self._connection, parameters)
        if row is None:
            return None
        return Released(
            handed_off=row.handed_off_at is not None,
            has_unread=bool(row.has_unread),
            is_listened=bool(row.is_listened),
        )

    def _hold(self, conversation_id: str) -> None:
        """PostgreSQL looks for what is unread as of when a statement began to wait for the row.

        So the waiting is a statement of its own. SQLite has one writer.
        """
        if is_postgres(self._connection):
            HOLD.first(self._connection, {"id_": conversation_id})

    def hand_off(self, conversation_id: str) -> bool:
        return self._connection.execute(HAND_OFF, {"id_": conversation_id}).rowcount == 1

    def give_back(self, conversation_id: str) -> bool:
        return self._connection.execute(GIVE_BACK, {"id_": conversation_id}).rowcount == 1


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


def _message(row: sa.Row[*tuple[Any, ...]]) -> Message:
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

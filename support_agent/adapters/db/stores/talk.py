"""What is written of conversations and their messages, and who has one."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.stores.talk_reads import ConversationReads, message_of
from support_agent.adapters.db.stores.talk_statements import (
    ADD,
    APPEND,
    CLAIM,
    COUNT,
    GIVE_BACK,
    HAND_OFF,
    HOLD,
    MARK_READ,
    RECEIVE,
    RELEASE,
    SEIZE,
    conversations,
    messages,
    runs,
)
from support_agent.adapters.db.types import made_storable
from support_agent.domain.conversation import (
    Assurance,
    Author,
    Claim,
    Conversation,
    Message,
    Released,
)
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.preferences import Known, written
from support_agent.domain.reasons import Language
from support_agent.domain.runs import RunStatus
from support_agent.ports.storage.talk import Received, Sender


class SqlConversations(ConversationReads):
    """Messages are numbered in the conversation's row; leases run by the database's clock."""

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
        return None if row is None else message_of(row)

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

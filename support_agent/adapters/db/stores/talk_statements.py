"""The statements of conversations and messages: compiled once, as every turn runs them."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds, words_of
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.memory import PreferenceRow
from support_agent.adapters.db.tables.talk import UNREAD, ConversationRow, MessageRow, RunRow
from support_agent.adapters.db.tables.webhooks import LISTENING, WebhookEndpointRow
from support_agent.domain.preferences import PreferenceKind

conversations = table_of(ConversationRow)
listeners = table_of(WebhookEndpointRow)
messages = table_of(MessageRow)
preferences = table_of(PreferenceRow)
runs = table_of(RunRow)

_ID = conversations.c.id == sa.bindparam("id_")

# The update that counts also locks the row, so that two messages never share a number. Nothing is
# written any more in one that was erased, maybe since it was looked at.
COUNT = Prepared(
    sa.update(conversations)
    .where(_ID, conversations.c.erased_at.is_(None))
    .values(next_seq=conversations.c.next_seq + 1)
    .returning(conversations.c.next_seq - 1)
)
# Written out in the SQL, or a partial index is not used under a generic plan.
IS_UNREAD = sa.text(UNREAD)
IS_RUNNING = sa.text("runs.status = 'running'")
NOBODY_HAS_IT = sa.or_(
    conversations.c.lease_until.is_(None), conversations.c.lease_until <= database_seconds()
)
# By the parameter: in RETURNING, SQLAlchemy writes a bare `id` for SQLite, the inner table's there.
_HAS_UNREAD = (
    sa.select(messages.c.seq)
    .where(messages.c.conversation_id == sa.bindparam("id_"), IS_UNREAD)
    .exists()
)
_HAS_RUNNING = (
    sa.select(runs.c.id).where(runs.c.conversation_id == sa.bindparam("id_"), IS_RUNNING).exists()
)
_IS_LISTENED = (
    sa.select(sa.literal_column("1")).select_from(listeners).where(sa.text(LISTENING)).exists()
)
HOLD = Prepared(sa.select(conversations.c.id).where(_ID).with_for_update())
CLAIM = Prepared(
    sa.update(conversations)
    .where(_ID, sa.or_(NOBODY_HAS_IT, conversations.c.epoch == sa.bindparam("held")))
    .values(
        epoch=conversations.c.epoch + 1,
        lease_until=database_seconds() + sa.bindparam("lease_s", type_=sa.Double),
    )
    .returning(
        conversations.c.epoch,
        _HAS_RUNNING.label("has_orphan"),
        _HAS_UNREAD.label("has_unread"),
    )
)
# Whoever had it finds its epoch gone.
SEIZE = Prepared(
    sa.update(conversations)
    .where(_ID)
    .values(epoch=conversations.c.epoch + 1, lease_until=None)
    .returning(conversations.c.epoch)
)
RELEASE = Prepared(
    sa.update(conversations)
    .where(_ID, conversations.c.epoch == sa.bindparam("epoch_"))
    .values(lease_until=None)
    .returning(
        conversations.c.handed_off_at,
        _HAS_UNREAD.label("has_unread"),
        _IS_LISTENED.label("is_listened"),
    )
)
_REMEMBERED = preferences.c.customer_id == sa.bindparam("of_customer", type_=sa.Text)
_KNOWN = sa.literal_column("'0:'", sa.Text) + preferences.c.kind + "=" + preferences.c.value
_ASKED_FOR = (
    sa.select(preferences.c.value)
    .where(_REMEMBERED, preferences.c.kind == PreferenceKind.LANGUAGE)
    .scalar_subquery()
)
# What is remembered of the customer comes with it in the same statement.
ADD = Prepared(
    sa.insert(conversations)
    .inline()
    .values(
        known=sa.select(words_of(_KNOWN)).where(_REMEMBERED).scalar_subquery(),
        language=sa.func.coalesce(_ASKED_FOR, sa.bindparam("detected", type_=sa.Text)),
    ),
    columns=(
        *("id", "channel", "account", "external_contact", "customer_id", "assurance"),
        *("created_at", "epoch"),
    ),
)
GET = Prepared(sa.select(conversations).where(_ID))
APPEND = Prepared(
    sa.insert(messages).inline(),
    columns=("conversation_id", "seq", "author", "text", "at", "run_id"),
)
RECEIVE = Prepared(
    sa.insert(messages)
    .inline()
    .from_select(
        _RECEIVED := (
            *("conversation_id", "seq", "author", "text", "at", "run_id", "channel_message_id"),
            *("operator", "assurance", "posted_at"),
        ),
        sa.select(
            *(
                database_seconds()
                if name == "posted_at"
                else sa.bindparam(name, type_=messages.c[name].type)
                for name in _RECEIVED
            )
        ),
        include_defaults=False,
    )
)
UNREAD_IN = Prepared(
    sa.select(messages, (database_seconds() - messages.c.posted_at).label("waited_s"))
    .where(messages.c.conversation_id == sa.bindparam("id_"), IS_UNREAD)
    .order_by(messages.c.seq)
)
MARK_READ = Prepared(
    sa.update(messages)
    .where(
        messages.c.conversation_id == sa.bindparam("id_"),
        messages.c.seq <= sa.bindparam("through"),
        IS_UNREAD,
    )
    .values(run_id=sa.bindparam("reader"), read_seq=sa.bindparam("last"))
)
MESSAGE = Prepared(
    sa.select(messages).where(
        messages.c.conversation_id == sa.bindparam("id_"), messages.c.seq == sa.bindparam("seq_")
    )
)


def _waited(kind: Callable[[sa.ColumnElement[float]], sa.ColumnElement[float]]) -> Any:  # noqa: ANN401 - a scalar subquery
    return (
        # One that went through an older schema has no time: it has waited for long.
        sa.select(kind(database_seconds() - sa.func.coalesce(messages.c.posted_at, 0.0)))
        .where(messages.c.conversation_id == conversations.c.id, IS_UNREAD)
        .correlate(conversations)
        .scalar_subquery()
    )


WAITING = Prepared(
    sa.select(
        sa.func.coalesce(conversations.c.lease_until - database_seconds(), 0.0).label("left_s"),
        _HAS_RUNNING.label("is_running"),
        _waited(sa.func.min).label("newest_s"),
        _waited(sa.func.max).label("oldest_s"),
    ).where(_ID)
)
MESSAGES = Prepared(
    sa.select(messages)
    .where(
        messages.c.conversation_id == sa.bindparam("id_"),
        messages.c.seq > sa.bindparam("after_seq"),
    )
    .order_by(messages.c.seq)
)
MESSAGES_PAGE = Prepared(
    sa.select(messages)
    .where(
        messages.c.conversation_id == sa.bindparam("id_"),
        messages.c.seq > sa.bindparam("after_seq"),
    )
    .order_by(messages.c.seq)
    .limit(sa.bindparam("most", type_=sa.BigInteger))
)
# A turn begins with a new epoch and ends in the commit that gives the conversation back.
PROGRESS = sa.select(
    conversations.c.id,
    conversations.c.next_seq,
    conversations.c.epoch,
    conversations.c.lease_until.is_(None),
    conversations.c.erased_at.is_(None),
).where(conversations.c.id.in_(sa.bindparam("ids", expanding=True)))
HAND_OFF = (
    sa.update(conversations)
    .where(_ID, conversations.c.handed_off_at.is_(None))
    .values(handed_off_at=database_seconds())
)
GIVE_BACK = (
    sa.update(conversations)
    .where(_ID, conversations.c.handed_off_at.is_not(None))
    .values(handed_off_at=None)
)

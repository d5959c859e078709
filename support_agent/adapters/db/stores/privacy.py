"""Telling, erasing and letting go of what is kept of people, in SQL."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.personal import (
    CONVERSATIONS,
    COPIES,
    DESTINATIONS,
    MESSAGES,
    OF_CONVERSATIONS,
    OF_CUSTOMER,
    ORDERS,
    OUTBOX,
    PREFERENCES,
    QUOTES,
    REPLIES,
    REQUESTS,
    RUNS,
    TASKS,
    USAGE,
    claimed_conversations_of,
    conversations_of,
    erase,
    proved_conversations_of,
)
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.stores.doubtful import VERIFIED, Doubtful, withheld
from support_agent.adapters.db.tables.switches import ProviderEventRow
from support_agent.adapters.db.tables.talk import UNREAD
from support_agent.domain.refunds import OPEN
from support_agent.domain.usage import Scope
from support_agent.ports.storage.privacy import InUse, Rows

EVENTS = table_of(ProviderEventRow)

_BY_CUSTOMER = (CONVERSATIONS, REQUESTS, PREFERENCES, DESTINATIONS, QUOTES, ORDERS)
_IS_RUNNING = sa.exists().where(
    RUNS.c.conversation_id == CONVERSATIONS.c.id, sa.text("runs.status = 'running'")
)
_HAS_UNREAD = sa.exists().where(MESSAGES.c.conversation_id == CONVERSATIONS.c.id, sa.text(UNREAD))
_HAS_OPEN_REQUEST = sa.exists().where(
    REQUESTS.c.customer_id == CONVERSATIONS.c.customer_id, REQUESTS.c.status.in_(sorted(OPEN))
)
_HAS_OPEN_TASK = sa.exists().where(
    TASKS.c.conversation_id == CONVERSATIONS.c.id, sa.text("tasks.done_at IS NULL")
)
_NOT_ERASED = sa.text("conversations.erased_at IS NULL")  # as the partial index has it


class SqlPrivacy:
    """Goes by the registry of `adapters.db.personal`."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def knows(self, customer_id: str) -> bool:
        if not storable(customer_id):
            return False
        rows = [sa.exists().where(table.c.customer_id == customer_id) for table in _BY_CUSTOMER]
        return bool(self._connection.execute(sa.select(sa.or_(*rows))).scalar())

    def tell(self, customer_id: str) -> Mapping[str, Rows]:
        told: dict[str, list[Mapping[str, Any]]] = {}
        theirs = proved_conversations_of(customer_id)
        doubtful = self._doubtful(theirs)
        reached = [(reach, theirs) for reach in OF_CONVERSATIONS]
        for reach, whose in (*reached, *((reach, customer_id) for reach in OF_CUSTOMER)):
            found = sa.select(reach.table).where(reach.rows(whose)).order_by(*_key(reach.table))
            for row in self._connection.execute(found).mappings():
                given = withheld(row, reach) if doubtful.holds(row, reach.table) else row
                told.setdefault(reach.table.name, []).append(dict(given))
        return told

    def claimed(self, customer_id: str) -> tuple[str, ...]:
        return self._ids(claimed_conversations_of(customer_id).where(_NOT_ERASED))

    def _doubtful(self, conversations: sa.Select[str]) -> Doubtful:
        """What somebody had a part in whose channel was not sure of them."""
        runs = sa.select(RUNS.c.id).where(
            RUNS.c.conversation_id.in_(conversations), RUNS.c.assurance < VERIFIED
        )
        written = sa.select(MESSAGES.c.conversation_id).where(
            MESSAGES.c.conversation_id.in_(conversations), MESSAGES.c.assurance < VERIFIED
        )
        return Doubtful(
            runs=frozenset(self._ids(runs)), conversations=frozenset(self._ids(written))
        )

    def hold(self, customer_id: str) -> InUse:
        """The conversation's row is what every turn takes first."""
        self._connection.execute(
            conversations_of(customer_id).order_by(CONVERSATIONS.c.id).with_for_update()
        )
        return InUse(
            requests=self._ids(
                sa.select(REQUESTS.c.id).where(
                    REQUESTS.c.customer_id == customer_id, REQUESTS.c.status.in_(sorted(OPEN))
                )
            ),
            answering=self._ids(
                conversations_of(customer_id).where(sa.or_(_IS_RUNNING, _HAS_UNREAD))
            ),
            with_staff=self._ids(
                conversations_of(customer_id).where(CONVERSATIONS.c.handed_off_at.is_not(None))
            ),
        )

    def erase(self, customer_id: str, *, at: datetime) -> Mapping[str, int]:
        theirs = self._over(customer_id)
        of_customer = (*OF_CUSTOMER, *COPIES)
        erased = {reach.table.name: 0 for reach in (*OF_CONVERSATIONS, *of_customer)}
        for reach in of_customer:
            erased[reach.table.name] += erase(self._connection, reach, customer_id)
        for name, count in self._erase_conversations(theirs, at=at).items():
            erased[name] += count
        self._empty_replies_to_staff()
        return {name: count for name, count in erased.items() if count}

    def _empty_replies_to_staff(self) -> None:
        """Kept for a day; nothing in them says for sure whom they speak of, so all of them go."""
        said = sa.update(REPLIES).where(REPLIES.c.customer_id == "", REPLIES.c.body.is_not(None))
        self._connection.execute(said.values(body=None))

    def _over(self, customer_id: str) -> tuple[str, ...]:
        """All but one that began since the others were held: what is written in it is new."""
        mine = conversations_of(customer_id).order_by(CONVERSATIONS.c.id)
        taken = self._connection.execute(mine.with_for_update()).scalars().all()
        over = (CONVERSATIONS.c.handed_off_at.is_(None), ~_IS_RUNNING, ~_HAS_UNREAD)
        return self._ids(sa.select(CONVERSATIONS.c.id).where(CONVERSATIONS.c.id.in_(taken), *over))

    def destinations_to_erase(self, customer_id: str) -> tuple[str, ...]:
        return self._ids(
            sa.select(DESTINATIONS.c.id).where(
                DESTINATIONS.c.customer_id == customer_id, DESTINATIONS.c.account_number != ""
            )
        )

    def let_go_quiet(self, before: datetime, *, at: datetime, limit: int) -> int:
        """Looked at again under their locks: a turn may have begun meanwhile."""
        quiet = sa.select(CONVERSATIONS.c.id).where(*_quiet_since(before))
        oldest = quiet.order_by(CONVERSATIONS.c.created_at).limit(limit)
        taken = self._connection.execute(oldest.with_for_update(skip_locked=True)).scalars().all()
        still = self._ids(quiet.where(CONVERSATIONS.c.id.in_(taken))) if taken else ()
        self._erase_conversations(still, at=at)
        return len(still)

    def let_go_preferences(self, before: datetime, *, limit: int) -> int:
        is_left = sa.exists().where(
            CONVERSATIONS.c.customer_id == PREFERENCES.c.customer_id, _NOT_ERASED
        )
        gone = (
            sa.select(PREFERENCES.c.customer_id)
            .where(PREFERENCES.c.at < before, ~is_left)
            .limit(limit)
        )
        return self._connection.execute(
            sa.delete(PREFERENCES).where(
                PREFERENCES.c.at < before, PREFERENCES.c.customer_id.in_(gone)
            )
        ).rowcount

    def let_go_delivered(self, before: datetime, *, limit: int) -> int:
        gone = sa.select(OUTBOX.c.seq).where(
            OUTBOX.c.delivered_at < before, OUTBOX.c.fanned_at.is_not(None)
        )
        oldest = gone.order_by(OUTBOX.c.delivered_at).limit(limit)
        return self._connection.execute(sa.delete(OUTBOX).where(OUTBOX.c.seq.in_(oldest))).rowcount

    def let_go_accepted(self, before: datetime, *, limit: int) -> int:
        return self._delete(EVENTS, EVENTS.c.received_at < before, limit)

    def let_go_usage(self, before: date, *, limit: int) -> int:
        by_day = sa.and_(
            USAGE.c.scope.in_(sorted(set(Scope) - {Scope.CONVERSATION})),
            USAGE.c.day < before.isoformat(),
        )
        return self._delete(USAGE, by_day, limit)

    def _erase_conversations(self, ids: Sequence[str], *, at: datetime) -> Mapping[str, int]:
        if not ids:
            return {}
        erased = {
            reach.table.name: erase(self._connection, reach, ids) for reach in OF_CONVERSATIONS
        }
        self._connection.execute(
            sa.update(CONVERSATIONS)
            .where(CONVERSATIONS.c.id.in_(ids), _NOT_ERASED)
            .values(erased_at=at)
        )
        return erased

    def _delete(self, table: sa.Table, which: sa.ColumnElement[bool], limit: int) -> int:
        key = sa.tuple_(*table.primary_key.columns)
        some = sa.select(*table.primary_key.columns).where(which).limit(limit)
        return self._connection.execute(sa.delete(table).where(key.in_(some))).rowcount

    def _ids(self, found: sa.Select[str]) -> tuple[str, ...]:
        return tuple(sorted(row[0] for row in self._connection.execute(found)))


def _quiet_since(before: datetime) -> tuple[Any, ...]:
    newest = sa.exists().where(
        MESSAGES.c.conversation_id == CONVERSATIONS.c.id,
        MESSAGES.c.seq == CONVERSATIONS.c.next_seq - 1,
        MESSAGES.c.at >= before,
    )
    is_busy = (newest, _IS_RUNNING, _HAS_UNREAD, _HAS_OPEN_REQUEST, _HAS_OPEN_TASK)
    return (
        _NOT_ERASED,
        CONVERSATIONS.c.created_at < before,
        CONVERSATIONS.c.handed_off_at.is_(None),
        *(~condition for condition in is_busy),
    )


def _key(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    return tuple(table.primary_key.columns)

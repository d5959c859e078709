"""What is remembered of customers, in SQL."""

from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.tables.memory import PreferenceRow
from support_agent.adapters.db.tables.talk import ConversationRow
from support_agent.domain.preferences import VALUES, PreferenceKind, known_of, written
from support_agent.ports.storage.memory import Preference

preferences = table_of(PreferenceRow)
conversations = table_of(ConversationRow)


class SqlPreferences:
    """A row a customer and kind. Conversations keep what was known when they began."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def of(self, customer_id: str) -> tuple[Preference, ...]:
        if not storable(customer_id):
            return ()
        found = self._connection.execute(
            sa.select(preferences).where(preferences.c.customer_id == customer_id)
        )
        by_kind = {one.kind: one for row in found if (one := _preference(row)) is not None}
        return tuple(by_kind[kind] for kind in PreferenceKind if kind in by_kind)

    def put(self, preference: Preference) -> None:
        values = {name: getattr(preference, name) for name in Preference.__dataclass_fields__}
        statement = insert(self._connection, preferences).values(values)
        newer = {name: statement.excluded[name] for name in ("value", "conversation_id", "at")}
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["customer_id", "kind"], set_=newer)
        )

    def forget(self, customer_id: str, kind: PreferenceKind | None) -> tuple[PreferenceKind, ...]:
        if not storable(customer_id):
            return ()
        # As a turn does: the conversation's row first.
        found = self._forget_in_conversations(customer_id, kind)
        gone = sa.delete(preferences).where(preferences.c.customer_id == customer_id)
        if kind is not None:
            gone = gone.where(preferences.c.kind == kind)
        found |= set(self._connection.execute(gone.returning(preferences.c.kind)).scalars())
        return tuple(one for one in PreferenceKind if one in found)

    def _forget_in_conversations(
        self, customer_id: str, kind: PreferenceKind | None
    ) -> set[PreferenceKind]:
        forgotten: set[PreferenceKind] = set()
        rows = self._connection.execute(
            sa.select(conversations.c.id, conversations.c.known)
            .where(conversations.c.customer_id == customer_id, conversations.c.known.is_not(None))
            .order_by(conversations.c.id)
            .with_for_update()
        ).all()
        for row in rows:
            known = known_of(row.known)
            left = [one for one in known if kind is not None and one.kind is not kind]
            forgotten |= {one.kind for one in known if one not in left}
            self._connection.execute(
                sa.update(conversations)
                .where(conversations.c.id == row.id)
                .values(known=written(left) or None)
            )
        return forgotten


def _preference(row: sa.Row[*tuple[Any, ...]]) -> Preference | None:
    """What this program does not know, maybe a newer one's, is left alone."""
    if row.kind not in set(PreferenceKind) or row.value not in VALUES[PreferenceKind(row.kind)]:
        return None
    return Preference(
        customer_id=row.customer_id,
        kind=PreferenceKind(row.kind),
        value=row.value,
        conversation_id=row.conversation_id,
        at=row.at,
    )

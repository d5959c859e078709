"""Kill switches, payout destinations and the inbox of provider events in SQL."""

from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.tables.switches import (
    PayoutDestinationRow,
    ProviderEventRow,
    SwitchRow,
)
from support_agent.ports.storage.switches import (
    InboxEntry,
    PayoutDestination,
    Switch,
    SwitchName,
)

SWITCHES = table_of(SwitchRow)
DESTINATIONS = table_of(PayoutDestinationRow)
EVENTS = table_of(ProviderEventRow)

_SWITCH = Prepared(sa.select(SWITCHES).where(SWITCHES.c.name == sa.bindparam("of")))


class SqlSwitches:
    """One row a switch that somebody touched."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, name: SwitchName) -> Switch | None:
        row = _SWITCH.first(self._connection, {"of": name})
        if row is None:
            return None
        return Switch(
            name=SwitchName(row.name),
            on=bool(row.is_on),
            changed_at=row.changed_at,
            changed_by=row.changed_by,
        )

    def put(self, switch: Switch) -> bool:
        values = {
            "name": switch.name,
            "is_on": switch.on,
            "changed_at": switch.changed_at,
            "changed_by": switch.changed_by,
        }
        statement = insert(self._connection, SWITCHES).values(values)
        written = self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["name"],
                set_={name: statement.excluded[name] for name in values},
                where=SWITCHES.c.is_on != switch.on,
            ).returning(SWITCHES.c.name)
        )
        return written.first() is not None


class SqlDestinations:
    """Insert-only, by trigger."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, destination: PayoutDestination) -> None:
        self._connection.execute(sa.insert(DESTINATIONS), _fields(destination))

    def get(self, destination_id: str) -> PayoutDestination | None:
        if not storable(destination_id):
            return None
        found = sa.select(DESTINATIONS).where(DESTINATIONS.c.id == destination_id)
        row = self._connection.execute(found).mappings().first()
        return None if row is None else PayoutDestination(**row)

    def of_customer(self, customer_id: str) -> tuple[PayoutDestination, ...]:
        found = (
            sa.select(DESTINATIONS)
            .where(DESTINATIONS.c.customer_id == customer_id)
            .order_by(DESTINATIONS.c.created_at.desc(), DESTINATIONS.c.id.desc())
        )
        return tuple(PayoutDestination(**row) for row in self._connection.execute(found).mappings())


class SqlInbox:
    """One row an accepted event, by the provider's own id."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, entry: InboxEntry) -> bool:
        return insert_new(self._connection, EVENTS, _fields(entry), on=("gateway", "event_id")) == 1

    def get(self, gateway: str, event_id: str) -> InboxEntry | None:
        if not storable(event_id):
            return None
        found = sa.select(EVENTS).where(EVENTS.c.gateway == gateway, EVENTS.c.event_id == event_id)
        row = self._connection.execute(found).mappings().first()
        return None if row is None else InboxEntry(**row)


def _fields(item: PayoutDestination | InboxEntry) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}

"""API keys in SQL."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.tables.access import ApiKeyRow
from support_agent.domain.access import ApiKey, Scope
from support_agent.domain.conversation import Assurance

KEYS = table_of(ApiKeyRow)
_SCOPES = frozenset(Scope)

_BY_ID = Prepared(sa.select(KEYS).where(KEYS.c.id == sa.bindparam("of")))


class SqlApiKeys:
    """Every request by the API reads one of these rows."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, key: ApiKey) -> None:
        self._connection.execute(sa.insert(KEYS).values(_values(key)))

    def get(self, key_id: str) -> ApiKey | None:
        if not storable(key_id):
            return None
        row = _BY_ID.first(self._connection, {"of": key_id})
        return None if row is None else _key(row)

    def replace(self, key: ApiKey) -> None:
        ends = {"expires_at": key.expires_at, "revoked_at": key.revoked_at}
        self._connection.execute(sa.update(KEYS).where(KEYS.c.id == key.id).values(ends))

    def list(self, *, limit: int, after: str | None = None) -> tuple[ApiKey, ...]:
        statement = sa.select(KEYS).order_by(KEYS.c.id).limit(limit)
        if after is not None:
            statement = statement.where(KEYS.c.id > after)
        return tuple(_key(row) for row in self._connection.execute(statement))

    def of_name(self, name: str) -> tuple[ApiKey, ...]:
        if not storable(name):
            return ()
        statement = sa.select(KEYS).where(KEYS.c.name == name).order_by(KEYS.c.id)
        return tuple(_key(row) for row in self._connection.execute(statement))

    def some(self, key_ids: Collection[str]) -> tuple[ApiKey, ...]:
        statement = sa.select(KEYS).where(KEYS.c.id.in_(key_ids))
        return tuple(_key(row) for row in self._connection.execute(statement))


def _values(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "secret_hash": key.secret_hash,
        "scopes": sorted(key.scopes),
        "approver": key.approver,
        "channel": key.channel,
        "account": key.account,
        "assurance": int(key.assurance),
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }


def _key(row: sa.Row[*tuple[Any, ...]]) -> ApiKey:
    """A scope that this program does not know, maybe a newer one's, gives nothing."""
    return ApiKey(
        id=row.id,
        name=row.name,
        secret_hash=row.secret_hash,
        scopes=frozenset(Scope(scope) for scope in row.scopes if scope in _SCOPES),
        approver=row.approver,
        channel=row.channel,
        account=row.account,
        assurance=Assurance(row.assurance),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )

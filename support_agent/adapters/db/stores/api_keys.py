"""API keys in SQL."""

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.tables.access import ApiKeyRow
from support_agent.domain.access import ApiKey, Scope
from support_agent.domain.conversation import Assurance

KEYS = table_of(ApiKeyRow)

_AS_IT_IS = {"scopes", "created_at", "expires_at", "revoked_at"}  # a hand may write anything
_KEYS = sa.select(
    *(column for column in KEYS.columns if column.name not in _AS_IT_IS),
    *(sa.type_coerce(KEYS.c[name], sa.types.NullType()).label(name) for name in sorted(_AS_IT_IS)),
)
NEVER = datetime(1, 1, 2, tzinfo=UTC)  # for what is no moment: such a key has ended
_BY_ID = Prepared(_KEYS.where(KEYS.c.id == sa.bindparam("of")))


class SqlApiKeys:
    """Every request by the API reads one of these rows."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def put(self, key: ApiKey) -> None:
        values = _values(key)
        statement = insert(self._connection, KEYS).values(values)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["id"], set_={name: statement.excluded[name] for name in values}
            )
        )

    def get(self, key_id: str) -> ApiKey | None:
        if not storable(key_id):
            return None
        row = _BY_ID.first(self._connection, {"of": key_id})
        return None if row is None else _key(row)

    def list(self, *, limit: int, after: str | None = None) -> tuple[ApiKey, ...]:
        statement = _KEYS.order_by(KEYS.c.id).limit(limit)
        if after is not None:
            statement = statement.where(KEYS.c.id > after)
        return tuple(_key(row) for row in self._connection.execute(statement))

    def of_name(self, name: str) -> tuple[ApiKey, ...]:
        if not storable(name):
            return ()
        statement = _KEYS.where(KEYS.c.name == name).order_by(KEYS.c.id)
        return tuple(_key(row) for row in self._connection.execute(statement))

    def some(self, key_ids: Collection[str]) -> tuple[ApiKey, ...]:
        statement = _KEYS.where(KEYS.c.id.in_(key_ids))
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
    """A scope that this program does not know, maybe a newer one's, gives nothing.

    What a hand wrote there that is no list, text or moment gives nothing either; it is not what
    was signed.
    """
    scopes = _list_of(row.scopes)
    return ApiKey(
        id=_text(row.id),
        name=_text(row.name),
        secret_hash=_text(row.secret_hash),
        scopes=frozenset(scope for scope in Scope if scope in scopes),
        approver=None if row.approver is None else _text(row.approver),
        channel=None if row.channel is None else _text(row.channel),
        account=None if row.account is None else _text(row.account),
        assurance=Assurance(row.assurance),
        created_at=_moment(row.created_at),
        created_by=_text(row.created_by),
        expires_at=None if row.expires_at is None else _moment(row.expires_at),
        revoked_at=None if row.revoked_at is None else _moment(row.revoked_at),
    )


def _text(found: object) -> str:
    return found if isinstance(found, str) else repr(found)


def _moment(found: object) -> datetime:
    try:
        if isinstance(found, datetime):
            return found.astimezone(UTC)
        return datetime.fromisoformat(str(found)).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return NEVER


def _list_of(text: object) -> list[Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []

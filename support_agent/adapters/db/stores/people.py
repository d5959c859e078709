"""Approvers, policies in force and the installation stamp in SQL."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert
from support_agent.adapters.db.prepared import NO_PARAMETERS, Prepared
from support_agent.adapters.db.schema import current_revision
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.people import (
    ApproverRow,
    InstallationRow,
    PolicyActivationRow,
    PolicyRow,
)
from support_agent.domain.errors import ApproverNotFound, ConfigurationError
from support_agent.domain.people import Approver
from support_agent.ports.storage import StoredPolicy

Row = sa.Row[*tuple[Any, ...]]

approvers = table_of(ApproverRow)
policies = table_of(PolicyRow)
activations = table_of(PolicyActivationRow)
installation = table_of(InstallationRow)


def _activated() -> sa.Select[*tuple[Any, ...]]:
    same = sa.and_(
        policies.c.id == activations.c.policy_id, policies.c.version == activations.c.version
    )
    body = sa.type_coerce(policies.c.body, sa.Text).label("body")
    rest = (column for column in policies.columns if column.name != "body")
    activated = (activations.c.activated_at, activations.c.activated_by)
    return sa.select(*rest, body, *activated).join_from(policies, activations, same)


# Built once: putting them together costs more than running them.
_BY_NAME = Prepared(sa.select(approvers).where(approvers.c.name == sa.bindparam("of")))
_OF_PERSON = Prepared(
    sa.select(approvers)
    .where(approvers.c.person_id == sa.bindparam("of", type_=sa.Text))
    .order_by(approvers.c.level, approvers.c.name)
)
_ALL = Prepared(sa.select(approvers).order_by(approvers.c.level, approvers.c.name))
_IN_FORCE = Prepared(_activated().order_by(activations.c.seq.desc()).limit(1))


class SqlPeople:
    """Approvers by name; the token is set apart from the rest and survives it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> Approver | None:
        if not storable(name):
            return None
        row = _BY_NAME.first(self._connection, {"of": name})
        return None if row is None else _approver(row)

    def list(self) -> tuple[Approver, ...]:
        return tuple(_approver(row) for row in _ALL.all(self._connection, NO_PARAMETERS))

    def of_person(self, person_id: str) -> tuple[Approver, ...]:
        found = _OF_PERSON.all(self._connection, {"of": person_id})
        return tuple(_approver(row) for row in found)

    def put(self, approver: Approver) -> bool:
        values = _approver_values(approver)
        known = self.get(approver.name)
        if known is not None and _approver_values(known) == values:
            return False
        statement = insert(self._connection, approvers).values(
            name=approver.name, token_hash=approver.token_hash, **values
        )
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=[approvers.c.name], set_=values)
        )
        return True

    def set_token(self, name: str, token_hash: str) -> None:
        """Replace the approver's token.

        Raises:
            ApproverNotFound: there is none of this name.
        """
        statement = (
            sa.update(approvers).where(approvers.c.name == name).values(token_hash=token_hash)
        )
        if self._connection.execute(statement).rowcount == 0:
            raise ApproverNotFound(name)


class SqlPolicies:
    """A policy's body is kept once; putting it in force again adds an activation only."""

    def __init__(self, connection: sa.Connection, seen: Seen) -> None:
        self._connection = connection
        self._seen = seen

    def in_force(self) -> StoredPolicy | None:
        return self._seen.once("policy", self._in_force)

    def _in_force(self) -> StoredPolicy | None:
        row = _IN_FORCE.first(self._connection, NO_PARAMETERS)
        return None if row is None else _policy(row)

    def get(self, policy_id: str, version: int) -> StoredPolicy | None:
        """With its newest activation."""
        statement = (
            _activated()
            .where(policies.c.id == policy_id, policies.c.version == version)
            .order_by(activations.c.seq.desc())
            .limit(1)
        )
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _policy(row)

    def list(self) -> tuple[StoredPolicy, ...]:
        """Each version once, with its newest activation; by id and version."""
        newest = (
            sa.select(sa.func.max(activations.c.seq))
            .group_by(activations.c.policy_id, activations.c.version)
            .scalar_subquery()
        )
        statement = (
            _activated()
            .where(activations.c.seq.in_(newest))
            .order_by(policies.c.id, policies.c.version)
        )
        return tuple(_policy(row) for row in self._connection.execute(statement))

    def activate(self, policy: StoredPolicy) -> None:
        self._connection.execute(
            insert(self._connection, policies)
            .values(
                id=policy.id,
                version=policy.version,
                hash=policy.hash,
                body=dict(policy.body),
                valid_from=policy.valid_from,
            )
            .on_conflict_do_nothing(index_elements=[policies.c.id, policies.c.version])
        )
        self._connection.execute(
            sa.insert(activations),
            {
                "policy_id": policy.id,
                "version": policy.version,
                "activated_at": policy.activated_at,
                "activated_by": policy.activated_by,
            },
        )


class SqlInstallation:
    """The stamp of the first `db upgrade`."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def id(self) -> str:
        return str(self._stamp().installation_id)

    def is_live(self) -> bool:
        return bool(self._stamp().kind == "live")

    def revision(self) -> str:
        return current_revision(self._connection) or ""

    def _stamp(self) -> Row:
        row = self._connection.execute(sa.select(installation)).one_or_none()
        if row is None:
            raise ConfigurationError("the database has no installation stamp: restore a backup")
        return row


def _approver_values(approver: Approver) -> dict[str, object]:
    """All but the name and the token."""
    return {
        "person_id": approver.person_id,
        "level": approver.level,
        "limits": dict(approver.limits),
        "customer_ids": sorted(approver.customer_ids),
        "disabled": approver.disabled,
    }


def _approver(row: Row) -> Approver:
    return Approver(
        name=row.name,
        person_id=row.person_id,
        level=row.level,
        limits=row.limits,
        customer_ids=frozenset(row.customer_ids),
        disabled=row.disabled,
        token_hash=row.token_hash,
    )


@lru_cache(maxsize=16)
def _body(text: str) -> Mapping[str, Any]:
    """Read once: the policy in force is asked for in every turn. Nobody changes what comes back."""
    body: Mapping[str, Any] = json.loads(text)
    return body


def _policy(row: Row) -> StoredPolicy:
    return StoredPolicy(
        id=row.id,
        version=row.version,
        hash=row.hash,
        body=_body(row.body),
        valid_from=row.valid_from,
        activated_at=row.activated_at,
        activated_by=row.activated_by,
    )

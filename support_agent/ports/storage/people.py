"""Approvers, policies in force and the installation stamp as they are stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from support_agent.domain.people import Approver


class People(Protocol):
    def get(self, name: str) -> Approver | None: ...

    def list(self) -> tuple[Approver, ...]:
        """By level, then name."""
        ...

    def of_person(self, person_id: str) -> tuple[Approver, ...]:
        """Every account of one person, by level, then name."""
        ...

    def put(self, approver: Approver) -> bool:
        """Insert, or replace all but the token; False when nothing changed."""
        ...

    def set_token(self, name: str, token_hash: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """A policy row: the body as activated, with its hash and who put it in force."""

    id: str
    version: int
    hash: str
    body: Mapping[str, Any]
    valid_from: datetime
    activated_at: datetime
    activated_by: str


class Policies(Protocol):
    """Insert-only; the newest activation is in force."""

    def in_force(self) -> StoredPolicy | None: ...

    def get(self, policy_id: str, version: int) -> StoredPolicy | None: ...

    def list(self) -> tuple[StoredPolicy, ...]: ...

    def activate(self, policy: StoredPolicy) -> None:
        """Put in force. A known (id, version) keeps its body; only the activation is new."""
        ...


class Installation(Protocol):
    """Stamped once, at the first `db upgrade`."""

    def id(self) -> str: ...

    def is_live(self) -> bool: ...

    def revision(self) -> str:
        """The schema's alembic revision."""
        ...

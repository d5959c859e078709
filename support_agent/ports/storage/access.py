"""API keys as they are stored."""

from collections.abc import Collection
from typing import Protocol

from support_agent.domain.access import ApiKey


class ApiKeyStore(Protocol):
    """Rows of keys. A row alone gives no power: see `services/api_keys.py`."""

    def put(self, key: ApiKey) -> None:
        """Insert it, or make its row what it is now."""
        ...

    def get(self, key_id: str) -> ApiKey | None: ...

    def list(self, *, limit: int, after: str | None = None) -> tuple[ApiKey, ...]:
        """Oldest first by id, those that ended too; `after` is the last id of the page before."""
        ...

    def of_name(self, name: str) -> tuple[ApiKey, ...]:
        """Every key of one name, oldest first."""
        ...

    def some(self, key_ids: Collection[str]) -> tuple[ApiKey, ...]:
        """Those of these ids that exist, in one look."""
        ...

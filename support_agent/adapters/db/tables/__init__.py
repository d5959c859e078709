"""Every table of the schema; importing this package fills `Table.metadata`."""

from support_agent.adapters.db.tables import books, people, requests, shop, switches, talk, trail
from support_agent.adapters.db.types import Table

metadata = Table.metadata

__all__ = ["books", "metadata", "people", "requests", "shop", "switches", "talk", "trail"]

"""Every table of the schema; importing this package fills `Table.metadata`."""

from support_agent.adapters.db.tables import (
    access,
    books,
    compactions,
    memory,
    people,
    queue,
    requests,
    shop,
    switches,
    talk,
    trail,
    usage,
    webhooks,
)
from support_agent.adapters.db.types import Table

metadata = Table.metadata

__all__ = [
    "access",
    "books",
    "compactions",
    "memory",
    "metadata",
    "people",
    "queue",
    "requests",
    "shop",
    "switches",
    "talk",
    "trail",
    "usage",
    "webhooks",
]

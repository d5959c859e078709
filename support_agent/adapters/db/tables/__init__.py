"""Every table of the schema; importing this package fills `Table.metadata`."""

from support_agent.adapters.db.tables import (
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
)
from support_agent.adapters.db.types import Table

metadata = Table.metadata

__all__ = [
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
]

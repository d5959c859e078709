"""The storage port: transactions whose guards are methods; SQL stays in the adapter."""

from support_agent.ports.storage.books import (
    Books,
    BookTotal,
    CapKey,
    CapScope,
    Mismatch,
    Posting,
    Shortage,
)
from support_agent.ports.storage.database import Database, Transaction
from support_agent.ports.storage.people import Installation, People, Policies, StoredPolicy
from support_agent.ports.storage.requests import (
    Attempts,
    Decisions,
    Page,
    Quotes,
    RequestFilter,
    Requests,
    Unreadable,
)
from support_agent.ports.storage.talk import Conversations, RunEnd, Runs
from support_agent.ports.storage.trail import Audit, Outbox, Task, Tasks

__all__ = [
    "Attempts",
    "Audit",
    "BookTotal",
    "Books",
    "CapKey",
    "CapScope",
    "Conversations",
    "Database",
    "Decisions",
    "Installation",
    "Mismatch",
    "Outbox",
    "Page",
    "People",
    "Policies",
    "Posting",
    "Quotes",
    "RequestFilter",
    "Requests",
    "RunEnd",
    "Runs",
    "Shortage",
    "StoredPolicy",
    "Task",
    "Tasks",
    "Transaction",
    "Unreadable",
]

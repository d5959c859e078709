"""The storage port: transactions whose guards are methods; SQL stays in the adapter."""

from support_agent.ports.storage.books import (
    Books,
    BookTotal,
    CapKey,
    CapScope,
    FactBooked,
    FactKind,
    GatewayFact,
    Mismatch,
    Posting,
    Shortage,
)
from support_agent.ports.storage.compactions import Compaction, Compactions, MadeBy
from support_agent.ports.storage.database import Database, Transaction
from support_agent.ports.storage.people import Installation, People, Policies, StoredPolicy
from support_agent.ports.storage.reports import Reports, Tally
from support_agent.ports.storage.requests import (
    Attempts,
    Decisions,
    Page,
    Quotes,
    RequestFilter,
    Requests,
    Unreadable,
)
from support_agent.ports.storage.switches import (
    Destinations,
    Inbox,
    InboxEntry,
    PayoutDestination,
    Switch,
    Switches,
    SwitchName,
)
from support_agent.ports.storage.talk import Conversations, RunEnd, Runs
from support_agent.ports.storage.trail import Audit, Outbox, Task, Tasks
from support_agent.ports.storage.usage import UsageCounters, UsageFilter

__all__ = [
    "Attempts",
    "Audit",
    "BookTotal",
    "Books",
    "CapKey",
    "CapScope",
    "Compaction",
    "Compactions",
    "Conversations",
    "Database",
    "Decisions",
    "Destinations",
    "FactBooked",
    "FactKind",
    "GatewayFact",
    "Inbox",
    "InboxEntry",
    "Installation",
    "MadeBy",
    "Mismatch",
    "Outbox",
    "Page",
    "PayoutDestination",
    "People",
    "Policies",
    "Posting",
    "Quotes",
    "Reports",
    "RequestFilter",
    "Requests",
    "RunEnd",
    "Runs",
    "Shortage",
    "StoredPolicy",
    "Switch",
    "SwitchName",
    "Switches",
    "Tally",
    "Task",
    "Tasks",
    "Transaction",
    "Unreadable",
    "UsageCounters",
    "UsageFilter",
]

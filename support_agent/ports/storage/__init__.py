"""The storage port: transactions whose guards are methods; SQL stays in the adapter."""

from support_agent.ports.storage.access import ApiKeyStore
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
from support_agent.ports.storage.database import Database, Rehearsal, Transaction
from support_agent.ports.storage.idempotency import (
    IdempotencyStore,
    InFlight,
    Mine,
    Reply,
    Reused,
    Slot,
)
from support_agent.ports.storage.memory import Preference, Preferences
from support_agent.ports.storage.people import Installation, People, Policies, StoredPolicy
from support_agent.ports.storage.privacy import InUse, Privacy
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
from support_agent.ports.storage.talk import (
    Conversations,
    Mark,
    Received,
    RunEnd,
    Runs,
    Sender,
)
from support_agent.ports.storage.trail import Audit, Claimed, Outbox, Task, Tasks
from support_agent.ports.storage.usage import UsageCounters, UsageFilter
from support_agent.ports.storage.webhooks import Addressed, ToSend, Webhooks

__all__ = [
    "Addressed",
    "ApiKeyStore",
    "Attempts",
    "Audit",
    "BookTotal",
    "Books",
    "CapKey",
    "CapScope",
    "Claimed",
    "Compaction",
    "Compactions",
    "Conversations",
    "Database",
    "Decisions",
    "Destinations",
    "FactBooked",
    "FactKind",
    "GatewayFact",
    "IdempotencyStore",
    "InFlight",
    "InUse",
    "Inbox",
    "InboxEntry",
    "Installation",
    "MadeBy",
    "Mark",
    "Mine",
    "Mismatch",
    "Outbox",
    "Page",
    "PayoutDestination",
    "People",
    "Policies",
    "Posting",
    "Preference",
    "Preferences",
    "Privacy",
    "Quotes",
    "Received",
    "Rehearsal",
    "Reply",
    "Reports",
    "RequestFilter",
    "Requests",
    "Reused",
    "RunEnd",
    "Runs",
    "Sender",
    "Shortage",
    "Slot",
    "StoredPolicy",
    "Switch",
    "SwitchName",
    "Switches",
    "Tally",
    "Task",
    "Tasks",
    "ToSend",
    "Transaction",
    "Unreadable",
    "UsageCounters",
    "UsageFilter",
    "Webhooks",
]

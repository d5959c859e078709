"""Where something about a customer is stored, and what erasing takes out of it.

A test holds this against the tables: each personal column is erased here, or belongs to the shop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.access import IdempotencyRow
from support_agent.adapters.db.tables.books import (
    CapCounter,
    LedgerEntry,
    LineBalance,
    OrderBalance,
    PaymentBalance,
)
from support_agent.adapters.db.tables.compactions import CompactionRow
from support_agent.adapters.db.tables.memory import PreferenceRow
from support_agent.adapters.db.tables.requests import (
    QuoteRow,
    RefundAttemptRow,
    RefundDecisionRow,
    RefundRequestRow,
)
from support_agent.adapters.db.tables.switches import PayoutDestinationRow
from support_agent.adapters.db.tables.talk import (
    ConversationRow,
    MessageRow,
    RunRow,
    StepRow,
    ToolCallRow,
)
from support_agent.adapters.db.tables.trail import AuditEventRow, OutboxRow, TaskRow
from support_agent.adapters.db.tables.usage import UsageCounter
from support_agent.domain.conversation import Assurance
from support_agent.domain.people import PrincipalKind
from support_agent.domain.usage import Scope
from support_agent.ports.storage import CapScope
from support_agent.services.outgoing import CUSTOMER

Ids = Any  # a SELECT of conversation ids, or a list of them
Condition = sa.ColumnElement[bool]

CONVERSATIONS = table_of(ConversationRow)
MESSAGES = table_of(MessageRow)
RUNS = table_of(RunRow)
STEPS = table_of(StepRow)
CALLS = table_of(ToolCallRow)
COMPACTIONS = table_of(CompactionRow)
TASKS = table_of(TaskRow)
OUTBOX = table_of(OutboxRow)
USAGE = table_of(UsageCounter)
PREFERENCES = table_of(PreferenceRow)
DESTINATIONS = table_of(PayoutDestinationRow)
QUOTES = table_of(QuoteRow)
REQUESTS = table_of(RefundRequestRow)
DECISIONS = table_of(RefundDecisionRow)
ATTEMPTS = table_of(RefundAttemptRow)
ORDERS = table_of(OrderBalance)
LINES = table_of(LineBalance)
PAYMENTS = table_of(PaymentBalance)
LEDGER = table_of(LedgerEntry)
CAPS = table_of(CapCounter)
EVENTS = table_of(AuditEventRow)
REPLIES = table_of(IdempotencyRow)

# Tables that stand for the shop's own system. What is in them is the shop's to erase, there.
OF_THE_SHOP = frozenset({"shop_customers", "shop_orders"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The rows of a table that speak of somebody, and what becomes of them.

    Attributes:
        rows: those of some conversations, or of a customer.
        emptied: what personal columns hold after it; the rest of the row stays.
        deleted: those of the rows that go as a whole; None keeps all.
    """

    table: sa.Table
    rows: Callable[[Any], Condition]
    emptied: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    deleted: Condition | None = None


def _runs_in(conversations: Ids) -> sa.Select[str]:
    return sa.select(RUNS.c.id).where(RUNS.c.conversation_id.in_(conversations))


def conversations_of(customer_id: str) -> sa.Select[str]:
    """Ids of all that were ever bound to the customer."""
    return sa.select(CONVERSATIONS.c.id).where(CONVERSATIONS.c.customer_id == customer_id)


def proved_conversations_of(customer_id: str) -> sa.Select[str]:
    """Ids of those that were opened by whoever proved to be the customer."""
    return conversations_of(customer_id).where(CONVERSATIONS.c.assurance == int(Assurance.VERIFIED))


def claimed_conversations_of(customer_id: str) -> sa.Select[str]:
    """Ids of all others: their texts may be another person's."""
    return conversations_of(customer_id).where(CONVERSATIONS.c.assurance < int(Assurance.VERIFIED))


def _requests_of(customer_id: str) -> sa.Select[str]:
    return sa.select(REQUESTS.c.id).where(REQUESTS.c.customer_id == customer_id)


def _orders_of(customer_id: str) -> sa.Select[str]:
    return sa.select(ORDERS.c.order_id).where(ORDERS.c.customer_id == customer_id)


def _things_of(customer_id: str) -> sa.CompoundSelect[str]:
    return sa.union_all(
        conversations_of(customer_id),
        _requests_of(customer_id),
        sa.select(QUOTES.c.id).where(QUOTES.c.customer_id == customer_id),
        sa.select(DESTINATIONS.c.id).where(DESTINATIONS.c.customer_id == customer_id),
        _orders_of(customer_id),
        sa.select(sa.literal(customer_id)),
    )


def _tasks_of(customer_id: str) -> sa.Select[str]:
    """Also those about what staff filed, which has no conversation."""
    about = TASKS.c.subject.in_(_things_of(customer_id))
    in_talk = TASKS.c.conversation_id.in_(conversations_of(customer_id))
    return sa.select(TASKS.c.id).where(sa.or_(about, in_talk))


def _events_of(customer_id: str) -> Condition:
    """That another customer reached for something of theirs would name that one."""
    by_customer = EVENTS.c.actor_kind == PrincipalKind.CUSTOMER
    themselves = EVENTS.c.actor_id == customer_id
    about = sa.or_(
        EVENTS.c.subject.in_(_things_of(customer_id)), EVENTS.c.subject.in_(_tasks_of(customer_id))
    )
    return sa.or_(sa.and_(by_customer, themselves), sa.and_(~by_customer, about))


# An answered call stays one. A name that is no tool's is whatever a model wrote, and of a call that
# was never run nobody has looked whether it is one.
_ANSWERED = sa.case((CALLS.c.content.is_not(None), ""))
_UNCHECKED = ("UNKNOWN_TOOL", "TOO_MANY_CALLS", "NOT_EXECUTED")
_OURS = sa.case((CALLS.c.error_code.in_(_UNCHECKED), ""), (CALLS.c.ok.is_(None), ""))

OF_CONVERSATIONS = (
    Reach(
        table=CONVERSATIONS,
        rows=CONVERSATIONS.c.id.in_,
        emptied={"external_contact": "", "known": None},
    ),
    Reach(
        table=MESSAGES,
        rows=MESSAGES.c.conversation_id.in_,
        # Some channels' ids of messages hold the sender's number.
        emptied={"text": "", "channel_message_id": None},
    ),
    Reach(table=RUNS, rows=RUNS.c.conversation_id.in_),
    Reach(
        table=STEPS,
        rows=lambda ids: STEPS.c.run_id.in_(_runs_in(ids)),
        emptied={"thought": "", "text": "", "provider_state": None},
    ),
    Reach(
        table=CALLS,
        rows=lambda ids: CALLS.c.run_id.in_(_runs_in(ids)),
        emptied={
            "arguments": "",
            "content": _ANSWERED,
            "name": sa.func.coalesce(_OURS, CALLS.c.name),
            "provider_id": "",
        },
    ),
    Reach(
        table=COMPACTIONS,
        rows=COMPACTIONS.c.conversation_id.in_,
        deleted=sa.true(),
    ),
    Reach(
        table=USAGE,
        rows=lambda ids: sa.and_(USAGE.c.scope == Scope.CONVERSATION, USAGE.c.subject.in_(ids)),
        deleted=sa.true(),
    ),
    Reach(
        table=OUTBOX,
        rows=OUTBOX.c.stream.in_,
        deleted=OUTBOX.c.topic == CUSTOMER,
    ),
)

OF_CUSTOMER = (
    Reach(
        table=PREFERENCES,
        rows=lambda customer: PREFERENCES.c.customer_id == customer,
        deleted=sa.true(),
    ),
    Reach(
        table=DESTINATIONS,
        rows=lambda customer: DESTINATIONS.c.customer_id == customer,
        emptied={"account_number": "", "holder": "", "salt": None},
    ),
    Reach(table=QUOTES, rows=lambda customer: QUOTES.c.customer_id == customer),
    Reach(table=REQUESTS, rows=lambda customer: REQUESTS.c.customer_id == customer),
    Reach(
        table=DECISIONS,
        rows=lambda customer: DECISIONS.c.request_id.in_(_requests_of(customer)),
        emptied={"note": None},
    ),
    Reach(table=ATTEMPTS, rows=lambda customer: ATTEMPTS.c.request_id.in_(_requests_of(customer))),
    Reach(
        table=CAPS,
        rows=lambda customer: sa.and_(
            CAPS.c.scope == CapScope.CUSTOMER, CAPS.c.subject == customer
        ),
    ),
    Reach(  # kept: what a customer may use on a day is not used up anew
        table=USAGE,
        rows=lambda customer: sa.and_(USAGE.c.scope == Scope.CUSTOMER, USAGE.c.subject == customer),
    ),
    Reach(table=ORDERS, rows=lambda customer: ORDERS.c.customer_id == customer),
    Reach(table=LINES, rows=lambda customer: LINES.c.order_id.in_(_orders_of(customer))),
    Reach(table=PAYMENTS, rows=lambda customer: PAYMENTS.c.order_id.in_(_orders_of(customer))),
    Reach(table=LEDGER, rows=lambda customer: LEDGER.c.request_id.in_(_requests_of(customer))),
    Reach(table=TASKS, rows=lambda customer: TASKS.c.id.in_(_tasks_of(customer))),
    Reach(table=EVENTS, rows=_events_of),
)

# Erased as well, and not told: they are copies of what is.
COPIES = (
    Reach(
        table=REPLIES,
        rows=lambda customer: REPLIES.c.customer_id == customer,
        deleted=sa.true(),
    ),
)


def erase(connection: sa.Connection, reach: Reach, whose: Any) -> int:  # noqa: ANN401 - ids, or an id
    """How many rows lost something; none of those that were erased before."""
    rows = reach.rows(whose)
    if reach.deleted is not None:
        return connection.execute(sa.delete(reach.table).where(rows, reach.deleted)).rowcount
    if not reach.emptied:
        return 0
    holds_something = sa.or_(
        *(reach.table.c[name].is_distinct_from(value) for name, value in reach.emptied.items())
    )
    emptied = sa.update(reach.table).where(rows, holds_something).values(**reach.emptied)
    return connection.execute(emptied).rowcount

"""One open transaction: a connection and the stores that speak through it."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.db.stores.api_keys import SqlApiKeys
from support_agent.adapters.db.stores.attempts import SqlAttempts
from support_agent.adapters.db.stores.audit import SqlAudit
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.adapters.db.stores.compactions import SqlCompactions
from support_agent.adapters.db.stores.decisions import SqlDecisions
from support_agent.adapters.db.stores.idempotency import SqlIdempotency
from support_agent.adapters.db.stores.memory import SqlPreferences
from support_agent.adapters.db.stores.people import SqlInstallation, SqlPeople, SqlPolicies
from support_agent.adapters.db.stores.privacy import SqlPrivacy
from support_agent.adapters.db.stores.quotes import SqlQuotes
from support_agent.adapters.db.stores.reports import SqlReports
from support_agent.adapters.db.stores.requests import SqlRequests
from support_agent.adapters.db.stores.runs import SqlRuns
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.stores.switches import SqlDestinations, SqlInbox, SqlSwitches
from support_agent.adapters.db.stores.talk import SqlConversations
from support_agent.adapters.db.stores.trail import SqlOutbox, SqlTasks
from support_agent.adapters.db.stores.usage import SqlUsageCounters
from support_agent.adapters.db.stores.webhooks import SqlWebhooks
from support_agent.domain.signing import KeyRing


class SqlTransaction:
    """Stores but the audit keep nothing themselves: making one again costs less than keeping it."""

    def __init__(
        self,
        connection: Connection,
        keys: KeyRing,
        *,
        writable: bool,
        now: Callable[[Connection], datetime] = database_now,
    ) -> None:
        self._connection = connection
        self._now = now
        self._audit = SqlAudit(connection, keys, writable=writable)
        self._seen = Seen(connection)

    @property
    def connection(self) -> Connection:
        """For an adapter whose own statements belong to this transaction."""
        return self._connection

    def seal(self) -> None:
        """The last thing before a commit: what was audited takes its place in the chain."""
        self._audit.seal()

    @property
    def conversations(self) -> SqlConversations:
        return SqlConversations(self._connection)

    @property
    def runs(self) -> SqlRuns:
        return SqlRuns(self._connection)

    @property
    def compactions(self) -> SqlCompactions:
        return SqlCompactions(self._connection)

    @property
    def books(self) -> SqlBooks:
        return SqlBooks(self._connection, self._seen)

    @property
    def quotes(self) -> SqlQuotes:
        return SqlQuotes(self._connection, self._seen)

    @property
    def requests(self) -> SqlRequests:
        return SqlRequests(self._connection, self._seen)

    @property
    def decisions(self) -> SqlDecisions:
        return SqlDecisions(self._connection, self._seen)

    @property
    def attempts(self) -> SqlAttempts:
        return SqlAttempts(self._connection)

    @property
    def people(self) -> SqlPeople:
        return SqlPeople(self._connection)

    @property
    def policies(self) -> SqlPolicies:
        return SqlPolicies(self._connection, self._seen)

    @property
    def installation(self) -> SqlInstallation:
        return SqlInstallation(self._connection)

    @property
    def switches(self) -> SqlSwitches:
        return SqlSwitches(self._connection)

    @property
    def destinations(self) -> SqlDestinations:
        return SqlDestinations(self._connection)

    @property
    def inbox(self) -> SqlInbox:
        return SqlInbox(self._connection)

    @property
    def reports(self) -> SqlReports:
        return SqlReports(self._connection)

    @property
    def usage(self) -> SqlUsageCounters:
        return SqlUsageCounters(self._connection)

    @property
    def preferences(self) -> SqlPreferences:
        return SqlPreferences(self._connection)

    @property
    def privacy(self) -> SqlPrivacy:
        return SqlPrivacy(self._connection)

    @property
    def api_keys(self) -> SqlApiKeys:
        return SqlApiKeys(self._connection)

    @property
    def idempotency(self) -> SqlIdempotency:
        return SqlIdempotency(self._connection)

    @property
    def webhooks(self) -> SqlWebhooks:
        return SqlWebhooks(self._connection)

    def database_now(self) -> datetime:
        return self._now(self._connection)

    @property
    def audit(self) -> SqlAudit:
        return self._audit

    @property
    def outbox(self) -> SqlOutbox:
        return SqlOutbox(self._connection)

    @property
    def tasks(self) -> SqlTasks:
        return SqlTasks(self._connection)

"""How a use case gets a transaction."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from support_agent.ports.storage.access import ApiKeyStore
from support_agent.ports.storage.books import Books
from support_agent.ports.storage.compactions import Compactions
from support_agent.ports.storage.idempotency import IdempotencyStore
from support_agent.ports.storage.memory import Preferences
from support_agent.ports.storage.people import Installation, People, Policies
from support_agent.ports.storage.privacy import Privacy
from support_agent.ports.storage.reports import Reports
from support_agent.ports.storage.requests import Attempts, Decisions, Quotes, Requests
from support_agent.ports.storage.switches import Destinations, Inbox, Switches
from support_agent.ports.storage.talk import Conversations, Runs
from support_agent.ports.storage.trail import Audit, Outbox, Tasks
from support_agent.ports.storage.usage import UsageCounters
from support_agent.ports.storage.webhooks import Webhooks

T = TypeVar("T")


class Transaction(Protocol):
    """One open transaction. Valid only inside the function it was handed to."""

    @property
    def conversations(self) -> Conversations: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def compactions(self) -> Compactions: ...
    @property
    def books(self) -> Books: ...
    @property
    def quotes(self) -> Quotes: ...
    @property
    def requests(self) -> Requests: ...
    @property
    def decisions(self) -> Decisions: ...
    @property
    def attempts(self) -> Attempts: ...
    @property
    def people(self) -> People: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def installation(self) -> Installation: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def tasks(self) -> Tasks: ...
    @property
    def switches(self) -> Switches: ...
    @property
    def destinations(self) -> Destinations: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def reports(self) -> Reports: ...
    @property
    def usage(self) -> UsageCounters: ...
    @property
    def preferences(self) -> Preferences: ...
    @property
    def privacy(self) -> Privacy: ...
    @property
    def api_keys(self) -> ApiKeyStore: ...
    @property
    def webhooks(self) -> Webhooks: ...
    @property
    def idempotency(self) -> IdempotencyStore: ...

    def database_now(self) -> datetime:
        """The database's own clock, aware: what ages of payments are measured by."""
        ...


class Database(Protocol):
    """Runs plain synchronous functions in transactions, on a thread of its own.

    What is short may run on the caller's thread instead: step rows and brief looks, where nothing
    is waited for.

    Invariants:
        - `fn` returns: everything it did is committed. `fn` raises: nothing of it is.
        - A transaction that was handed over finishes before the caller is released; a cancellation
          is raised after it, so the caller knows that it is all or nothing.
        - A call from inside a transaction raises RuntimeError: transactions do not nest.
        - `fn` may be called once only; it must not keep `tx`.

    Raises:
        DatabaseUnavailable: no connection, or locked for longer than the time-out.
    """

    def transact(self, fn: Callable[[Transaction], T], *, durable: bool = True) -> Awaitable[T]:
        """Read and write. `durable=False` is for step rows only: a power cut may lose the last."""
        ...

    def read(self, fn: Callable[[Transaction], T], *, brief: bool = False) -> Awaitable[T]:
        """Read only, on a consistent snapshot; a write inside it fails.

        `brief` promises that it reads a few rows by their keys, so that it may run on the caller's
        own thread.
        """
        ...

    async def aclose(self) -> None:
        """Finish what was handed over, then close every connection."""
        ...


class Rehearsal(Database, Protocol):
    """A database where everything can be tried: whatever a transaction did is undone at its end.

    Its result comes back all the same. Who must not change anything takes this and no `Database`.
    """

    @property
    def keeps_nothing(self) -> Literal[True]: ...

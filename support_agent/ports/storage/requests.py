"""Quotes, refund requests, decisions and payout attempts as they are stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from support_agent.domain.approvals import Decision
from support_agent.domain.refunds import Attempt, AttemptStatus, Quote, RefundRequest, RequestStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` is None on the last."""

    data: tuple[T, ...]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


class Quotes(Protocol):
    def add(self, quote: Quote) -> None: ...

    def get(self, quote_id: str) -> Quote | None: ...

    def supersede(self, conversation_id: str) -> None:
        """Every quote of the conversation that is not filed is void from here on."""
        ...

    def mark_shown(self, quote_ids: Sequence[str], *, seq: int) -> None:
        """Code put them into message `seq`; the last showing is what is answered."""
        ...

    def of_group(self, group_id: str) -> tuple[Quote, ...]:
        """The quotes that are offered and answered as one, in the order in which they were made."""
        ...

    def open_in(self, conversation_id: str) -> tuple[Quote, ...]:
        """Not superseded and not filed; whether they have expired is the caller's to judge."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """None means any."""

    status: RequestStatus | None = None
    customer_id: str | None = None
    order_id: str | None = None
    currency: str | None = None
    least_minor: int | None = None  # amounts from here on, in minor units
    most_minor: int | None = None  # amounts up to here
    level: int | None = None  # needs exactly this level
    filed_before: datetime | None = None
    due_before: datetime | None = None  # somebody should have decided by then


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A request's row that holds what this program never wrote."""

    id: str


class Requests(Protocol):
    """Facts are insert-only; `move` is the one update, `RefundLife.transition` its one caller."""

    def add(self, request: RefundRequest) -> None: ...

    def get(self, request_id: str) -> RefundRequest | None: ...

    def by_quote(self, quote_id: str) -> RefundRequest | None: ...

    def list(
        self, where: RequestFilter, *, limit: int, cursor: str | None = None
    ) -> Page[RefundRequest]:
        """Pending ones by queue rank (oldest first), all others newest first.

        Raises:
            InvalidInput: a cursor that this list did not hand out.
        """
        ...

    def move(self, before: RefundRequest, after: RefundRequest) -> bool:
        """Write the CHANGEABLE fields of `after`, conditional on status and version of `before`.

        The moment of the move is kept by the database's clock. False when somebody else moved it
        first.
        """
        ...

    def of_group(self, group_id: str) -> tuple[RefundRequest, ...]:
        """The requests that are decided as one, in the order in which they were filed."""
        ...

    def due(self, now: datetime, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        """Ids of pending ones past `due_at`, as `in_status` gives them."""
        ...

    def unmoved_since(
        self, status: RequestStatus, before: datetime, *, limit: int
    ) -> tuple[str, ...]:
        """Ids in this status since before then (database clock), oldest first."""
        ...

    def hold(self, request: RefundRequest) -> bool:
        """Lock the row as it stands in `request` until the transaction ends.

        False when somebody else moved it first.
        """
        ...

    def expired(self, now: datetime, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        """Pending past `expires_at`, or approved past `approved_until`, without a live attempt.

        Ids, as `in_status` gives them.
        """
        ...

    def in_status(
        self, statuses: Sequence[RequestStatus], *, limit: int, after: str | None = None
    ) -> tuple[str, ...]:
        """Ids, oldest first, of those filed after the request `after`.

        Ids only, so that a row that cannot be read does not hide the others.
        """
        ...

    def all(self) -> Iterator[RefundRequest | Unreadable]:
        """Every request there is, oldest first; what cannot be read keeps its place."""
        ...


class Decisions(Protocol):
    """Insert-only, by trigger."""

    def add(self, decision: Decision) -> None:
        """One decision of a person per request and round, and one of a proof over all requests.

        Raises:
            AlreadyDecided: by this person, in this round.
            DecisionRefused: EVIDENCE_USED.
        """
        ...

    def of(self, request_id: str) -> tuple[Decision, ...]:
        """Oldest first."""
        ...

    def all(self) -> Iterator[Decision]:
        """Every decision there is, oldest first, streamed."""
        ...


class Attempts(Protocol):
    """At most one attempt per request that is not FAILED (partial unique index)."""

    def add(self, attempt: Attempt) -> bool:
        """False when a live or successful attempt exists."""
        ...

    def live(self, request_id: str) -> Attempt | None:
        """The attempt that is not FAILED."""
        ...

    def of(self, request_id: str) -> tuple[Attempt, ...]: ...

    def due_for_check(
        self, *, sent_after: datetime, checked_before: datetime, limit: int
    ) -> tuple[Attempt, ...]:
        """Succeeded ones sent since then that nobody asked about since; longest unasked first."""
        ...

    def by_provider_id(self, gateway: str, provider_refund_id: str) -> Attempt | None: ...

    def by_key(self, key: str) -> Attempt | None: ...

    def mark_checked(self, attempt_id: str, at: datetime) -> None: ...

    def finish(
        self,
        attempt_id: str,
        status: AttemptStatus,
        *,
        provider_refund_id: str | None,
        error_code: str | None,
    ) -> None: ...

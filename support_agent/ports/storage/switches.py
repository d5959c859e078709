"""Kill switches, payout destinations and the inbox of provider events as they are stored."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class SwitchName(StrEnum):
    PAYOUTS = "payouts"
    AUTO_APPROVAL = "auto_approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Whether something may happen at all. One that was never touched has no row and is on."""

    name: SwitchName
    on: bool
    changed_at: datetime
    changed_by: str


class Switches(Protocol):
    def get(self, name: SwitchName) -> Switch | None: ...

    def put(self, switch: Switch) -> bool:
        """Insert or replace; False when it stood so already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutDestination:
    """A bank account that a customer gave; never changed, a new account is a new row.

    One that was erased has neither number nor holder any more, and nothing is paid to it.
    """

    id: str
    customer_id: str
    bank: str
    account_number: str
    holder: str
    created_at: datetime
    added_by: str
    salt: str | None = None  # in its digest, so that this cannot be guessed once it is erased

    @property
    def masked(self) -> str:
        """What may be shown: the bank and the last four digits."""
        if self.erased:
            return f"{self.bank} (erased)"
        return f"{self.bank} ••••{self.account_number[-4:]}"

    @property
    def erased(self) -> bool:
        """Privacy took number and holder."""
        return not self.account_number


class Destinations(Protocol):
    """Insert-only, by trigger, but that privacy may erase one."""

    def add(self, destination: PayoutDestination) -> None: ...

    def get(self, destination_id: str) -> PayoutDestination | None: ...

    def of_customer(self, customer_id: str) -> tuple[PayoutDestination, ...]:
        """Newest first; the newest is the one in use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """A provider event that was accepted, by its own id; never its body."""

    event_id: str
    gateway: str
    kind: str
    subject: str  # the provider's id of the refund or payment it is about
    created_at: datetime  # as the provider says
    received_at: datetime
    outcome: str


class Inbox(Protocol):
    def add(self, entry: InboxEntry) -> bool:
        """False when this event was accepted before: it changes nothing again."""
        ...

    def get(self, gateway: str, event_id: str) -> InboxEntry | None: ...

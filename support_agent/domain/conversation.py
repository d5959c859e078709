"""Conversations: bound once to a channel and a customer, messages ordered by `seq`."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from support_agent.domain.preferences import Known
from support_agent.domain.reasons import Language


class Assurance(IntEnum):
    """How sure we are who is writing. Order data, quotes and requests need VERIFIED."""

    NONE = 0
    CLAIMED = 1
    VERIFIED = 2


class Author(StrEnum):
    CUSTOMER = "customer"
    AGENT = "agent"
    NOTICE = "notice"  # rendered by code outside a turn: decided, paid, failed, expired
    STAFF = "staff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Bound at creation; the binding never changes."""

    id: str
    channel: str
    account: str
    external_contact: str
    customer_id: str | None
    assurance: Assurance
    language: Language
    created_at: datetime
    handed_off: bool = False
    epoch: int = 0
    last_seq: int = 0  # of the newest message
    known: tuple[Known, ...] = ()  # how the customer wants to be served
    erased: bool = False  # its texts are gone, and it is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `seq` is gapless within its conversation and is what consent is judged by."""

    conversation_id: str
    seq: int
    author: Author
    text: str
    at: datetime
    run_id: str | None = None  # of ours the run that wrote it, of a customer's the one that read it
    read_seq: int | None = None  # the last message there was when it was read, if not itself
    assurance: Assurance | None = None  # how sure its channel was; None: as the conversation is


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A customer's message that no run has read yet, with what its channel said of its sender."""

    seq: int
    text: str
    at: datetime
    operator: str | None
    assurance: Assurance
    waited_s: float  # by the database's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What there is to do in a conversation; seconds by the database's clock."""

    left_s: float  # until its owner's lease is over; not above 0 when nobody has it
    is_running: bool
    newest_s: float | None  # how long the newest unread message waits; None: nothing is unread
    oldest_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A conversation taken for a turn: its epoch, and what was found in it."""

    epoch: int
    has_orphan: bool  # a run that its owner never ended
    has_unread: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A conversation given back, and how it is left."""

    handed_off: bool
    has_unread: bool
    is_listened: bool = False  # whether an endpoint for webhooks is there, to be told of runs

"""Conversations: bound once to a channel and a customer, messages ordered by `seq`."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `seq` is gapless within its conversation and is what consent is judged by."""

    conversation_id: str
    seq: int
    author: Author
    text: str
    at: datetime
    run_id: str | None = None

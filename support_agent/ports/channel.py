"""Where messages leave us: to customers who are not waiting for an answer, and to approvers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.reasons import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCustomer:
    """A message of a conversation, to be shown where the customer writes.

    `id` is the same each time it is tried: a channel that knows it already shows nothing again.
    """

    id: str
    channel: str
    account: str
    external_contact: str
    conversation_id: str
    seq: int
    text: str
    language: Language


@dataclass(frozen=True, slots=True, kw_only=True)
class ToApprovers:
    """That a request waits for somebody of this level; everything else is in its brief."""

    id: str
    request_id: str
    order_id: str
    amount_minor: int
    currency: str
    required_level: int
    escalations: int
    due_at: datetime


class CustomerChannel(Protocol):
    """Sends to customers.

    Raises:
        ChannelUnavailable: it was not, or may not have been, delivered; it is tried again.
    """

    async def send(self, message: ToCustomer) -> None: ...


class ApproverChannel(Protocol):
    """Tells approvers; raises as `CustomerChannel`."""

    async def tell(self, notice: ToApprovers) -> None: ...

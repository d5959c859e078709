"""Events that we send to other systems: which there are, and how often one is tried."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

MINUTE_S, HOUR_S = 60.0, 3_600.0
# The retry schedule that Standard Webhooks recommends: how long before each try.
PAUSES_S = (
    *(0.0, 5.0, 5 * MINUTE_S, 30 * MINUTE_S),
    *(2 * HOUR_S, 5 * HOUR_S, 10 * HOUR_S, 14 * HOUR_S, 20 * HOUR_S, 24 * HOUR_S),
)
JITTER = 0.2  # of a pause, on top of it, so that what failed together does not come back together
LONGEST_WISH_S = 24 * HOUR_S  # of the endpoint's own, by Retry-After
OVERLAP_S = 24 * HOUR_S  # that the secret before still signs, once there is a new one


class EventType(StrEnum):
    """What an endpoint can subscribe to. Stored and sent; never renamed."""

    RUN_COMPLETED = "run.completed"
    RUN_HANDED_OFF = "run.handed_off"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_ESCALATED = "approval.escalated"
    APPROVAL_DECIDED = "approval.decided"
    REFUND_EXECUTED = "refund.executed"
    REFUND_FAILED = "refund.failed"


class EndpointState(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """Where events are sent. Its secret is made from `key_id`, its id and `generation`.

    Attributes:
        disabled_reason: `gone` when the endpoint said so itself, `staff` when somebody did.
        previous_key_id: of the generation before; None in the first.
        rotated_at: when this generation began, in seconds by the database's clock.
    """

    id: str
    url: str
    events: tuple[EventType, ...]
    state: EndpointState
    key_id: str
    created_at: datetime
    created_by: str
    disabled_reason: str | None = None
    previous_key_id: str | None = None
    generation: int = 1
    rotated_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent:
    """One event, the same for every endpoint and every try; ids and codes only."""

    id: str
    type: EventType
    at: datetime
    data: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """One event on its way to one endpoint. `ended_at` is None while it is pending."""

    id: str
    endpoint_id: str
    event_id: str
    type: EventType
    state: DeliveryState
    attempts: int
    retry_at: float
    last_status: int | None
    last_error: str | None
    created_at: datetime
    ended_at: datetime | None


_COUNTS = frozenset({"amount_minor", "version", "required_level", "escalations"})
_OF_REQUEST = ("request_id", "order_id", "amount_minor", "currency", "status", "version")
_OF_RUN = ("run_id", "conversation_id", "status", "stop_reason")
_TOLD: Mapping[EventType, tuple[str, ...]] = MappingProxyType(
    {
        EventType.RUN_COMPLETED: _OF_RUN,
        EventType.RUN_HANDED_OFF: _OF_RUN,
        EventType.APPROVAL_REQUESTED: (*_OF_REQUEST, "required_level", "reason"),
        EventType.APPROVAL_ESCALATED: (*_OF_REQUEST, "required_level", "escalations"),
        EventType.APPROVAL_DECIDED: _OF_REQUEST,
        EventType.REFUND_EXECUTED: _OF_REQUEST,
        EventType.REFUND_FAILED: _OF_REQUEST,
    }
)


_SURE: Mapping[str, EventType] = MappingProxyType(
    {
        EventType.RUN_COMPLETED: EventType.RUN_COMPLETED,
        EventType.RUN_HANDED_OFF: EventType.RUN_HANDED_OFF,
        "refund.approved": EventType.APPROVAL_DECIDED,
        "refund.rejected": EventType.APPROVAL_DECIDED,
        "refund.refunded": EventType.REFUND_EXECUTED,
        "refund.failed": EventType.REFUND_FAILED,
    }
)
_WAITING = frozenset({"refund.filed", "refund.pending_approval"})
# What may become an event, by the topic of the outbox.
TOPICS = frozenset(_SURE) | _WAITING


def event_of(
    topic: str, key: str, facts: Mapping[str, str], *, at: datetime
) -> WebhookEvent | None:
    """What a row of the outbox is to other systems; None when it is nothing to them.

    `facts` are the row's body; what it does not say, as one of an older version, is left out.
    """
    kind = _type_of(topic, facts)
    if kind is None:
        return None
    told: dict[str, str | int | bool] = {
        name: int(facts[name]) if name in _COUNTS else facts[name]
        for name in _TOLD[kind]
        if name in facts
    }
    match kind:
        case EventType.APPROVAL_DECIDED:
            told["decision"] = topic.removeprefix("refund.")
        case EventType.REFUND_EXECUTED:
            told["by_hand"] = facts.get("was") == "MANUAL_REVIEW"
        case EventType.REFUND_FAILED:
            told["late"] = facts.get("was") == "REFUNDED"
    return WebhookEvent(id=event_id(key, kind, told), type=kind, at=at, data=told)


def event_id(key: str, kind: EventType, data: Mapping[str, str | int | bool]) -> str:
    """By what happened alone, so that it is the same again after a restored backup.

    Not by the key alone: from a backup a request may go another way than it went before, under the
    same numbers, and who has seen the first event would take the second for it.
    """
    told = json.dumps([key, kind, data], ensure_ascii=False, sort_keys=True)
    return f"evt_{hashlib.sha256(f'webhook event {told}'.encode()).hexdigest()[:32]}"


def _type_of(topic: str, facts: Mapping[str, str]) -> EventType | None:
    return _type_of_waiting(facts) if topic in _WAITING else _SURE.get(topic)


def _type_of_waiting(facts: Mapping[str, str]) -> EventType | None:
    """None of what was approved as it was filed, and while the customer is asked something."""
    if facts.get("reason") == "ESCALATED":
        return EventType.APPROVAL_ESCALATED
    waits = facts.get("status") == "PENDING_APPROVAL" and not facts.get("asked")
    return EventType.APPROVAL_REQUESTED if waits else None


def pause_s(tries: int, *, jitter: float, wished_s: float | None = None) -> float | None:
    """How long after so many tries the next one comes; None when it was the last.

    Args:
        tries: those that were made.
        jitter: a number from 0 to 1, another one each time.
        wished_s: for how long the endpoint asked to be left alone.
    """
    if tries >= len(PAUSES_S):
        return None
    pause = PAUSES_S[tries] * (1 + JITTER * jitter)
    return max(pause, min(wished_s or 0.0, LONGEST_WISH_S))

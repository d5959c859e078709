"""Events that Stripe sends: the signature on the raw bytes first, then what the event is about."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from support_agent.adapters.foreign_json import no_constant, once_each
from support_agent.adapters.payments.stripe_amounts import from_api
from support_agent.adapters.payments.stripe_objects import (
    KEPT,
    LOST,
    NAME,
    Json,
    names_of,
    number,
    text,
)
from support_agent.domain.errors import EventRefused, PaymentOutcomeUnknown
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import PaymentRef

HEADER = "stripe-signature"
WINDOW_S = 300  # how old, and how far ahead, a signature may be
LONGEST = 1024 * 1024  # far above any event about one payment
_LONGEST_HEADER = 4096

_SIGNED_AT = re.compile(r"t=([0-9]{1,11})")
_EVENT = re.compile(r"evt_[A-Za-z0-9_]{1,250}")
_ABOUT_A_REFUND = frozenset(
    {"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"}
)


class StripeEvents:
    """Tells an event of Stripe's, signed with one of our secrets, from any other bytes.

    The account and the mode that an event names are handed on; whoever takes it compares them.
    """

    def __init__(self, *, secrets: Sequence[str], account: str) -> None:
        """`secrets` are those of our endpoint, several while one is being replaced.

        `account` is meant where an event names none: Stripe names only connected accounts.
        """
        self._secrets = tuple(secrets)
        self._account = account

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> ProviderEvent:
        """The event in these bytes; see the port.

        Raises:
            EventRefused: not signed with one of our secrets within 300 seconds of `now`, too
                large, or not readable.
        """
        if len(body) > LONGEST:
            _refuse(f"larger than {LONGEST} bytes")
        header = _header(headers)
        self._check_time(header, now)
        self._check_signature(body, header)
        try:
            return self._read(_parsed(body))
        except PaymentOutcomeUnknown as error:
            raise EventRefused(f"the event cannot be read: {error}") from error

    def _check_time(self, header: str, now: datetime) -> None:
        # The package knows old signatures only; one of next year could be kept and played then.
        # It reads the first "t" as `int` does, "+1" and "1_0" too: what it might read is judged.
        moments = [part for part in header.split(",") if part.partition("=")[0].strip() == "t"]
        signed_at = _SIGNED_AT.fullmatch(moments[0]) if len(moments) == 1 else None
        if signed_at is None:
            _refuse("its signature names no moment, or several")
        if abs(now.timestamp() - int(signed_at[1])) > WINDOW_S:
            _refuse(f"signed more than {WINDOW_S} seconds before or after now")

    def _check_signature(self, body: bytes, header: str) -> None:
        from stripe import SignatureVerificationError, WebhookSignature

        for secret in self._secrets:
            try:
                # Compares in constant time with each v1 signature of the header.
                WebhookSignature.verify_header(body, header, secret)
            except (SignatureVerificationError, TypeError, ValueError):
                continue  # ValueError: bytes that are no UTF-8; TypeError: a signature of no ASCII
            return
        _refuse("not signed with any of our secrets")

    def _read(self, event: Json) -> ProviderEvent:
        data = event.get("data")
        about = data.get("object") if isinstance(data, Mapping) else None
        livemode, identifier = event.get("livemode"), text(event, "id")
        if event.get("object") != "event" or not isinstance(about, Mapping):
            _refuse("no event with an object in it")
        if not isinstance(livemode, bool) or not _EVENT.fullmatch(identifier):
            _refuse("it has no mode, or no id of Stripe's")
        account = text(event, "account") if event.get("account") else self._account
        return ProviderEvent(
            id=identifier,
            gateway=NAME,
            account=account,
            livemode=livemode,
            created_at=_moment(number(event, "created")),
            **_told(text(event, "type"), about, account),
        )


def _told(kind: str, about: Json, account: str) -> dict[str, Any]:
    """What an event of this type says, by the object in it."""
    if kind in _ABOUT_A_REFUND:
        refund_id = text(about, "id")
        return {
            "kind": EventKind.REFUND,
            **_payment(about, account),
            "provider_refund_id": refund_id,
        }
    if kind == "charge.refunded":  # the charge, with a sum over its refunds and none by itself
        names = {"payment_intent": about.get("payment_intent"), "charge": text(about, "id")}
        return {"kind": EventKind.REFUND, **_payment(names, account)}
    if kind.startswith("charge.dispute."):
        currency = text(about, "currency").upper()
        return {
            "kind": _standing(about),
            **_payment(about, account),
            "dispute_id": text(about, "id"),
            "amount_minor": from_api(number(about, "amount"), currency),
            "currency": currency,
        }
    return {"kind": EventKind.OTHER, "payment": None}


def _standing(dispute: Json) -> EventKind:
    """By the dispute's own status, so that events out of order say the same as in order."""
    status = dispute.get("status")
    if status in LOST:
        return EventKind.DISPUTE_LOST
    return EventKind.DISPUTE_WON if status in KEPT else EventKind.DISPUTE_OPENED


def _payment(about: Json, account: str) -> dict[str, Any]:
    payment_id, other = names_of(about)
    if payment_id is None:
        return {"payment": None}
    payment = PaymentRef(gateway=NAME, account=account, gateway_payment_id=payment_id)
    return {"payment": payment, "other_payment_id": other}


def _header(headers: Mapping[str, str]) -> str:
    found = [value for name, value in headers.items() if name.lower() == HEADER]
    if len(found) != 1 or len(found[0]) > _LONGEST_HEADER:
        _refuse("it has no signature header, several, or too long a one")
    return found[0]


def _parsed(body: bytes) -> Json:
    try:
        event = json.loads(body.decode(), object_pairs_hook=once_each, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise EventRefused(f"the event is no JSON: {type(error).__name__}") from error
    if not isinstance(event, dict):
        _refuse("no JSON object")
    return event


def _moment(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise EventRefused("the event was made at no moment of any calendar") from error


def _refuse(why: str) -> NoReturn:
    raise EventRefused(f"the event is refused: {why}")

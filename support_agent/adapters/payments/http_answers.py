"""Answers of the shop's refund endpoint, read with suspicion."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from support_agent.adapters.foreign_json import once_each
from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.domain.money import MAX_MINOR
from support_agent.ports.payments import GatewayRefund, GatewayStatus, PaymentRef, PaymentState

NAME = "http"
LONGEST = 500  # characters of an id

Json = Mapping[str, Any]

_STATUS = {status.value: status for status in GatewayStatus}


def read_object(body: bytes) -> Json:
    """A JSON object in UTF-8, in which no name stands twice and no number is a fraction.

    Raises:
        PaymentOutcomeUnknown: it is anything else.
    """
    try:
        data = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=once_each,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:
        raise PaymentOutcomeUnknown("the refund endpoint's answer cannot be read") from error
    if not isinstance(data, dict):
        raise PaymentOutcomeUnknown("the refund endpoint's answer is no object")
    return data


def error_code(body: bytes) -> str | None:
    """The code of a refusal, where there is one that can be read."""
    try:
        told = read_object(body).get("error")
    except PaymentOutcomeUnknown:
        return None
    code = told.get("code") if isinstance(told, dict) else None
    return code if isinstance(code, str) else None


def refund_of(data: object) -> GatewayRefund:
    """A refund as the shop tells it; what it tells is compared with what was asked elsewhere.

    Raises:
        PaymentOutcomeUnknown: it cannot be read.
    """
    refund = _object(data, "refund")
    return GatewayRefund(
        provider_refund_id=text(refund, "id"),
        key=_optional(refund, "key") or "",
        payment=PaymentRef(
            gateway=NAME,
            account=text(refund, "account"),
            gateway_payment_id=text(refund, "payment_id"),
        ),
        # A status that we do not know is neither paid nor failed: it is asked for again.
        status=_STATUS.get(text(refund, "status"), GatewayStatus.PENDING),
        amount_minor=number(refund, "amount_minor"),
        currency=text(refund, "currency"),
        failure_code=_optional(refund, "failure_code"),
    )


def state_of(data: object, *, asked: PaymentRef) -> PaymentState:
    """A payment as the shop tells it.

    Raises:
        PaymentOutcomeUnknown: it cannot be read, or is about another payment.
    """
    payment = _object(data, "payment")
    if text(payment, "id") != asked.gateway_payment_id:
        raise PaymentOutcomeUnknown("the refund endpoint told of another payment")
    return PaymentState(
        captured_minor=number(payment, "captured_minor"),
        refunded_minor=number(payment, "refunded_minor"),
        disputed=flag(payment, "disputed"),
        account=text(payment, "account"),
        livemode=flag(payment, "livemode"),
        charged_back_minor=number(payment, "charged_back_minor"),
    )


def text(data: Json, field: str) -> str:
    """A field that has to be there."""
    value = _optional(data, field)
    if value is None:
        raise PaymentOutcomeUnknown(f"the refund endpoint's answer has no {field!r}")
    return value


def number(data: Json, field: str) -> int:
    """A field that has to be a whole number, 0 or more; True is none."""
    value = data.get(field)
    if type(value) is not int or not 0 <= value <= MAX_MINOR:
        raise PaymentOutcomeUnknown(f"the refund endpoint's answer has no whole number {field!r}")
    return value


def flag(data: Json, field: str) -> bool:
    """A field that has to be true or false."""
    value = data.get(field)
    if not isinstance(value, bool):
        raise PaymentOutcomeUnknown(f"the refund endpoint's answer does not say {field!r}")
    return value


def _object(data: object, what: str) -> Json:
    if not isinstance(data, dict):
        raise PaymentOutcomeUnknown(f"the refund endpoint's answer has no {what!r}")
    return data


def _optional(data: Json, field: str) -> str | None:
    value = data.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise PaymentOutcomeUnknown(f"the refund endpoint's answer has no sound {field!r}")
    return value


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number} is no whole number")

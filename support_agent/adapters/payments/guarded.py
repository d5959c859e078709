"""A shop's own gateway class, held to what the port promises."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import structlog

from support_agent.adapters.foreign import fault_of, is_ours_to_raise
from support_agent.domain.errors import PaymentDeclined, PaymentError, PaymentOutcomeUnknown
from support_agent.domain.money import MAX_MINOR
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentGateway,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)

T = TypeVar("T")
log = structlog.get_logger(__name__)
_END: Any = object()
LONGEST = 500  # characters of an id or a code


class GuardedGateway:
    """`PaymentGateway` over a foreign one.

    What it raises beside the port's errors, and what is no answer, is an unknown outcome: the money
    may have gone.
    """

    def __init__(self, gateway: PaymentGateway) -> None:
        """What it says of itself is read once: it does not change while it runs."""
        self.name = gateway.name
        self.livemode = gateway.livemode
        self.books_only = gateway.books_only
        self._gateway = gateway

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        return _refund(await _answered(lambda: self._gateway.refund(instruction)))

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        found = await _answered(lambda: self._gateway.find(instruction))
        return None if found is None else _refund(found)

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        found = await _answered(lambda: self._gateway.get(provider_refund_id, payment))
        return None if found is None else _refund(found)

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        listed: Any = None
        try:
            listed = await _answered(lambda: _begun(self._gateway, since))
            while (one := await _answered(lambda: anext(listed, _END))) is not _END:
                yield _refund(one)
        finally:
            close = getattr(listed, "aclose", None)
            if close is not None:
                await _answered(close)

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        return _state(await _answered(lambda: self._gateway.payment_state(payment)))

    async def aclose(self) -> None:
        await self._gateway.aclose()


async def _begun(gateway: PaymentGateway, since: datetime) -> AsyncIterator[GatewayRefund]:
    return aiter(gateway.refunds_since(since))


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    try:
        return await ask()
    except PaymentDeclined as declined:
        if not _is_text(str(declined)):  # it is kept as the code of the failure
            raise PaymentDeclined("declined") from declined
        raise
    except PaymentError:
        raise
    except BaseException as error:
        if is_ours_to_raise(error):
            raise
        log.error("payments.class_failed", problem=fault_of(error))  # noqa: TRY400 - see there
        raise PaymentOutcomeUnknown(
            f"the shop's gateway class failed ({type(error).__name__})"
        ) from error


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise PaymentOutcomeUnknown(f"the shop's gateway class cannot be understood: {problem}")


def _refund(found: Any) -> GatewayRefund:  # noqa: ANN401 - of a class that is not ours
    """What was answered, when each part is of its type; that it is what was asked is seen later."""
    if not isinstance(found, GatewayRefund):
        raise PaymentOutcomeUnknown(
            "the shop's gateway class answered something else than a refund"
        )
    payment: Any = found.payment
    _must(isinstance(payment, PaymentRef), "a refund's payment is no PaymentRef")
    ids = (payment.gateway, payment.account, payment.gateway_payment_id, found.provider_refund_id)
    _must(all(_is_text(value) and value for value in ids), "an id is no text")
    _must(_is_text(found.key), "a refund's key is no text")
    _must(isinstance(found.status, GatewayStatus), "a refund's status is no GatewayStatus")
    _must(_is_amount(found.amount_minor), "an amount is no whole number of minor units")
    _must(_is_text(found.currency), "a currency is no text")
    others = (found.failure_code, found.other_payment_id)
    _must(all(value is None or _is_text(value) for value in others), "a code is no text")
    return found


def _state(found: Any) -> PaymentState:  # noqa: ANN401 - of a class that is not ours
    if not isinstance(found, PaymentState):
        raise PaymentOutcomeUnknown("the shop's gateway class answered something else than a state")
    amounts = (found.captured_minor, found.refunded_minor, found.charged_back_minor)
    _must(all(map(_is_amount, amounts)), "an amount is no whole number of minor units")
    _must(isinstance(found.account, str), "the account is no text")
    flags = (found.disputed, found.livemode)
    _must(all(isinstance(flag, bool) for flag in flags), "a flag is neither True nor False")
    return found


def _is_text(value: object) -> bool:
    """Whether a database can keep it and a terminal show it."""
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def _is_amount(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_MINOR

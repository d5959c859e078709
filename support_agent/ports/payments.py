"""The payment gateway: the only place where money leaves."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundInstruction:
    """Exactly what is sent; committed before the call and never changed after it.

    `amount_minor` counts minor units of `currency` by its own exponent (VND has none).
    """

    key: str
    request_id: str
    gateway: str
    account: str
    gateway_payment_id: str
    amount_minor: int
    currency: str


class GatewayStatus(StrEnum):
    SUCCEEDED = "succeeded"
    PENDING = "pending"
    REQUIRES_ACTION = "requires_action"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRefund:
    """A refund as the gateway tells it."""

    provider_refund_id: str
    key: str
    status: GatewayStatus
    amount_minor: int
    currency: str
    failure_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentState:
    """A payment as the gateway tells it; amounts in minor units."""

    captured_minor: int
    refunded_minor: int
    disputed: bool
    account: str
    livemode: bool


class PaymentGateway(Protocol):
    """Refunds a payment, once per key.

    Invariants:
        - The same key with the same parameters answers with the same refund, at any time, from any
          process; with other parameters it is refused and nothing is paid.
        - `find` sees every refund that `refund` ever made, also when its answer was lost.

    Raises:
        PaymentDeclined: positive evidence that nothing was executed.
        PaymentOutcomeUnknown: anything else that is not an answer (time-out, reset, 5xx, 404).
    """

    name: str
    livemode: bool
    books_only: bool  # it only records: the customer is told "recorded", not "refunded"

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund: ...

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None: ...

    async def payment_state(self, instruction: RefundInstruction) -> PaymentState: ...

    async def aclose(self) -> None: ...

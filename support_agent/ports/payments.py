"""The payment gateway: the only place where money leaves."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRef:
    """Names one captured payment at its gateway."""

    gateway: str
    account: str
    gateway_payment_id: str


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

    @property
    def payment(self) -> PaymentRef:
        return PaymentRef(
            gateway=self.gateway,
            account=self.account,
            gateway_payment_id=self.gateway_payment_id,
        )


class GatewayStatus(StrEnum):
    SUCCEEDED = "succeeded"
    PENDING = "pending"
    REQUIRES_ACTION = "requires_action"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRefund:
    """A refund as the gateway tells it. `key` is empty for one that we never sent."""

    provider_refund_id: str
    key: str
    payment: PaymentRef
    status: GatewayStatus
    amount_minor: int
    currency: str
    failure_code: str | None = None
    # Another id of the same payment (Stripe: the charge of a payment intent); ours may be either.
    other_payment_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentState:
    """A payment as the gateway tells it; amounts in minor units."""

    captured_minor: int
    refunded_minor: int
    disputed: bool
    account: str
    livemode: bool
    charged_back_minor: int = 0  # taken back by the customer's bank, and not won back


class PaymentGateway(Protocol):
    """Refunds a payment, once per key.

    Invariants:
        - The same key with the same parameters answers with the same refund, from any process, for
          at least 24 hours; with other parameters it is refused and nothing is paid. A gateway may
          forget a key after that: whoever sends one again is younger, or asks `find` first.
        - `find` sees every refund that `refund` ever made, also when its answer was lost.
        - An answer names the amount, currency and payment that were really refunded; the caller
          compares them with what it asked for. Amounts are never rounded: one that the gateway
          cannot express is declined before anything is sent.
        - More than what is left of a payment, or a payment that does not exist, is never paid; an
          answer that leaves open whether an earlier refund of ours took it is an unknown outcome.

    Raises:
        PaymentDeclined: positive evidence that nothing was executed.
        IdempotencyMismatch: the key is known with other parameters.
        GatewayBusy: nothing was executed yet (409 key in use, 429); the same key may be sent later.
        GatewayRefusesUs: nothing was executed, our credentials are not accepted (401, 403).
        PaymentOutcomeUnknown: anything else that is not an answer (time-out, reset, 5xx, 404).
    """

    name: str
    livemode: bool
    books_only: bool  # it only records: the customer is told "recorded", not "refunded"

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund: ...

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        """The refund of this key, looked for over all the payment's refunds."""
        ...

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        """One refund as it is now; None when the gateway does not know it."""
        ...

    def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        """Every refund of the account made since then, ours and others', over all pages."""
        ...

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        """The payment as it is now, in the name of the account that our credentials belong to.

        Raises:
            PaymentDeclined: `payment_unknown`.
        """
        ...

    async def aclose(self) -> None: ...

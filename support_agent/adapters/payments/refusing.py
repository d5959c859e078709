"""A gateway for those who must not reach one: it has the name of the real one and refuses."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import NoReturn

from support_agent.domain.errors import EventRefused, GatewayRefusesUs, SupportAgentError
from support_agent.ports.payments import (
    GatewayRefund,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)


class RefusingGateway:
    """Nothing is ever sent, not even a question."""

    def __init__(
        self,
        *,
        name: str,
        livemode: bool,
        books_only: bool,
        why: str,
        error: Callable[[str], SupportAgentError] = GatewayRefusesUs,
    ) -> None:
        self.name = name
        self.livemode = livemode
        self.books_only = books_only
        self._why = why
        self._error = error

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        raise self._error(self._why)

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        raise self._error(self._why)

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        raise self._error(self._why)

    def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        raise self._error(self._why)

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        raise self._error(self._why)

    async def aclose(self) -> None:
        pass


class RefusingEvents:
    """Where nobody reports, whatever calls itself an event is refused."""

    def __init__(self, why: str) -> None:
        self._why = why

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> NoReturn:
        raise EventRefused(self._why)

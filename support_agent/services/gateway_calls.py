"""Asking the gateway: with a time-out, and in the words of a stored attempt or request."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from support_agent.domain.errors import GatewayRefusesUs, PaymentOutcomeUnknown
from support_agent.domain.refunds import Attempt, RefundRequest
from support_agent.ports.payments import GatewayRefund, PaymentGateway, RefundInstruction

T = TypeVar("T")
MOST_SILENCES = 3  # of requests in a row: then it is of no use to ask on


class GatewayCalls:
    """Waits for answers; silence is an unknown outcome, never a failure."""

    def __init__(self, *, gateway: PaymentGateway, timeout_s: float) -> None:
        self.gateway = gateway
        self._timeout_s = timeout_s
        self._silences = 0  # calls that took the whole time-out and brought nothing
        self._refusals = 0

    async def ask(self, call: Awaitable[T]) -> T:
        """The gateway's answer.

        Raises:
            PaymentOutcomeUnknown: none within the time-out.
            PaymentError: as the port says.
        """
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await call
        except TimeoutError as error:
            self._silences += 1
            raise PaymentOutcomeUnknown(f"gateway {self.gateway.name!r} timed out") from error
        except PaymentOutcomeUnknown:
            # An adapter has a time-out of its own; an error that comes at once costs no time.
            self._silences += time.monotonic() - started > self._timeout_s / 2
            raise
        except GatewayRefusesUs:
            self._refusals += 1
            raise
        return answer

    def worth_asking(self) -> Callable[[], bool]:
        """For one sweep: asked before each request, whether to go on with it.

        No longer once the gateway refuses us, or hung for each of the last few requests.
        """
        heard, refusals, in_a_row = self._silences, self._refusals, 0

        def going_on() -> bool:
            nonlocal heard, in_a_row
            in_a_row = in_a_row + 1 if self._silences > heard else 0
            heard = self._silences
            return in_a_row < MOST_SILENCES and self._refusals == refusals

        return going_on

    def knows(self, attempt: Attempt) -> bool:
        """Whether it was sent to the gateway that is asked here: of another's it tells nothing."""
        return attempt.gateway == self.gateway.name

    async def known(self, attempt: Attempt) -> GatewayRefund | None:
        """What it knows of an attempt: by its own id if we have it, then by our key."""
        sent = sent_by(attempt)
        if attempt.provider_refund_id is not None:
            found = await self.ask(self.gateway.get(attempt.provider_refund_id, sent.payment))
            if found is not None:
                return found
        return await self.ask(self.gateway.find(sent))

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        """Every refund of the account since then; the time-out is for each of them."""
        refunds = self.gateway.refunds_since(since)
        try:
            while (refund := await self.ask(anext(refunds, None))) is not None:
                yield refund
        finally:
            close = getattr(refunds, "aclose", None)  # what is not read to its end
            if close is not None:
                await close()


def instruction_of(request: RefundRequest) -> RefundInstruction:
    """Names the payment of a request, to ask about it; nothing is ever sent without a key."""
    return RefundInstruction(
        key="",
        request_id=request.id,
        gateway=request.gateway,
        account=request.account,
        gateway_payment_id=request.gateway_payment_id,
        amount_minor=request.amount_minor,
        currency=request.currency,
    )


def sent_by(attempt: Attempt) -> RefundInstruction:
    """Exactly what an attempt sends: from its committed row, every time the same bytes."""
    return RefundInstruction(
        key=attempt.key,
        request_id=attempt.request_id,
        gateway=attempt.gateway,
        account=attempt.account,
        gateway_payment_id=attempt.gateway_payment_id,
        amount_minor=attempt.amount_minor,
        currency=attempt.currency,
    )

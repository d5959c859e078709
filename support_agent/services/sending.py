"""Sending one attempt to the gateway, and telling what each of its answers means."""

import structlog

from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
)
from support_agent.domain.refunds import Attempt, RefundRequest
from support_agent.ports.storage import Database
from support_agent.services.breaker import Breaker
from support_agent.services.gateway_calls import GatewayCalls, sent_by
from support_agent.services.outcomes import Outcomes
from support_agent.services.stored_requests import stored_request

log = structlog.get_logger(__name__)
# Declined with one of these, an earlier sending of the same bytes may have been paid all the same:
# it is what took the amount, or another place was asked this time than then.
SAYS_NOTHING_OF_EARLIER = frozenset(
    {
        "account_mismatch",
        "amount_above_captured",
        "livemode_mismatch",
        "payment_not_refundable",
        "payment_unknown",
    }
)


class Sending:
    """Sends exactly what a committed attempt says; who calls has proved that it may be sent."""

    def __init__(
        self, *, database: Database, calls: GatewayCalls, outcomes: Outcomes, breaker: Breaker
    ) -> None:
        self._database = database
        self._calls = calls
        self._outcomes = outcomes
        self._breaker = breaker

    async def send(
        self, attempt: Attempt, *, notify: bool, again: bool = False, doubt_told: bool = False
    ) -> RefundRequest:
        """What became of the request.

        Args:
            attempt: what to send.
            notify: tell the customer what came of it.
            again: the same bytes may have been sent before.
            doubt_told: the customer knows already that the outcome is not known.
        """
        try:
            answer = await self._calls.ask(self._calls.gateway.refund(sent_by(attempt)))
        except PaymentDeclined as declined:
            if again:
                return await self._declined_again(attempt, declined, notify=notify)
            return await self._outcomes.declined(attempt, code=str(declined), notify=notify)
        except IdempotencyMismatch as mismatch:
            return await self._outcomes.given_up(attempt, code=mismatch.code, notify=notify)
        except GatewayBusy as busy:  # nothing was executed: the same key later
            log.info("payout.gateway_busy", refund_id=attempt.request_id, problem=str(busy))
        except GatewayRefusesUs as refused:  # nor here
            await self._breaker.trip(self._calls.gateway.name, str(refused))
        except PaymentError:
            return await self._outcomes.unknown(attempt, notify=notify and not doubt_told)
        else:
            return await self._outcomes.answered(attempt, answer, notify=notify)
        return await self._database.read(
            lambda tx: stored_request(tx, attempt.request_id), brief=True
        )

    async def _declined_again(
        self, attempt: Attempt, declined: PaymentDeclined, *, notify: bool
    ) -> RefundRequest:
        """This sending paid nothing. An earlier one may have, and may be why this was declined."""
        try:
            found = await self._calls.known(attempt)
        except PaymentError:
            return await self._outcomes.unknown(attempt, notify=False)
        if found is not None:
            return await self._outcomes.answered(attempt, found, notify=notify)
        if str(declined) in SAYS_NOTHING_OF_EARLIER:
            log.warning(
                "payout.declined_again", refund_id=attempt.request_id, problem=str(declined)
            )
            return await self._outcomes.unknown(attempt, notify=False)
        return await self._outcomes.declined(attempt, code=str(declined), notify=notify)

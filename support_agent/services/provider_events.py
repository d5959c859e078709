"""What a payment provider reports: proved genuine, then a hint where to look, taken in once."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import structlog

from support_agent.domain.errors import (
    AlreadyDecided,
    EventRefused,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.ports.clock import Clock
from support_agent.ports.events import EventKind, EventVerifier, ProviderEvent
from support_agent.ports.payments import GatewayRefund, PaymentRef
from support_agent.ports.storage import Database, InboxEntry, Transaction
from support_agent.services.breaker import Breaker
from support_agent.services.disputes import Disputes
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.gateway_refunds import GatewayRefunds

log = structlog.get_logger(__name__)
IGNORED = "ignored"  # about nothing of ours
MOST_TRIES = 3  # of two who move one request at once the second looks again


class ProviderEvents:
    """Takes events in. The provider is told that we have one only after all it did is committed."""

    def __init__(
        self,
        *,
        database: Database,
        calls: GatewayCalls,
        verifier: EventVerifier,
        gateway_refunds: GatewayRefunds,
        disputes: Disputes,
        breaker: Breaker,
        clock: Clock,
        wall_clock: Callable[[], datetime],
        account: str | None = None,
    ) -> None:
        """`account` is ours at the gateway; None where our books alone know whose payments are."""
        self._database = database
        self._calls = calls
        self._verifier = verifier
        self._gateway_refunds = gateway_refunds
        self._disputes = disputes
        self._breaker = breaker
        self._clock = clock
        self._wall_clock = wall_clock
        self._account = account

    async def receive(self, body: bytes, headers: Mapping[str, str]) -> InboxEntry:
        """Take one event in; the same event again answers what the first did and changes nothing.

        Raises:
            EventRefused: not genuine, not of now or not for us; nothing was changed.
            PaymentError: the gateway could not be asked; nothing is kept, so that it comes again.
        """
        try:
            event = self._verifier.verify(body, headers, now=self._wall_clock())
            self._check_ours(event)
        except EventRefused as refused:
            log.warning("event.refused", problem=str(refused))
            raise
        known = await self._database.read(lambda tx: tx.inbox.get(event.gateway, event.id))
        if known is not None:
            return known
        refunds = await self._refunds(event)
        another_open = await self._another_dispute(event)
        last = refunds[-1] if refunds else None
        # One a transaction: two could be locked in another order than that of who pays them.
        outcomes = [(await self._gateway_refunds.take(one)).meaning for one in refunds[:-1]]

        def take(tx: Transaction) -> InboxEntry:
            return self._take(tx, event, last, outcomes, another_open=another_open)

        for _ in range(MOST_TRIES - 1):
            try:
                return await self._database.transact(take)
            except AlreadyDecided:
                log.info("event.moved_meanwhile", event_id=event.id)
        return await self._database.transact(take)

    def _check_ours(self, event: ProviderEvent) -> None:
        gateway = self._calls.gateway
        if (event.gateway, event.livemode) != (gateway.name, gateway.livemode):
            raise EventRefused(f"event {event.id!r} is of another gateway or mode than ours")
        accounts = {event.account, event.payment.account if event.payment else event.account}
        if accounts != {self._account or event.account}:
            raise EventRefused(f"event {event.id!r} is of another account than ours")

    async def _refunds(self, event: ProviderEvent) -> tuple[GatewayRefund, ...]:
        """What it is about, as the gateway tells it now; the event itself is only a hint."""
        if event.kind is not EventKind.REFUND or event.payment is None:
            return ()
        async with self._breaker.watching(self._calls.gateway.name):
            if event.provider_refund_id is None:
                return await self._gateway_refunds.of_payment(event.payment)
            found = await self._calls.ask(
                self._calls.gateway.get(event.provider_refund_id, event.payment)
            )
        if found is None:
            raise PaymentOutcomeUnknown(
                f"the gateway does not know refund {event.provider_refund_id!r} of its own event"
            )
        return (found,)

    async def _another_dispute(self, event: ProviderEvent) -> bool:
        """Whether the gateway still calls the payment disputed, now that this dispute is won."""
        if event.kind is not EventKind.DISPUTE_WON or event.payment is None:
            return False
        async with self._breaker.watching(self._calls.gateway.name):
            try:
                state = await self._calls.ask(self._calls.gateway.payment_state(event.payment))
            except PaymentDeclined:  # it knows no such payment
                return False
        return state.disputed

    def _take(
        self,
        tx: Transaction,
        event: ProviderEvent,
        refund: GatewayRefund | None,
        before: Sequence[str],
        *,
        another_open: bool,
    ) -> InboxEntry:
        """The inbox and all that follows from the event, in one transaction."""
        known = tx.inbox.get(event.gateway, event.id)
        if known is not None:
            return known
        outcome = self._outcome(tx, event, refund, another_open=another_open)
        entry = InboxEntry(
            event_id=event.id,
            gateway=event.gateway,
            kind=event.kind,
            subject=event.provider_refund_id or event.dispute_id or _name_of(event.payment),
            created_at=event.created_at,
            received_at=self._clock.now(),
            outcome=",".join(dict.fromkeys((*before, outcome))),
        )
        if not tx.inbox.add(entry):  # delivered twice at once: the other one did it all
            raise AlreadyDecided(event.id, status="received", by=None, at=None)
        log.info("event.taken", event_id=event.id, kind=event.kind, outcome=entry.outcome)
        return entry

    def _outcome(
        self,
        tx: Transaction,
        event: ProviderEvent,
        refund: GatewayRefund | None,
        *,
        another_open: bool,
    ) -> str:
        if refund is not None:
            return self._gateway_refunds.take_in(tx, refund).meaning
        if event.kind in {EventKind.REFUND, EventKind.OTHER}:
            return IGNORED
        return self._disputes.take_in(tx, event, another_open=another_open)


def _name_of(payment: PaymentRef | None) -> str:
    return payment.gateway_payment_id if payment else ""

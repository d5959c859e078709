"""Endpoints of other systems: made, changed and looked at by staff."""

from collections.abc import Iterable
from dataclasses import replace

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    ConfigurationError,
    Conflict,
    InvalidInput,
    WebhookDeliveryNotFound,
    WebhookEndpointNotFound,
)
from support_agent.domain.people import Principal
from support_agent.domain.signing import KeyRing
from support_agent.domain.webhooks import (
    DeliveryState,
    EndpointState,
    EventType,
    WebhookDelivery,
    WebhookEndpoint,
)
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Database, Page, Transaction
from support_agent.ports.webhooks import WebhookSender
from support_agent.services.webhook_fan_out import WebhookFanOut
from support_agent.services.webhook_secrets import secret_text
from support_agent.services.webhook_sending import CHANGED

MOST = 20  # endpoints, those that are disabled too
BY_STAFF = "staff"


class Webhooks:
    """What an address is and where it leads is checked before it is stored, and at each sending.

    What happened before a change is put on its way as it was before it: who is enabled only then
    does not get it, and who is disabled then has it waiting, however late the next worker comes.
    """

    def __init__(
        self,
        *,
        database: Database,
        sender: WebhookSender,
        fan_out: WebhookFanOut,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._database = database
        self._sender = sender
        self._fan_out = fan_out
        self._keys = keys
        self._clock = clock
        self._ids = ids

    async def create(
        self, *, url: str, events: Iterable[EventType], by: Principal
    ) -> tuple[WebhookEndpoint, str]:
        """A new endpoint, and the secret that its receiver verifies with.

        Raises:
            InvalidInput: no events, or an address that nothing may be sent to.
            Conflict: there are as many as there may be.
        """
        wanted = _events(events)
        await self._sender.check(url)
        await self._fan_out.run()
        endpoint = WebhookEndpoint(
            id=self._ids.new("whe"),
            url=url,
            events=wanted,
            state=EndpointState.ENABLED,
            key_id=self._keys.newest_id,
            created_at=self._clock.now(),
            created_by=by.id,
        )

        def write(tx: Transaction) -> None:
            tx.webhooks.hold()
            if len(tx.webhooks.list()) >= MOST:
                raise Conflict(f"there are {MOST} webhook endpoints, which is the most; delete one")
            tx.webhooks.add(endpoint)
            self._tell(tx, "webhook.created", endpoint, by)

        await self._database.transact(write)
        return endpoint, secret_text(endpoint, self._keys)

    async def get(self, endpoint_id: str) -> WebhookEndpoint:
        """The endpoint.

        Raises:
            WebhookEndpointNotFound: there is none.
        """
        return await self._database.read(lambda tx: _stored(tx, endpoint_id), brief=True)

    async def list(self) -> tuple[WebhookEndpoint, ...]:
        """All there are, oldest first."""
        return await self._database.read(lambda tx: tx.webhooks.list())

    async def change(
        self,
        endpoint_id: str,
        *,
        by: Principal,
        url: str | None = None,
        events: Iterable[EventType] | None = None,
        state: EndpointState | None = None,
    ) -> WebhookEndpoint:
        """What is given replaces what was. Enabled again, it gets what waited for it, too.

        Raises:
            InvalidInput, WebhookEndpointNotFound: as `create` and `get`.
        """
        wanted = None if events is None else _events(events)
        if url is not None:
            await self._sender.check(url)
        await self._fan_out.run()

        def write(tx: Transaction) -> WebhookEndpoint:
            tx.webhooks.hold()
            before = _stored(tx, endpoint_id)
            after = replace(before, url=url or before.url, events=wanted or before.events)
            if state is not None and state is not before.state:
                reason = BY_STAFF if state is EndpointState.DISABLED else None
                after = replace(after, state=state, disabled_reason=reason)
            if after != before:
                tx.webhooks.change(after)
                self._tell(tx, CHANGED, after, by)
            return after

        return await self._database.transact(write)

    async def delete(self, endpoint_id: str, *, by: Principal) -> None:
        """The endpoint, its deliveries, and with them its secret.

        Raises:
            WebhookEndpointNotFound: as `get`.
        """

        def write(tx: Transaction) -> None:
            tx.webhooks.hold()
            endpoint = _stored(tx, endpoint_id)
            tx.webhooks.remove(endpoint_id)
            self._tell(tx, "webhook.deleted", endpoint, by)

        await self._database.transact(write)

    async def secret(self, endpoint_id: str) -> str:
        """The secret that its receiver verifies with.

        Raises:
            WebhookEndpointNotFound: as `get`.
            Conflict: our key that it is made from is gone.
        """
        endpoint = await self.get(endpoint_id)
        try:
            return secret_text(endpoint, self._keys)
        except ConfigurationError as gone:
            raise Conflict(str(gone)) from gone

    async def rotate(self, endpoint_id: str, *, by: Principal) -> tuple[WebhookEndpoint, str]:
        """A new secret; for a day the one before signs as well.

        Raises:
            WebhookEndpointNotFound: as `get`.
        """

        def write(tx: Transaction) -> WebhookEndpoint:
            tx.webhooks.hold()
            rotated = tx.webhooks.rotate(endpoint_id, key_id=self._keys.newest_id)
            if rotated is None:
                raise WebhookEndpointNotFound(endpoint_id)
            self._tell(tx, "webhook.rotated", rotated, by)
            return rotated

        endpoint = await self._database.transact(write)
        return endpoint, secret_text(endpoint, self._keys)

    async def deliveries(
        self,
        endpoint_id: str,
        *,
        state: DeliveryState | None,
        limit: int,
        cursor: str | None,
    ) -> Page[WebhookDelivery]:
        """Its deliveries, newest first.

        Raises:
            WebhookEndpointNotFound: as `get`.
            InvalidInput: the cursor is none of this list.
        """

        def read(tx: Transaction) -> Page[WebhookDelivery]:
            _stored(tx, endpoint_id)
            return tx.webhooks.deliveries(endpoint_id, state=state, limit=limit, cursor=cursor)

        return await self._database.read(read)

    async def redeliver(
        self, endpoint_id: str, delivery_id: str, *, by: Principal
    ) -> WebhookDelivery:
        """One more try, now, with the same id; also of what was taken before.

        Raises:
            WebhookEndpointNotFound: as `get`.
            WebhookDeliveryNotFound: it has no such delivery, or has none any more.
            Conflict: it is disabled.
        """

        def write(tx: Transaction) -> WebhookDelivery:
            endpoint = _stored(tx, endpoint_id)
            if endpoint.state is not EndpointState.ENABLED:
                raise Conflict(f"webhook endpoint {endpoint_id!r} is disabled; enable it first")
            delivery = tx.webhooks.again(endpoint_id, delivery_id)
            if delivery is None:
                raise WebhookDeliveryNotFound(delivery_id)
            self._tell(tx, "webhook.redelivered", endpoint, by, delivery=delivery.id)
            return delivery

        return await self._database.transact(write)

    def _tell(
        self,
        tx: Transaction,
        action: str,
        endpoint: WebhookEndpoint,
        by: Principal,
        **facts: str,
    ) -> None:
        """Without the address, which may hold a secret."""
        data = {
            "state": endpoint.state,
            "events": ",".join(endpoint.events),
            "generation": str(endpoint.generation),
            **facts,
        }
        tx.audit.append(
            AuditEvent(
                action=action, actor=by, subject=endpoint.id, at=self._clock.now(), data=data
            )
        )


def _stored(tx: Transaction, endpoint_id: str) -> WebhookEndpoint:
    endpoint = tx.webhooks.get(endpoint_id)
    if endpoint is None:
        raise WebhookEndpointNotFound(endpoint_id)
    return endpoint


def _events(given: Iterable[EventType]) -> tuple[EventType, ...]:
    """Each once, in the order in which we list them."""
    wanted = frozenset(given)
    if not wanted:
        raise InvalidInput("events", f"names none of {', '.join(EventType)}")
    return tuple(event for event in EventType if event in wanted)

"""Sends what is on its way to endpoints: outside of any transaction, again until it is taken."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from support_agent.domain.people import SYSTEM
from support_agent.domain.signing import KeyRing
from support_agent.domain.webhooks import DeliveryState, EndpointState, pause_s
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Task, ToSend, Transaction
from support_agent.ports.webhooks import Answer, ToEndpoint, WebhookSender
from support_agent.services.webhook_secrets import secrets_of
from support_agent.services.workers import called_off

FAILED, DISABLED, NO_KEY = "webhook_failed", "webhook_disabled", "webhook_key"  # kinds of tasks
GONE = "gone"
CHANGED = "webhook.changed"
AT_ONCE = 4  # to one endpoint
LONGEST_S = 30.0  # that new ones are begun in one run; the next one takes up what is left
SLOW_S = 1.0  # for a few at once; who takes longer is not begun with at the end of a run
LOOK_S = 0.5  # how often is looked for what came meanwhile
LEASE_MORE_S = 30.0  # beside the time-out of a try: to read, to sign, and to commit

log = structlog.get_logger(__name__)


class WebhookSending:
    """At least once, with the same id each time. An endpoint that hangs keeps no other waiting.

    Each endpoint has a lane of its own: a few at a time, until nothing of it is due.
    """

    def __init__(
        self,
        *,
        database: Database,
        sender: WebhookSender,
        keys: KeyRing,
        clock: Clock,
        wall_clock: Callable[[], datetime],
        timeout_s: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._sender = sender
        self._keys = keys
        self._clock = clock
        self._wall_clock = wall_clock
        self._lease_s = timeout_s + LEASE_MORE_S
        self._jitter = jitter
        self._is_running = False

    async def run(self) -> int:
        """Send what is due; how many were taken. Any number of processes may do so at once.

        A second call in this process comes back at once: it would only wait for the same lanes.

        Raises:
            DatabaseUnavailable: what was claimed is due again when its lease is over.
        """
        if self._is_running:
            return 0
        self._is_running = True
        try:
            return await self._lanes()
        finally:
            self._is_running = False

    async def _lanes(self) -> int:
        taken, until = 0, time.monotonic() + LONGEST_S
        lanes: dict[str, asyncio.Task[int]] = {}
        begun: dict[str, float] = {}
        late: set[str] = set()  # begun after the time, while others were waited for anyway
        slow: set[str] = set()
        broken: set[str] = set()
        try:
            while True:
                is_over = time.monotonic() >= until
                if not is_over or lanes.keys() - late:
                    due = set(await self._database.read(lambda tx: tx.webhooks.due()))
                    for endpoint_id in due - lanes.keys() - broken - (slow if is_over else set()):
                        lanes[endpoint_id] = asyncio.create_task(self._page(endpoint_id))
                        begun[endpoint_id] = time.monotonic()
                        if is_over:
                            late.add(endpoint_id)
                if not lanes:
                    return taken
                await asyncio.wait(
                    lanes.values(), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                for endpoint_id in [id_ for id_, lane in lanes.items() if lane.done()]:
                    took_s = time.monotonic() - begun[endpoint_id]
                    (slow.add if took_s > SLOW_S else slow.discard)(endpoint_id)
                    try:
                        taken += lanes.pop(endpoint_id).result()
                    except DatabaseUnavailable:
                        raise
                    except Exception:  # the other endpoints are not to wait for its repair
                        log.exception("webhook.lane_broken", endpoint_id=endpoint_id)
                        broken.add(endpoint_id)
        finally:
            await called_off(lanes.values())

    async def _page(self, endpoint_id: str) -> int:
        claimed = await self._database.transact(
            lambda tx: tx.webhooks.claim(endpoint_id, limit=AT_ONCE, lease_s=self._lease_s)
        )
        outcomes = await asyncio.gather(*map(self._send, claimed), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return outcomes.count(True)

    async def _send(self, one: ToSend) -> bool:
        try:
            secrets = secrets_of(one.endpoint, self._keys, overlaps=one.overlaps)
        except ConfigurationError as problem:
            log.error("webhook.no_key", endpoint_id=one.endpoint.id, problem=str(problem))  # noqa: TRY400 - foreseen
            await self._database.transact(partial(self._unsigned, one=one))
            return False
        message = ToEndpoint(
            url=one.endpoint.url,
            id=one.event_id,
            at=self._wall_clock(),
            body=one.body,
            secrets=secrets,
        )
        try:
            answer = await self._sender.send(message)
        except Exception:
            log.exception("webhook.broken", endpoint_id=one.endpoint.id, delivery_id=one.id)
            answer = Answer(error="broken")
        if not answer.is_taken:
            log.warning(
                "webhook.not_taken",
                endpoint_id=one.endpoint.id,
                delivery_id=one.id,
                tries=one.tries,
                status=answer.status,
                error=answer.error,
            )
        await self._database.transact(partial(self._settle, one=one, answer=answer))
        return answer.is_taken

    def _settle(self, tx: Transaction, one: ToSend, answer: Answer) -> None:
        now, status, error = self._clock.now(), answer.status, answer.error
        if answer.is_taken:
            tx.webhooks.settle(one, DeliveryState.DELIVERED, at=now, status=status, error=None)
            return
        if status == 410:
            self._disable(tx, one, now)  # first: who removes an endpoint holds it before these rows
            tx.webhooks.settle(one, DeliveryState.FAILED, at=now, status=status, error=GONE)
            return
        pause = pause_s(one.tries, jitter=self._jitter(), wished_s=answer.wait_s)
        if pause is not None:
            tx.webhooks.put_off(one, pause_s=pause, status=status, error=error)
        elif tx.webhooks.settle(one, DeliveryState.FAILED, at=now, status=status, error=error):
            tx.tasks.add(_task(FAILED, one.endpoint.id, one.id, now))

    def _unsigned(self, tx: Transaction, one: ToSend) -> None:
        """Nothing was sent; as long as the key may come back it is tried again."""
        self._settle(tx, one, Answer(error="no_key"))
        named = f"{one.endpoint.id}_{one.endpoint.generation}"
        tx.tasks.add(_task(NO_KEY, one.endpoint.id, named, self._clock.now()))

    def _disable(self, tx: Transaction, one: ToSend, now: datetime) -> None:
        """The endpoint says that it is gone for good: a person enables it again, nobody else."""
        tx.webhooks.hold()
        endpoint = tx.webhooks.get(one.endpoint.id)
        # Of an address that was replaced since, the new one says nothing of the sort.
        if endpoint is None or endpoint.url != one.endpoint.url:
            return
        if endpoint.state is not EndpointState.ENABLED:
            return
        gone = replace(endpoint, state=EndpointState.DISABLED, disabled_reason=GONE)
        tx.webhooks.change(gone)
        tx.tasks.add(_task(DISABLED, endpoint.id, one.id, now))
        tx.audit.append(
            AuditEvent(
                action=CHANGED,
                actor=SYSTEM,
                subject=endpoint.id,
                at=now,
                data={"state": EndpointState.DISABLED, "reason": GONE},
            )
        )


def _task(kind: str, endpoint_id: str, about: str, now: datetime) -> Task:
    return Task(
        id=f"task_{kind}_{about}",
        kind=kind,
        subject=endpoint_id,
        conversation_id=None,
        created_at=now,
    )

"""Sends out what the outbox holds: to customers, and to approvers; outside of any transaction."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog

from support_agent.domain.conversation import Author
from support_agent.domain.errors import ChannelUnavailable, DatabaseUnavailable
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.channel import ApproverChannel, CustomerChannel, ToApprovers, ToCustomer
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Claimed, Database, Task, Transaction
from support_agent.services.briefs import held_among
from support_agent.services.outgoing import CUSTOMER
from support_agent.services.refunds import RefundLife

UNDELIVERED = "undelivered"
APPROVED = "refund.approved"
WAITING = ("refund.filed", "refund.pending_approval")

PAGE = 20  # sent at once, each to another conversation
MOST_AT_ONCE = 2_000  # in one call; the next one takes up what is left
LONGEST_S = 300.0
SEND_S = 20.0  # for one message; then it counts as not sent
LEASE_S = 60.0  # longer than sending and committing takes
PAUSE_S, LONGEST_PAUSE_S = 5.0, 3_600.0  # between two tries, twice as long each time
CALL_STAFF_AT = 8  # tries, which is after a good ten minutes
MOST_TRIES = 30  # which is after a day
PAYS_SOON_S = 60.0  # who approves tries to pay at once, and then tells that

log = structlog.get_logger(__name__)
_Read = Callable[[Claimed], Awaitable[bool]]


class Delivery:
    """At least once to a channel, with the same id each time; a notice is written exactly once.

    Messages of a conversation go to the customer, by the channel of the conversation; one without
    an adapter needs none, its customers read in the conversation. That a request newly waits for an
    approver goes to the approvers. A request that is still not being paid a minute after it was
    approved becomes a notice. No other topic has a reader yet: those events are ended unsent.

    A failure is tried again after growing pauses, the later messages of its conversation wait. When
    it goes on a person is called, and after a day it is given up.
    """

    def __init__(
        self,
        *,
        database: Database,
        life: RefundLife,
        clock: Clock,
        customers: Mapping[str, CustomerChannel],
        approvers: ApproverChannel,
    ) -> None:
        self._database = database
        self._life = life
        self._clock = clock
        self._customers = customers
        self._approvers = approvers
        self._readers: Mapping[str, _Read] = {
            CUSTOMER: self._to_customer,
            APPROVED: self._still_unpaid,
            **dict.fromkeys(WAITING, self._to_approvers),
        }

    async def run(self) -> int:
        """Deliver what is due; how many left. Any number of processes may do so at once.

        Raises:
            DatabaseUnavailable: what was claimed is due again when its lease is over.
        """
        sent = 0
        until = time.monotonic() + LONGEST_S
        for _ in range(MOST_AT_ONCE // PAGE):
            if time.monotonic() > until or not await self._database.read(self._is_due):
                break
            claimed = await self._database.transact(self._claim)
            outcomes = await asyncio.gather(*map(self._deliver, claimed), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
                sent += outcome
        return sent

    def _is_due(self, tx: Transaction) -> bool:
        return tx.outbox.is_due(self._readers.keys())

    def _claim(self, tx: Transaction) -> tuple[Claimed, ...]:
        tx.outbox.skip(self._readers.keys(), limit=MOST_AT_ONCE, at=self._clock.now())
        return tx.outbox.claim(self._readers.keys(), limit=PAGE, lease_s=LEASE_S)

    async def _deliver(self, claimed: Claimed) -> bool:
        """One that cannot be delivered must not keep the others."""
        try:
            if claimed.tries <= MOST_TRIES:
                return await self._readers[claimed.topic](claimed)
        except DatabaseUnavailable:
            raise
        except (ChannelUnavailable, TimeoutError) as problem:
            log.warning(
                "delivery.failed", key=claimed.key, tries=claimed.tries, problem=str(problem)
            )
        except Exception:
            log.exception("delivery.broken", key=claimed.key, tries=claimed.tries)
        await self._database.transact(partial(self._failed, claimed=claimed))
        return False

    async def _to_customer(self, claimed: Claimed) -> bool:
        message = await self._database.read(partial(_message, claimed=claimed))
        channel = self._customers.get(message.channel) if message else None
        if message is not None and channel is not None:
            async with asyncio.timeout(SEND_S):
                await channel.send(message)
        await self._database.transact(partial(self._settle, claimed=claimed))
        return channel is not None

    async def _to_approvers(self, claimed: Claimed) -> bool:
        notice = await self._database.read(partial(_waiting, claimed=claimed))
        if notice is not None:
            async with asyncio.timeout(SEND_S):
                await self._approvers.tell(notice)
        await self._database.transact(partial(self._settle, claimed=claimed))
        return notice is not None

    async def _still_unpaid(self, claimed: Claimed) -> bool:
        await self._database.transact(partial(self._tell_approved, claimed=claimed))
        return False

    def _tell_approved(self, tx: Transaction, claimed: Claimed) -> None:
        """In one transaction with the end of the event, so that it is told once."""
        if claimed.tries == 1:
            tx.outbox.put_off(claimed, pause_s=PAYS_SOON_S)
        elif self._settle(tx, claimed):
            request_id, _, version = claimed.key.rpartition(":")
            self._life.tell_approved(tx, request_id, version=int(version))

    def _settle(self, tx: Transaction, claimed: Claimed) -> bool:
        return tx.outbox.settle(claimed, at=self._clock.now())

    def _failed(self, tx: Transaction, claimed: Claimed) -> None:
        if claimed.tries >= MOST_TRIES:
            ours = self._settle(tx, claimed)
            log.error("delivery.given_up", key=claimed.key, tries=claimed.tries)
        else:
            pause_s = min(PAUSE_S * 2 ** (claimed.tries - 1), LONGEST_PAUSE_S)
            ours = tx.outbox.put_off(claimed, pause_s=pause_s)
        if ours and claimed.tries >= CALL_STAFF_AT:
            tx.tasks.add(self._task(tx, claimed))

    def _task(self, tx: Transaction, claimed: Claimed) -> Task:
        subject, _, _ = claimed.key.rpartition(":")
        conversation = tx.conversations.get(subject)
        return Task(
            id=f"task_{UNDELIVERED}_{claimed.key}",
            kind=UNDELIVERED,
            subject=subject,
            conversation_id=conversation.id if conversation else None,
            created_at=self._clock.now(),
        )


def _message(tx: Transaction, claimed: Claimed) -> ToCustomer | None:
    """What to send; None when it was erased meanwhile."""
    body = tx.outbox.body(claimed)
    if body is None:
        return None
    conversation = tx.conversations.get(body["conversation_id"])
    message = tx.conversations.message(body["conversation_id"], int(body["seq"]))
    if conversation is None or conversation.erased or message is None:
        return None
    if message.author is Author.CUSTOMER:
        raise ValueError(f"event {claimed.key!r} would send a customer's own words back")
    return ToCustomer(
        id=claimed.key,
        channel=conversation.channel,
        account=conversation.account,
        external_contact=conversation.external_contact,
        conversation_id=conversation.id,
        seq=message.seq,
        text=message.text,
        language=conversation.language,
    )


def _as_it_was(tx: Transaction, claimed: Claimed) -> RefundRequest | None:
    """The request if it did not move since the event: else a later event speaks of it."""
    id_, _, version = claimed.key.rpartition(":")
    request = tx.requests.get(id_)
    return request if request is not None and str(request.version) == version else None


def _waiting(tx: Transaction, claimed: Claimed) -> ToApprovers | None:
    """None when it no longer waits, or waits for the customer's answer."""
    request = _as_it_was(tx, claimed)
    if request is None or request.status is not RequestStatus.PENDING_APPROVAL:
        return None
    if held_among(tx, (request,)):
        return None
    return ToApprovers(
        id=claimed.key,
        request_id=request.id,
        order_id=request.order_id,
        amount_minor=request.amount_minor,
        currency=request.currency,
        required_level=request.required_level,
        escalations=request.escalations,
        due_at=request.due_at,
    )

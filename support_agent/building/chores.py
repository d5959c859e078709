"""Everything that has to happen by itself, in the order in which `tick` does it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog

from support_agent.agent.worker import AnswerUnread
from support_agent.ports.clock import Clock
from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import Database
from support_agent.services.chores import (
    ANSWERED,
    PAID,
    SWEEP_S,
    Chore,
    Counts,
    counted,
    moved,
)
from support_agent.services.delivery import Delivery
from support_agent.services.escalations import Escalations
from support_agent.services.overdue import overdue_tasks
from support_agent.services.payouts import Payouts
from support_agent.services.refunds import RefundLife
from support_agent.services.retention import Retention
from support_agent.services.usage_tasks import UnusualUse
from support_agent.services.wake_ups import WakeUps
from support_agent.services.webhook_fan_out import WebhookFanOut
from support_agent.services.webhook_sending import WebhookSending
from support_agent.services.workers import Answering

log = structlog.get_logger(__name__)
TASKS = "TASKS"


def all_chores(
    *,
    database: Database,
    clock: Clock,
    life: RefundLife,
    escalations: Escalations,
    payouts: Payouts,
    pays: bool,
    unusual_use: UnusualUse,
    sweep: Chore,
    delivery: Delivery,
    webhook_fan_out: WebhookFanOut,
    webhook_sending: WebhookSending,
    retention: Retention,
) -> tuple[Chore, ...]:
    """The chores of this process; `pays` is whether it can reach the gateway.

    Deliveries come late, so that what moved just now is told in the same round.
    """

    async def expire() -> Counts:
        return moved(await life.expire_due(database))

    async def escalate() -> Counts:
        return moved(await escalations.run())

    async def overdue() -> Counts:
        return counted(await overdue_tasks(database, clock), TASKS)

    async def unusual() -> Counts:
        return counted(await unusual_use.tell(), TASKS)

    async def deliver() -> Counts:
        return counted(await delivery.run(), "MESSAGES")

    async def fan_out() -> Counts:
        return counted(await webhook_fan_out.run(), "EVENTS")

    async def send() -> Counts:
        return counted(await webhook_sending.run(), "EVENTS")

    return (
        Chore(name="expired", every_s=60, run=expire),
        Chore(name="escalated", every_s=60, run=escalate),
        *(_of_gateway(payouts) if pays else ()),
        Chore(name="overdue", every_s=300, run=overdue),
        Chore(name="unusual", every_s=600, run=unusual),
        sweep,
        Chore(name="delivered", every_s=3, run=deliver),
        Chore(name="fanned", every_s=3, run=fan_out),
        Chore(name="sent", every_s=3, run=send),
        Chore(name="retention", every_s=900, run=retention.run),
    )


def _of_gateway(payouts: Payouts) -> Iterator[Chore]:
    async def pay() -> Counts:
        return moved(await payouts.pay_due())

    async def reconcile() -> Counts:
        return moved(await payouts.reconcile())

    yield Chore(name=PAID, every_s=15, run=pay, needs_gateway=True)
    yield Chore(name="reconciled", every_s=60, run=reconcile, needs_gateway=True)


def answering(*, database: Database, agent: Callable[[], Answering], concurrency: int) -> Chore:
    """The sweep without a queue: who finds something unread answers it.

    The agent is built when there is something, so that a model that cannot be built keeps nothing
    else from being done.
    """

    async def answer() -> Counts:
        if not await database.read(lambda tx: tx.conversations.due(limit=1)):
            return {}
        return await AnswerUnread(agent=agent(), database=database, concurrency=concurrency).run()

    return Chore(name=ANSWERED, every_s=SWEEP_S, run=answer)


def waking(*, database: Database, queue: TurnQueue) -> Chore:
    """The sweep with a queue: wakes a worker for what none was woken for."""
    return Chore(name="woken", every_s=SWEEP_S, run=WakeUps(database=database, queue=queue).run)


def anchor(database: Database) -> Chore:
    """The audit head in the log, which is outside of the database; `tick` prints it, too."""

    async def look() -> Counts:
        head = await database.read(lambda tx: tx.audit.head())
        log.info("audit.head", seq=head.seq, mac=head.mac)
        return {}

    return Chore(name="anchored", every_s=300, run=look)


def beside_turns(
    chores: Iterable[Chore], database: Database, *, pays: bool = True
) -> Sequence[Chore]:
    """What a worker does of the chores: it answers by itself what `tick` has a chore for."""
    kept = (chore for chore in chores if chore.name != ANSWERED)
    return [*(chore for chore in kept if pays or not chore.needs_gateway), anchor(database)]

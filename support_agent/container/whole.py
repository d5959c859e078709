"""The container as it is opened: the agent, and what works by itself."""

from dependency_injector import providers

from support_agent.adapters.queue.procrastinate_worker import ProcrastinateWorker
from support_agent.agent.worker import InlineWorker
from support_agent.building.chores import all_chores, answering, waking
from support_agent.building.payments import (
    is_reached,
)
from support_agent.container.foundation import Once
from support_agent.container.talk import Talk
from support_agent.services.chores import Chore
from support_agent.services.workers import Worker


class Container(Talk):
    """Everything, each built once on first use. Nobody is handed the container itself."""

    # What happens by itself: `tick` does each once, a worker each at its intervals.
    sweep: providers.Provider[Chore] = providers.Selector(
        Talk.settings.provided.queue.kind,
        inline=Once(
            answering,
            database=Talk.database,
            agent=Talk.agent.provider,
            concurrency=Talk.settings.provided.queue.concurrency,
        ),
        procrastinate=Once(waking, database=Talk.database, queue=Talk.queue),
    )
    chores: providers.Provider[tuple[Chore, ...]] = Once(
        all_chores,
        database=Talk.database,
        clock=Talk.clock,
        life=Talk.life,
        escalations=Talk.escalations,
        payouts=Talk.payouts,
        pays=Once(is_reached, Talk.gateway),
        unusual_use=Talk.unusual_use,
        sweep=sweep,
        delivery=Talk.delivery,
        webhook_fan_out=Talk.webhook_fan_out,
        webhook_sending=Talk.webhook_sending,
        retention=Talk.retention,
    )
    worker: providers.Provider[Worker] = providers.Selector(
        Talk.settings.provided.queue.kind,
        inline=providers.Factory(
            InlineWorker,
            agent=Talk.agent,
            database=Talk.database,
            chores=chores,
            concurrency=Talk.settings.provided.queue.concurrency,
            poll_s=Talk.settings.provided.queue.poll_seconds,
            shutdown_s=Talk.settings.provided.queue.shutdown_seconds,
        ),
        procrastinate=providers.Factory(
            ProcrastinateWorker,
            database_url=Talk.settings.provided.database.url,
            agent=Talk.agent,
            chores=chores,
            concurrency=Talk.settings.provided.queue.concurrency,
            poll_s=Talk.settings.provided.queue.poll_seconds,
            shutdown_s=Talk.settings.provided.queue.shutdown_seconds,
        ),
    )

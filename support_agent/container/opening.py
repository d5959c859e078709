"""Opening a container: build, check, hand over, close in reverse; the same for a replay."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from dependency_injector import providers

from support_agent.adapters.db.rehearsal import RehearsalDatabase
from support_agent.adapters.keys import load_keys
from support_agent.adapters.queue.inline import InlineQueue
from support_agent.adapters.queue.procrastinate_schema import check_queue
from support_agent.agent.replay import Replay
from support_agent.building.checks import (
    check_installation,
    check_ledger,
    check_orders,
    check_policy,
)
from support_agent.building.payments import (
    no_gateway,
)
from support_agent.container.whole import Container
from support_agent.logging import configure_if_nobody_did
from support_agent.services.audit import check_keys
from support_agent.settings import Settings, load_settings


@asynccontextmanager
async def open_container(
    settings: Settings | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    check_history: bool = True,
) -> AsyncIterator[Container]:
    """A checked container for the time of the block; closed in reverse order after it.

    Args:
        settings: taken from the environment when left out.
        overrides: other objects by provider name, e.g. `{"model": ScriptedModel(...)}`.
        check_history: stop when the audit chain's newest event is not signed by our keys; only
            what examines a broken chain leaves it out.

    Raises:
        ConfigurationError: settings, schema, policy or a live database do not fit together.
    """
    container = Container()
    replaced = dict(overrides or {})
    if settings is not None:
        replaced["settings"] = settings
    container.override_providers(
        **{name: providers.Object(value) for name, value in replaced.items()}
    )
    try:
        told = container.settings().log
        configure_if_nobody_did(format=told.format, level=told.level)
        await check(container, history=check_history)
        yield container
    finally:
        await _close(container)


@asynccontextmanager
async def open_replay(
    settings: Settings | None = None, *, overrides: Mapping[str, object] | None = None
) -> AsyncIterator[Replay]:
    """What reads a recorded run again, for the time of the block.

    Its tools are those of any container, on a database that keeps nothing and without a gateway.

    Raises:
        ConfigurationError: as `open_container`.
    """
    settings = settings or load_settings()
    keys = load_keys(configured=settings.security.keys, database_url=settings.database.url)
    database = RehearsalDatabase(
        settings.database.url, keys, busy_timeout_s=settings.database.busy_seconds
    )
    nothing_happens = {
        "database": database,
        "keys": keys,
        "gateway": no_gateway(settings, why="a run that is read again pays nothing"),
        "queue": InlineQueue(),
    }
    try:
        async with open_container(
            settings, overrides={**(overrides or {}), **nothing_happens}
        ) as container:
            yield Replay(
                database=database,
                tools=container.tool_runner(),
                answers=container.answers(),
                limits=container.limits(),
                clock=container.clock(),
                zone=container.terms().zone,
            )
    finally:
        await database.aclose()


async def check(container: Container, *, history: bool = True) -> None:
    """Stop the start when something does not fit, before anything is served."""
    settings = container.settings()
    if settings.payments.kind != "ledger":
        container.gateway()  # says at once which of its settings is missing
    if settings.orders.kind != "sql":
        check_ledger(settings)
        await check_orders(container.orders())  # likewise, and what is wrong with its map or class
    if settings.tools.names:
        container.tools()  # those of others: one that may not start stops it
    database = container.database()
    await database.check_schema()
    if settings.queue.kind == "procrastinate":
        container.queue()  # says at once what it needs
        await database.run_read(check_queue)
    await database.read(lambda tx: check_installation(tx, settings))
    await database.read(lambda tx: check_policy(tx, container.policies(), settings))
    if history:
        await database.read(lambda tx: check_keys(tx, container.keys()))


async def _close(container: Container) -> None:
    """Close what was built, the last built first, also when closing one of them fails.

    What a caller put in is the caller's to close.
    """
    async with AsyncExitStack() as last_first:
        for built in container.to_close():
            last_first.push_async_callback(built.aclose)

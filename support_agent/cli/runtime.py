"""Runs the work of a command in an open container; heavy modules are imported here, on use."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar

import structlog

from support_agent.cli.views import local
from support_agent.domain.errors import (
    AlreadyDecided,
    RequestExpired,
    SupportAgentError,
    TaskAlreadyDone,
)
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.logging import configure

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.settings import Settings

T = TypeVar("T")
log = structlog.get_logger(__name__)


def ready() -> "Settings":
    """The settings of this process, with logging set up as they say."""
    from support_agent.settings import load_settings  # noqa: PLC0415 - not for --help

    settings = load_settings()
    configure(format=settings.log.format, level=settings.log.level)
    return settings


def run(
    work: "Callable[[Container], Awaitable[T]]",
    settings: "Settings | None" = None,
    *,
    check_history: bool = True,
) -> T:
    """Open the container, do the work, close it again; Ctrl-C lets a transaction finish first.

    `check_history=False` is for what examines a history that may be broken.
    """
    return asyncio.run(_opened(work, settings or ready(), check_history=check_history))


async def _opened(
    work: "Callable[[Container], Awaitable[T]]", settings: "Settings", *, check_history: bool
) -> T:
    from support_agent.container import open_container  # noqa: PLC0415 - costs most of a start

    async with open_container(settings, check_history=check_history) as container:
        head = await container.database().read(lambda tx: tx.audit.head())
        log.info("audit.head", seq=head.seq, mac=head.mac)  # an anchor outside of the database
        try:
            return await work(container)
        except (AlreadyDecided, RequestExpired, TaskAlreadyDone) as error:
            if error.at is not None:
                _at_the_shops_clock(error, error.at, settings.zone)
            raise


class Opened:
    """A container held open while a prompt waits outside of the event loop."""

    def __init__(self, runner: asyncio.Runner, settings: "Settings") -> None:
        from support_agent.container import open_container  # noqa: PLC0415 - not for --help

        self.runner = runner
        self._context = open_container(settings)
        self.container: Container = runner.run(self._context.__aenter__())

    def close(self) -> None:
        self.runner.run(self._context.__aexit__(None, None, None))


def _at_the_shops_clock(error: SupportAgentError, at: datetime, zone: tzinfo) -> None:
    """The error's words with their moment as everything here shows it; `at` stays as it is."""
    error.args = (str(error).replace(at.isoformat(timespec="seconds"), local(at, zone)),)


def at_the_host(name: str, kind: PrincipalKind = PrincipalKind.STAFF) -> Principal:
    """Somebody at this machine's terminal, believed because who holds the host is trusted."""
    return Principal(kind=kind, id=name, person_id=None, proof=Proof.SYSTEM, via="cli")

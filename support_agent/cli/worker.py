"""`worker`: answers conversations and does what has to happen by itself, until it is stopped."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.output import flush, say
from support_agent.cli.runtime import ready, run
from support_agent.cli.signals import told_by_signals
from support_agent.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.settings import Settings


def worker(
    *,
    without_payouts: Annotated[
        bool,
        typer.Option(
            "--without-payouts", help="Leave payouts to a worker that has the gateway's key."
        ),
    ] = False,
) -> None:
    """Answer conversations, pay what is approved, deliver messages; until SIGTERM or Ctrl-C.

    Any number of them may run, on one machine or many. Stopped it takes nothing new, gives its
    turns QUEUE__SHUTDOWN_SECONDS to end and leaves what is not done to the next one; told a second
    time it does so at once. The exit code is 0.
    """
    settings = ready()
    if not without_payouts:
        _check_gateway(settings)

    async def work(container: "Container") -> None:
        from support_agent.building.chores import beside_turns  # noqa: PLC0415 - not for --help
        from support_agent.services.workers import Stop  # noqa: PLC0415 - not for --help

        stop = Stop()
        chores = beside_turns(container.chores(), container.database(), pays=not without_payouts)
        worker = container.worker(chores=chores)  # says at once what is missing, a model's key too
        with told_by_signals(stop):
            say(f"working ({settings.queue.kind} queue); stop with Ctrl-C")
            flush()
            await worker.run(stop)
        say("stopped")

    run(work, settings)


def _check_gateway(settings: "Settings") -> None:
    from support_agent.building.payments import (  # noqa: PLC0415 - not for --help
        gateway_credentials,
        has_gateway,
    )

    if not has_gateway(settings):
        raise ConfigurationError(
            "is needed by the worker that pays; set it, or start with --without-payouts and run "
            "another one that has it",
            setting=gateway_credentials(settings),
        )

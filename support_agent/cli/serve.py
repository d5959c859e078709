"""`serve`: the HTTP API, and in the same process a worker, until it is stopped."""

import importlib.util
import pkgutil
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.output import flush, say
from support_agent.cli.runtime import ready, run
from support_agent.cli.signals import told_by_signals
from support_agent.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from support_agent.container import Container

# By name: the command line and the API are beside each other, and neither imports the other.
SERVE = "support_agent.api.serving:serve"
LIBRARIES = ("fastapi", "jwt", "prometheus_client", "standardwebhooks", "uvicorn")


def serve(
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="0 takes any that is free and tells which.")
    ] = 8000,
    work: Annotated[
        bool | None,
        typer.Option(
            "--worker/--no-worker",
            help="Whether this process also works: with QUEUE__KIND=inline it does, with "
            "procrastinate `support-agent worker` does.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C; /openapi.json says what there is.

    It speaks plain HTTP: let a proxy with TLS stand before it. Told to stop it takes nothing new,
    ends streams, gives requests and turns QUEUE__SHUTDOWN_SECONDS and leaves what is not done to
    the next one; told a second time it does so at once. The exit code is 0.

    Who uses it needs a key: support-agent keys create.
    """
    settings = ready()
    _check_installed()
    works = settings.queue.kind == "inline" if work is None else work

    async def serve_it(container: "Container") -> None:
        from support_agent.services.workers import Stop  # noqa: PLC0415 - not for --help

        stop, serve = Stop(), pkgutil.resolve_name(SERVE)
        with told_by_signals(stop):
            await serve(
                container, host=host, port=port, work=works, stop=stop, listening=_listening
            )

    run(serve_it, settings)


def _listening(address: str) -> None:
    say(f"serving on {address}")
    flush()


def _check_installed() -> None:
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"the API needs libraries that are not installed ({', '.join(missing)}); run: "
            "pip install 'support-agent[api]'"
        )

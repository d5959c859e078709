"""The application: routes under one edge, over one container."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from support_agent.api import health, metrics
from support_agent.api.background import Background
from support_agent.api.description import TITLE, VERSION, DescribedApi, operation_id
from support_agent.api.edge import Edge
from support_agent.api.guarding import guard_of
from support_agent.api.health import readiness
from support_agent.api.methods import with_all_methods
from support_agent.api.metrics import Measured, Metrics
from support_agent.api.problems import ProblemError, problem_response
from support_agent.api.routes import (
    approvals,
    conversations,
    provider_events,
    refunds,
    runs,
    tasks,
    webhook_endpoints,
)
from support_agent.api.streams import Streams
from support_agent.building.chores import beside_turns
from support_agent.container import Container, open_container
from support_agent.domain.errors import SupportAgentError
from support_agent.services.workers import Worker
from support_agent.settings import Settings

ROUTERS = (
    health.router,
    conversations.router,
    runs.router,
    approvals.router,
    refunds.router,
    tasks.router,
    webhook_endpoints.router,
    provider_events.router,
)


@asynccontextmanager
async def open_api(
    settings: Settings | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    work: bool = False,
) -> AsyncIterator[FastAPI]:
    """The API over a container of its own, for the time of the block: serve it, or mount it.

    Args:
        settings: taken from the environment when left out.
        overrides: as `open_container`.
        work: also be a worker, as `support-agent worker`; without one somewhere, nobody answers
            what was left, pays, delivers messages or sends webhooks.

    Raises:
        ConfigurationError: as `open_container`, or what is needed to answer is missing.
    """
    async with open_container(settings, overrides=overrides) as container:
        container.agent()  # says at once what is missing, a model's key too
        worker = worker_beside(container) if work else None
        app = create_app(container)
        background: Background = app.state.background
        if worker is not None:
            background.work(worker)
        try:
            yield app
        finally:
            await background.aclose()


def create_app(container: Container) -> FastAPI:
    """The API over an open container, which whoever opened it closes after it."""
    settings = container.settings()
    app = bare_app(public_metrics=settings.api.public_metrics)
    app.state.container = container
    app.state.api_keys = container.api_keys()
    app.state.customer_tokens = container.customer_tokens()
    app.state.guard = guard_of(container)
    app.state.background = Background(shutdown_s=settings.queue.shutdown_seconds)
    app.state.streams = Streams(
        database=container.database(),
        keys=app.state.api_keys,
        closing=app.state.background.closing,
        poll_s=settings.api.stream_poll_seconds,
        most=settings.api.max_streams,
    )
    app.state.readiness = readiness(container)
    app.state.metrics = Metrics(container, app.state.background)
    app.add_middleware(Edge, ids=container.ids())
    app.add_middleware(Measured, metrics=app.state.metrics)
    return app


def bare_app(*, public_metrics: bool = False) -> FastAPI:
    """The routes, and how they are described, with nothing behind them."""
    app = DescribedApi(
        title=TITLE,
        version=VERSION,
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        root_path_in_servers=False,
        generate_unique_id_function=operation_id,
    )
    for kind in (SupportAgentError, ProblemError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _problem)
    for router in (*ROUTERS, metrics.public_router if public_metrics else metrics.router):
        app.include_router(router)
    return app


def worker_beside(container: Container) -> Worker:
    """A worker for the process that serves; it pays where the gateway's key is here.

    Raises:
        ConfigurationError: something that is needed to answer is missing, a model's key too.
    """
    return container.worker(chores=beside_turns(container.chores(), container.database()))


async def _problem(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        error = with_all_methods(request, error)
    return problem_response(request, error)

"""The application: routes under one edge, over one container."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from support_agent.api.background import Background
from support_agent.api.edge import Edge
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
from support_agent.container import Container, open_container
from support_agent.domain.errors import SupportAgentError
from support_agent.settings import Settings

ROUTERS = (
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
    settings: Settings | None = None, *, overrides: Mapping[str, object] | None = None
) -> AsyncIterator[FastAPI]:
    """The API over a container of its own, for the time of the block: serve it, or mount it.

    Args:
        settings: taken from the environment when left out.
        overrides: as `open_container`.

    Raises:
        ConfigurationError: as `open_container`.
    """
    async with open_container(settings, overrides=overrides) as container:
        app = create_app(container)
        background: Background = app.state.background
        try:
            yield app
        finally:
            await background.aclose()


def create_app(container: Container) -> FastAPI:
    """The API over an open container, which whoever opened it closes after it."""
    settings = container.settings()
    app = FastAPI(
        title="Support agent",
        version="1",
        openapi_url="/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        max_body_size=settings.api.max_body_bytes,
        redirect_slashes=False,
    )
    app.state.container = container
    app.state.api_keys = container.api_keys()
    app.state.customer_tokens = container.customer_tokens()
    app.state.background = Background(shutdown_s=settings.queue.shutdown_seconds)
    for kind in (SupportAgentError, ProblemError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _problem)
    app.add_middleware(Edge, ids=container.ids())
    for router in ROUTERS:
        app.include_router(router)
    return app


async def _problem(request: Request, error: Exception) -> Response:
    return problem_response(request, error)

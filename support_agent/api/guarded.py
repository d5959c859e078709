"""Routes that say which scopes open them; who may not come in is told so before all else."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from support_agent.api.access import admitted
from support_agent.api.problems import MEDIA_TYPE, Problem
from support_agent.domain.access import Scope


class Needs(HTTPBearer):
    """One of these scopes. What it says is enforced by `GuardedRoute`, and told in the OpenAPI."""

    def __init__(self, *scopes: Scope) -> None:
        super().__init__(
            scheme_name="key",
            bearerFormat="sak_…",
            description="A key of `support-agent keys create`.",
            auto_error=False,
        )
        self.scopes = scopes

    async def __call__(self, request: Request) -> None:  # type: ignore[override]  # enforced before
        return None


def needs(*scopes: Scope) -> Dependency:
    """For a route's `dependencies`: a key with one of these scopes opens it."""
    dependency: Dependency = Depends(Needs(*scopes))
    return dependency


class GuardedRoute(APIRoute):
    """A route with `needs`: nothing of a request is read before its sender is let in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        scopes = next(
            one.dependency.scopes for one in self.dependencies if isinstance(one.dependency, Needs)
        )

        async def guarded(request: Request) -> Response:
            state = request.app.state
            request.state.caller = await admitted(
                request.headers, scopes, keys=state.api_keys, tokens=state.customer_tokens
            )
            return await handle(request)

        return guarded


def guarded_router(tag: str) -> APIRouter:
    """A router of guarded routes; each has to say what it `needs`."""
    problem = {"model": Problem, "content": {MEDIA_TYPE: {}}}
    return APIRouter(
        route_class=GuardedRoute,
        tags=[tag],
        responses={
            status: {**problem, "description": words}
            for status, words in {
                401: "No key, or none that is good",
                403: "The key may not do this",
                422: "Something in the request is wrong",
                429: "Too many requests",
            }.items()
        },
    )

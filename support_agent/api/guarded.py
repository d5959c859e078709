"""Routes that say which scopes open them; who may not come in is told so before all else."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from support_agent.api.admission import Admission
from support_agent.api.bodies import ReadRequest, json_of, read_body
from support_agent.api.idempotency import Idempotency, key_of
from support_agent.api.problems import MEDIA_TYPE, Problem
from support_agent.domain.access import Scope

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


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


def problems(words: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: the errors that only it has, with what each means."""
    problem = {"model": Problem, "content": {MEDIA_TYPE: {}}}
    return {status: {**problem, "description": told} for status, told in words.items()}


class NeverKept:
    """These fields of the answer are not kept to be replayed. Told by `never_kept`."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    async def __call__(self) -> None:
        return None


def never_kept(*fields: str) -> Dependency:
    """For a route's `dependencies`: top-level fields that no database may hold, such as a secret.

    An answer that is replayed by its `Idempotency-Key` lacks them.
    """
    dependency: Dependency = Depends(NeverKept(*fields))
    return dependency


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What stands before every route of an application."""

    admission: Admission
    idempotency: Idempotency
    most_bytes: int
    body_s: float

    async def read(self, request: Request) -> ReadRequest:
        """The request with its body, as JSON.

        Raises:
            ProblemError, InvalidInput: see `bodies`.
        """
        body = await read_body(request, most=self.most_bytes, within_s=self.body_s)
        return ReadRequest(request, body, json_of(request, body))


class GuardedRoute(APIRoute):
    """A route with `needs`: nothing of a request is read before its sender is let in.

    In this order: key, scope, customer, rate, body, and what was answered before.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        told = [one.dependency for one in self.dependencies]
        scopes = next(one.scopes for one in told if isinstance(one, Needs))
        left_out = {field for one in told if isinstance(one, NeverKept) for field in one.fields}

        async def guarded(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            caller = await guard.admission.let_in(request, scopes)
            request.state.caller = caller
            if request.method not in CHANGING:
                return await handle(request)
            key = key_of(request.headers)
            read = await guard.read(request)
            request.state.read_body = await read.json()  # for problems to point into
            if key is None:
                return await handle(read)
            return await guard.idempotency.once(
                read, handle, key=key, caller=caller, never_kept=left_out
            )

        return guarded


def guarded_router(tag: str) -> APIRouter:
    """A router of guarded routes; each has to say what it `needs`."""
    return APIRouter(
        route_class=GuardedRoute,
        tags=[tag],
        responses=problems(
            {
                401: "No key, or none that is good",
                403: "The key may not do this",
                422: "Something in the request is wrong",
                429: "Too many requests",
            }
        ),
    )

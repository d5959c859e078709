"""The outermost edge of the API: an id for each request, and every error a problem+json."""

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from support_agent.api.problems import problem_response
from support_agent.ports.clock import Ids

HEADER = b"x-request-id"
CACHING = b"cache-control"


class Edge:
    """Gives each request an id of ours and answers for whatever is raised within.

    Nothing is to be kept by caches on the way, unless a route says otherwise.
    """

    def __init__(self, app: ASGIApp, *, ids: Ids) -> None:
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._ids.new("htr")  # req_… are refund requests
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = [*message.get("headers", ()), (HEADER, request_id.encode())]
                if all(name.lower() != CACHING for name, _ in headers):
                    headers.append((CACHING, b"no-store"))  # most of it is about somebody
                message = {**message, "headers": headers}
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, named)
            except Exception as error:
                if started:
                    raise
                response = problem_response(Request(scope), error)
                await response(scope, receive, named)

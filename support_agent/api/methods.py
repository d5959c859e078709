"""Which methods an address takes, over all routes that share it."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException


def methods_of(app: FastAPI) -> Mapping[str, frozenset[str]]:
    """By the templates of the routes that there are now."""
    found: dict[str, frozenset[str]] = {}
    for context in iter_route_contexts(app.routes):
        if context.path is not None and context.methods is not None:
            found[context.path] = found.get(context.path, frozenset()) | context.methods
    return found


def with_all_methods(request: Request, error: HTTPException) -> HTTPException:
    """The refusal of a method, naming every one that is taken (RFC 9110, 10.2.1).

    By itself it names those of the first route at the address.
    """
    path = getattr(request.scope.get("route"), "path", None)
    allowed = methods_of(request.app).get(path, frozenset()) if path is not None else None
    if not allowed:
        return error
    headers = {**(error.headers or {}), "Allow": ", ".join(sorted(allowed))}
    return HTTPException(error.status_code, error.detail, headers)

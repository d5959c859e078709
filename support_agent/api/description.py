"""The OpenAPI description: what FastAPI derives of the routes, and what only we know of them."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from support_agent.api.access import CONTACT, CUSTOMER, TOKEN
from support_agent.api.etags import IF_MATCH
from support_agent.api.guarded import CHANGING, Needs
from support_agent.api.idempotency import KEY
from support_agent.api.problems import MEDIA_TYPE
from support_agent.domain.access import Scope

TITLE, VERSION = "Support agent", "1"
ABOUT = (
    "A customer-support order agent: the model proposes, the code disposes.\n\n"
    "Every error is `application/problem+json` (RFC 9457) with a stable `code` and a `request_id`. "
    "Money is counted in the smallest unit of its currency, instants are RFC 3339 in UTC. Each "
    "operation names the scopes of which a key needs one."
)
PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
# What may happen to any request, to one that changes something, and to one for a customer.
ANY = {"503": "Something that is needed is away for now; see Retry-After"}
CHANGES = {
    "400": "The body is not JSON, or the request does not say for which customer it is",
    "408": "The body took too long to arrive",
    "413": "The body is larger than is taken here",
    "409": "The first request with this Idempotency-Key is still being answered",
    "415": "The body is not application/json in UTF-8",
}
FOR_CUSTOMER = {"400": "The request does not say for which customer it is"}
CUSTOMER_HEADERS = {
    TOKEN: "A token that the shop's backend signed for its customer (JWT, HS256): the customer is "
    "verified by it.",
    CUSTOMER: "The customer's id, percent-encoded UTF-8; for keys that are bound to a channel.",
    CONTACT: "The customer's id in the channel, percent-encoded UTF-8; left out, the customer's "
    "own.",
}

TAG = '^"[1-9][0-9]{0,8}"$'
IDEMPOTENCY = {
    KEY: "A name for this request: sent again under it, it is not done again, and answered as it "
    "was the first time. Without one a request that is sent twice is two.",
}


class DescribedApi(FastAPI):
    """An application that describes itself in full."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = described(self)
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """The name of its function: stable, and what generated clients call it."""
    return route.name


def described(app: FastAPI) -> dict[str, Any]:
    """Deterministic; says nothing of where it is served."""
    found: dict[str, Any] = get_openapi(
        title=TITLE,
        version=VERSION,
        description=ABOUT,
        routes=app.routes,
        openapi_version="3.1.0",
    )
    for route, operation in _operations(app, found):
        _describe(route, operation)
    return found


def _operations(
    app: FastAPI, found: Mapping[str, Any]
) -> Iterator[tuple[APIRoute, dict[str, Any]]]:
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in sorted(context.methods or ()):
                yield route, found["paths"][context.path_format][method.lower()]


def _describe(route: APIRoute, operation: dict[str, Any]) -> None:
    scopes = scopes_of(route)
    if scopes:
        operation["security"] = [{"key": [str(scope)]} for scope in scopes]
    changes = bool(scopes) and bool(CHANGING & set(route.methods or ()))
    acts = Scope.CUSTOMERS_ACT in scopes
    told = (CUSTOMER_HEADERS if acts else {}) | (IDEMPOTENCY if changes else {})
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == IF_MATCH:  # one of them: FastAPI takes all, so that two are refused
            parameter |= {"required": True, "schema": {"type": "string", "pattern": TAG}}
    if told:
        operation.setdefault("parameters", []).extend(_headers(told))
    responses: dict[str, Any] = operation["responses"]
    expected = (
        (ANY if scopes else {}) | (FOR_CUSTOMER if acts else {}) | (CHANGES if changes else {})
    )
    for status, words in expected.items():
        responses.setdefault(status, {"description": words})
    for status, response in responses.items():
        if status >= "400":
            response["content"] = PROBLEM
    operation["responses"] = dict(sorted(responses.items()))


def scopes_of(route: APIRoute) -> tuple[Scope, ...]:
    """Those of which one opens it; none for a route that is open or proves its sender itself."""
    for dependency in route.dependencies:
        if isinstance(dependency.dependency, Needs):
            return dependency.dependency.scopes
    return ()


def _headers(told: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Those that the guard reads, before FastAPI sees anything of a request."""
    for name, words in told.items():
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        if name == TOKEN:
            schema |= {"maxLength": 8_192, "pattern": r"^[\w-]+\.[\w-]+\.[\w-]+$"}
        elif name in CUSTOMER_HEADERS:
            schema |= {"maxLength": 2_400, "pattern": "^([!-$&-~]|%[0-9A-Fa-f]{2})+$"}
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": words,
            "schema": schema,
        }


def as_text(found: Mapping[str, Any]) -> str:
    """As it is committed."""
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    """Write the description of the routes to the file that is named."""
    from support_agent.api.app import bare_app  # noqa: PLC0415 - it imports this

    Path(sys.argv[1]).write_text(as_text(bare_app().openapi()), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Every error as problem+json (RFC 9457): the one table from errors to status codes."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from support_agent.domain import errors

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
INTERNAL = "INTERNAL"
MOST_FIELDS = 50  # that an answer lists; a body can have thousands
LONGEST_NAME = 100  # of a field, in a pointer
CHALLENGE = 'Bearer realm="support-agent"'

# The nearest class of an error's own line of ancestors counts.
STATUS: Mapping[type[BaseException], int] = MappingProxyType(
    {
        errors.NotAuthenticated: 401,
        errors.ScopeMissing: 403,
        errors.InvalidInput: 422,
        errors.NotFound: 404,
        errors.Refused: 422,
        errors.NotAuthorised: 403,
        errors.Conflict: 409,
        errors.StaleDecision: 412,  # the version came as If-Match
        errors.EventRefused: 400,
        errors.ConversationBusy: 503,
        errors.RunBusy: 409,  # it goes on, and ends by itself
        errors.DatabaseUnavailable: 503,
        errors.OrdersUnavailable: 503,
        errors.ChannelUnavailable: 503,
        errors.ModelError: 503,
        errors.PaymentError: 503,
    }
)
# What an error carries that a client may act on, by the name under which the answer has it
# (RFC 9457, section 3.2). Codes, versions, moments and who decided: nothing of a customer.
MEMBERS: Mapping[type[BaseException], Mapping[str, str]] = MappingProxyType(
    {
        errors.AlreadyDecided: {"request_status": "status", "by": "by", "at": "at"},
        errors.StaleDecision: {"expected_version": "expected", "version": "actual"},
        errors.RequestExpired: {"at": "at"},
        errors.IllegalTransition: {"request_status": "current", "wanted_status": "wanted"},
        errors.TaskAlreadyDone: {"by": "by", "at": "at"},
        errors.InsufficientAuthority: {"limit_minor": "limit", "others": "others"},
        errors.Refused: {"reason": "reason"},
        errors.ScopeMissing: {"scopes": "scopes"},
        errors.ConversationBusy: {"conversation_id": "conversation_id", "left_s": "left_s"},
        errors.RunBusy: {"run_id": "run_id", "left_s": "left_s"},
    }
)
# Their own words name files, hosts and users, and who asks may be anybody; the log has them.
UNTOLD: Mapping[type[BaseException], str] = MappingProxyType(
    {
        errors.DatabaseUnavailable: "the records cannot be reached now; try again later",
        errors.OrdersUnavailable: "the shop's order system did not answer; try again later",
        errors.ChannelUnavailable: "the channel did not answer; try again later",
        errors.ModelError: "the model did not answer; try again later",
    }
)
_BY_STATUS: Mapping[int, str] = MappingProxyType(
    {
        400: "BAD_REQUEST",
        404: "NOT_FOUND",
        405: "METHOD_NOT_ALLOWED",
        408: "REQUEST_TIMEOUT",
        413: "BODY_TOO_LARGE",
        415: "UNSUPPORTED_MEDIA_TYPE",
        429: "RATE_LIMITED",
    }
)


class FieldProblem(BaseModel):
    """What is wrong with one field; `pointer` is a JSON pointer into the body, or a parameter."""

    pointer: str
    detail: str
    code: str


class Problem(BaseModel):
    """An error. `code` is stable; `title` and `detail` are for people.

    Some codes bring more members: `by` and `at` of ALREADY_DECIDED, `version` of STALE, `reason`
    and `sentences` (vi, en) of a refusal.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[FieldProblem] = Field(default_factory=list)


class ProblemError(Exception):
    """An error that only HTTP has, such as a header that is missing."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fields: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.fields = tuple(fields)
        self.headers = dict(headers or {})


def status_of(error: BaseException) -> int:
    """The status of an error; one that is not in the table is a fault of ours."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def members_of(error: BaseException) -> dict[str, Any]:
    """The members that this error adds, those that it knows."""
    kind = next((one for one in type(error).__mro__ if one in MEMBERS), None)
    if kind is None:
        return {}
    told = {name: getattr(error, data) for name, data in MEMBERS[kind].items()}
    if isinstance(error, errors.Refused):
        told["sentences"] = {"vi": error.sentence("vi"), "en": error.sentence("en")}
    return {name: value for name, value in told.items() if value is not None}


def words_of(error: errors.SupportAgentError) -> str:
    """What a client is told of an error; what is not for clients goes into the log."""
    for kind in type(error).__mro__:
        if kind in UNTOLD:
            log.warning("request.not_served", code=error.code, problem=str(error))
            return UNTOLD[kind]
    return str(error)


def problem_response(request: Request, error: BaseException) -> JSONResponse:
    """The answer to a request that came to this error."""
    match error:
        case ProblemError():
            return _response(
                request, error.status, error.code, str(error), error.fields, error.headers
            )
        case RequestValidationError():
            return _invalid(request, error)
        case errors.InvalidInput():
            pointer = _pointer(request, error.field)
            field = FieldProblem(pointer=pointer, detail=error.problem, code=error.code.lower())
            return _response(request, 422, error.code, str(error), (field,))
        case errors.SupportAgentError() if status_of(error) != 500:
            return _response(
                request,
                status_of(error),
                error.code,
                words_of(error),
                headers=_headers(error),
                members=members_of(error),
            )
        case HTTPException():
            code = _BY_STATUS.get(error.status_code, HTTPStatus(error.status_code).name)
            return _response(
                request, error.status_code, code, _detail(error), headers=error.headers or {}
            )
    log.error("request.failed", exc_info=error)
    return _response(
        request,
        500,
        INTERNAL,
        "something failed here; nothing that was answered before is lost. Name the request_id.",
    )


def _headers(error: errors.SupportAgentError) -> Mapping[str, str]:
    if isinstance(error, errors.NotAuthenticated):
        return {"WWW-Authenticate": CHALLENGE}
    return {"Retry-After": "1"} if status_of(error) == 503 else {}


def _detail(error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "there is nothing at this address; /openapi.json lists what there is"
        case 405:
            return "this address does not take this method"
        case 413:
            return "the body is larger than is taken here"
    return str(error.detail)


def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    fields = [_field(one, error.body) for one in error.errors()[:MOST_FIELDS]]
    if any(field.code == "json_invalid" for field in fields):
        return _response(request, 400, "BODY_NOT_JSON", "the body is not JSON", fields)
    detail = "; ".join(f"{field.pointer}: {field.detail}" for field in fields[:3])
    return _response(request, 422, errors.InvalidInput.code, detail, fields)


def _field(problem: Mapping[str, Any], body: object) -> FieldProblem:
    """Without the value: it may be somebody's secret, or of any size."""
    where, *path = problem["loc"]
    if where == "body":
        path = _path_in(body, path)
    parts = (escaped(str(part)) for part in path)
    pointer = "/" + "/".join(parts) if where == "body" and path else "".join(map(str, path))
    return FieldProblem(
        pointer=pointer if where == "body" else f"{where}:{pointer}",
        detail=str(problem["msg"]),
        code=str(problem["type"]),
    )


def _pointer(request: Request, field: str) -> str:
    """Where the field that a rule names came from; its bare name where the request had it not."""
    body = request.scope.get("state", {}).get("read_body")
    if field.startswith("/"):
        return field
    for where, found in _objects_of(body):
        if field in found:
            return f"{where}/{escaped(field)}"
    if field in request.query_params:
        return f"query:{field}"
    return f"header:{field}" if field in request.headers else field


def _objects_of(body: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    """The body, and the objects right in it, such as `amount`, each with its pointer."""
    if not isinstance(body, dict):
        return []
    inner = [(f"/{escaped(name)}", it) for name, it in body.items() if isinstance(it, dict)]
    return [("", body), *inner]


def escaped(name: str) -> str:
    """A name as JSON pointers have it (RFC 6901), of bounded length."""
    return name[:LONGEST_NAME].replace("~", "~0").replace("/", "~1")


def _path_in(body: Any, path: Sequence[str | int]) -> list[str | int]:  # noqa: ANN401 - any JSON
    """The path without what pydantic puts in: which of several shapes it took the body for."""
    kept: list[str | int] = []
    for left, part in zip(range(len(path) - 1, -1, -1), path, strict=True):
        is_there = isinstance(body, dict) and part in body
        if isinstance(body, dict) and not is_there and left:
            continue
        kept.append(part)
        body = body[part] if is_there else None
    return kept


def _response(
    request: Request,
    status: int,
    code: str,
    detail: str,
    fields: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> JSONResponse:
    problem = Problem.model_validate(
        {
            **(members or {}),
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code,
            "request_id": request.scope.get("state", {}).get("request_id", ""),
            "errors": list(fields),
        }
    )
    return JSONResponse(
        problem.model_dump(mode="json"),
        status_code=status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )

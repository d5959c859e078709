"""`Idempotency-Key`: a request that is sent again is answered as it was the first time.

As the IETF's draft of that header has it. Kept is every answer that a route came to by what it
found (2xx, 404, 409, 410, 412, and 422 where a rule refused). Not kept, so that the same request
may be sent again, is whatever was wrong with the request or its sender, or went wrong here: 400,
401, 403, 408, 413, 415, 422 for wrong fields, 428, 429 and 5xx; nor RUN_BUSY, which passes.
"""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import quote

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from support_agent.api.access import the_only
from support_agent.api.problems import ProblemError, problem_response
from support_agent.domain.access import Caller
from support_agent.domain.errors import (
    ConversationBusy,
    InvalidInput,
    Refused,
    SupportAgentError,
)
from support_agent.ports.storage import Database, InFlight, Mine, Reply, Reused, Slot

KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST_KEY = 255
_KEY = re.compile(f"[!-~]{{1,{LONGEST_KEY}}}")
LONGEST_ROUTE = 300  # of a path that is kept as it is; of a longer one its hash
KEPT_HEADERS = ("content-type", "location", "etag", "preference-applied")
KEPT_REFUSALS = frozenset({404, 409, 410, 412})
RULE_REFUSED = 422

log = structlog.get_logger(__name__)


def key_of(headers: Headers) -> str | None:
    """What the sender calls this request; None when it has no name.

    Raises:
        InvalidInput: too long, or not printable ASCII.
    """
    if KEY not in headers:
        return None
    key = the_only(headers, KEY)
    if not _KEY.fullmatch(key):
        raise InvalidInput(
            KEY, f"is not 1 to {LONGEST_KEY} printable ASCII characters without a space"
        )
    return key


class Idempotency:
    """Answers a request once. A crash in between lets it run again; its effects hold by themselves.

    `lease_s` is how long one may take before it is thought dead.
    """

    def __init__(self, *, database: Database, kept_s: float, lease_s: float) -> None:
        self._database = database
        self._kept_s = kept_s
        self._lease_s = lease_s

    async def once(
        self,
        request: Request,
        handle: Callable[[Request], Awaitable[Response]],
        *,
        key: str,
        caller: Caller,
        never_kept: Collection[str] = (),
    ) -> Response:
        """The route's answer to a request whose body was read, or the one that was given before.

        The database does not hold fields that are `never_kept`; a replay lacks them.

        Raises:
            ProblemError: another request has this key, or the same one is being answered.
            Whatever the route raises and is not kept.
        """
        slot, told = _slot(request, key, caller), await _hash(request, caller)
        taken = await self._database.transact(
            lambda tx: tx.idempotency.take(slot, told, lease_s=self._lease_s, kept_s=self._kept_s)
        )
        match taken:
            case Mine():
                return await self._answered(request, handle, slot, taken, never_kept)
            case Reply():
                return _replayed(taken)
            case InFlight():
                raise ProblemError(
                    409,
                    "IDEMPOTENCY_IN_FLIGHT",
                    "the first request with this key is still being answered; send it again later",
                    headers={"Retry-After": "1"},
                )
            case Reused():
                raise ProblemError(
                    422,
                    "IDEMPOTENCY_KEY_REUSED",
                    "another request came with this key before; give each request one of its own",
                )

    async def _answered(
        self,
        request: Request,
        handle: Callable[[Request], Awaitable[Response]],
        slot: Slot,
        mine: Mine,
        never_kept: Collection[str],
    ) -> Response:
        reply: Reply | None = None
        try:
            response = await self._come_to(request, handle)
            reply = _reply(response, never_kept)
            return response
        finally:
            await self._end(slot, mine, reply)

    async def _come_to(
        self, request: Request, handle: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        try:
            return await handle(request)
        except ConversationBusy:
            raise  # which passes by itself
        except (SupportAgentError, ProblemError) as error:
            response = problem_response(request, error)
            if response.status_code in KEPT_REFUSALS or isinstance(error, Refused):
                return response
            raise

    async def _end(self, slot: Slot, mine: Mine, reply: Reply | None) -> None:
        """What was done is done, also where it cannot be noted."""
        try:
            await self._database.transact(
                lambda tx: (
                    tx.idempotency.release(slot, mine)
                    if reply is None
                    else tx.idempotency.settle(slot, mine, reply)
                )
            )
        except SupportAgentError as problem:
            log.warning("idempotency.not_settled", problem=str(problem))


def _slot(request: Request, key: str, caller: Caller) -> Slot:
    """By the key's name, so that a key that was rotated finds what the one before it did."""
    path = quote(request.scope["path"])
    if len(path) > LONGEST_ROUTE:
        path = hashlib.sha256(path.encode()).hexdigest()
    return Slot(
        principal=caller.key.name,
        customer_id=caller.acting.customer_id if caller.acting else "",
        route=f"{request.method} {path}",
        key=key,
    )


async def _hash(request: Request, caller: Caller) -> str:
    """Of all that makes a request another one, whoever may have the key's name by now included."""
    acting = caller.acting
    who = [acting.channel, acting.account, acting.contact, str(acting.assurance)] if acting else []
    parts = (
        request.scope["query_string"],
        request.headers.get("if-match", "").encode(),
        json.dumps([caller.key.approver, *who]).encode(),
        await request.body(),
    )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def _reply(response: Response, never_kept: Collection[str]) -> Reply | None:
    """None when the answer is not to be kept, or flows."""
    body = getattr(response, "body", None)
    is_final = response.status_code < 400 or response.status_code in KEPT_REFUSALS
    if not isinstance(body, bytes) or not (is_final or response.status_code == RULE_REFUSED):
        return None
    text = body.decode()
    if never_kept and text:
        fields = json.loads(text)
        kept = {name: value for name, value in fields.items() if name not in never_kept}
        text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    return Reply(status=response.status_code, headers=headers, body=text)


def _replayed(reply: Reply) -> Response:
    if reply.body is None:
        raise ProblemError(
            409,
            "IDEMPOTENT_REPLY_ERASED",
            "the request was answered before; what it was answered was erased with a customer's "
            "data. What it did stands: look at it",
        )
    return Response(
        content=reply.body, status_code=reply.status, headers={**reply.headers, REPLAYED: "true"}
    )

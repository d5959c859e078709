"""Bodies of requests: of bounded size and time, and JSON that everybody reads alike."""

import asyncio
import json
import math
import re
from collections.abc import Iterator
from email.message import Message
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from support_agent.api.problems import LONGEST_NAME, ProblemError, escaped
from support_agent.domain.errors import InvalidInput

JSON = "application/json"
LARGEST = 2**63 - 1  # a larger whole number fits no column, and is exact in few clients
DEEPEST = 64  # objects and lists within one another
_BOM = b"\xef\xbb\xbf"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CLOSE = {"Connection": "close"}  # the rest of the body is not read, so nothing can follow it


class ReadRequest(Request):
    """A request whose body was read and checked before its route sees it."""

    def __init__(self, request: Request, body: bytes, value: object) -> None:
        super().__init__(request.scope, request.receive)
        self._read = body
        self._value = value

    async def body(self) -> bytes:
        return self._read

    async def json(self) -> Any:  # noqa: ANN401 - as in Starlette
        return self._value


async def read_body(request: Request, *, most: int, within_s: float) -> bytes:
    """All of the body.

    Raises:
        ProblemError: 413 it is larger, 408 it came too slowly, 400 who sent it went away.
    """
    told = request.headers.get("content-length", "0")
    if not told.isdecimal() or len(told) > len(str(LARGEST)) or int(told) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                chunks.append(chunk)
    except TimeoutError as error:
        raise ProblemError(
            408, "REQUEST_TIMEOUT", f"the body did not arrive within {within_s:g} s", headers=_CLOSE
        ) from error
    except ClientDisconnect as error:
        raise ProblemError(400, "BAD_REQUEST", "the body broke off") from error
    return b"".join(chunks)


def json_of(request: Request, body: bytes) -> object:
    """The body's value, read as strictly as RFC 7493 (I-JSON) asks; None of an empty body.

    Raises:
        ProblemError: 415 it is said to be something else, 400 it is not JSON.
        InvalidInput: a text in it that cannot be stored.
    """
    if not body:
        return None
    _check_type(request)
    if body.startswith(_BOM):
        raise _not_json("it begins with a byte order mark; send it without one")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start} is not UTF-8") from error
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        raise _not_json(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise _too_deep() from error
    for pointer in _unstorable(value):
        raise InvalidInput(
            pointer or "body",
            "holds a NUL or half of a surrogate pair, which no text can be stored with",
        )
    return value


def _check_type(request: Request) -> None:
    """By the charset too: whoever declares another one would be read wrongly."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(
            415, "UNSUPPORTED_MEDIA_TYPE", "send the body as it is, without a Content-Encoding"
        )
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    charset = message.get_param("charset", "utf-8")
    is_json = message.get_content_type() == JSON and "content-type" in request.headers
    if not is_json or str(charset).lower() not in {"utf-8", "utf8"}:
        raise ProblemError(
            415, "UNSUPPORTED_MEDIA_TYPE", f"send the body as Content-Type: {JSON}, in UTF-8"
        )


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # adds on the way
        raise _not_json(f"an object names {twice[:LONGEST_NAME]!r} twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > len(str(LARGEST)) + 1 or abs(int(digits)) > LARGEST:
        raise _not_json("it holds a whole number of more than 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _not_json("it holds a number that is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise _not_json(f"{name} is not JSON")


def _unstorable(value: object) -> Iterator[str]:
    """Pointers to the texts that no database can hold."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    while waiting:
        pointer, found, depth = waiting.pop()
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(found, str):
            if _UNSTORABLE.search(found):
                yield pointer
        elif isinstance(found, list):
            waiting += [(f"{pointer}/{n}", one, depth + 1) for n, one in enumerate(found)]
        elif isinstance(found, dict):
            for name, one in found.items():
                if _UNSTORABLE.search(name):
                    yield pointer
                waiting.append((f"{pointer}/{escaped(name)}", one, depth + 1))


def _too_large(most: int) -> ProblemError:
    return ProblemError(
        413,
        "BODY_TOO_LARGE",
        f"the body is larger than the {most} bytes taken here",
        headers=_CLOSE,
    )


def _too_deep() -> ProblemError:
    return _not_json(f"it is nested deeper than {DEEPEST} levels")


def _not_json(why: str) -> ProblemError:
    return ProblemError(400, "BODY_NOT_JSON", f"the body is not JSON as it is taken here: {why}")

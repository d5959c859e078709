"""What a chat-completion server's failure means for us: our error, without the server's words."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from support_agent.adapters.models.chat_address import KEY_SETTING, NAME_SETTING, URL_SETTING
from support_agent.adapters.models.http_limits import retry_after
from support_agent.domain.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelUnavailable,
    SupportAgentError,
)

# A wrong setting must not look like an outage.
_WRONG_SETTING: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            KEY_SETTING,
            f"the model server does not accept the key; see also {URL_SETTING}",
        ),
        HTTPStatus.FORBIDDEN: (
            KEY_SETTING,
            f"the key may not use this model or server; see also {NAME_SETTING}, {URL_SETTING}",
        ),
        HTTPStatus.NOT_FOUND: (
            NAME_SETTING,
            f"the server has no such model or no chat completions; see also {URL_SETTING}",
        ),
    }
)
# OpenAI and Azure; llama.cpp's server.
_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})
# Servers without a code for it say so in words only: vLLM, Mistral, older llama.cpp, Gemini.
_TOO_LONG_IN_WORDS = re.compile(
    r"(maximum|available) context (length|size)|exceeds? the context (length|size|window)"
    r"|input token count .{0,40}exceeds",
    re.IGNORECASE,
)
_REFUSES_CONTENT = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
# The account is empty: the same request is refused until somebody pays.
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_MAY_PASS = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
# Words or an HTTP status: a server that echoes the API key as a code does not get it logged.
_CODE = re.compile(r"[a-z_]{3,48}|\d{3}")


def http_failure(status: int, headers: Mapping[str, str], body: bytes) -> SupportAgentError:
    """The error for any status but success; no redirect is followed."""
    error = _error_of(_document(body))
    codes = _codes(error)
    what = ", ".join([f"HTTP {status}", *codes[:1]])
    if status < HTTPStatus.BAD_REQUEST:
        return ConfigurationError(
            f"the server points elsewhere ({what}); name that address itself", setting=URL_SETTING
        )
    if _is_too_long(status, codes, error):
        return ContextTooLong(f"the model cannot read a request of this length ({what})")
    if status in _WRONG_SETTING:
        setting, problem = _WRONG_SETTING[status]
        return ConfigurationError(f"{problem} ({what})", setting=setting)
    return ModelUnavailable(
        f"the model server refused the request ({what})",
        retry_after=retry_after(headers),
        may_pass=_may_pass(status, codes),
    )


def told_failure(document: Mapping[str, object]) -> ModelUnavailable | None:
    """The error that a reply or an event tells of under HTTP 200; None when it tells of none."""
    if not document.get("error") or document.get("choices"):
        return None
    error = _error_of(document)
    codes = _codes(error)
    status = next((int(code) for code in codes if code.isdecimal()), None)
    what = codes[0] if codes else "no code"
    if _is_too_long(status or HTTPStatus.BAD_REQUEST, codes, error):
        return ContextTooLong(f"the model cannot read a request of this length ({what})")
    return ModelUnavailable(
        f"the model server answered with an error ({what})",
        may_pass=_may_pass(status or HTTPStatus.INTERNAL_SERVER_ERROR, codes),
    )


def _document(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_of(document: object) -> Mapping[str, object]:
    """The error object; vLLM's older form is the document itself."""
    if not isinstance(document, dict):
        return {}
    error = document.get("error", document)
    return error if isinstance(error, dict) else {"message": error}


def _codes(error: Mapping[str, object]) -> list[str]:
    named = (str(error.get(key) or "") for key in ("code", "type"))
    return [name for name in named if _CODE.fullmatch(name)]


def _is_too_long(status: int, codes: list[str], error: Mapping[str, object]) -> bool:
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or not _TOO_LONG.isdisjoint(codes):
        return True
    words = error.get("message")
    return (
        status in _REFUSES_CONTENT
        and isinstance(words, str)
        and _TOO_LONG_IN_WORDS.search(words) is not None
    )


def _may_pass(status: int, codes: list[str]) -> bool:
    if not _NO_MONEY.isdisjoint(codes):
        return False
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _MAY_PASS

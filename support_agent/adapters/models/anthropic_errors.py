"""What a failure of the Messages API means for us: our error, without the server's words."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from support_agent.adapters.models.chat_address import NAME_SETTING, Vendor
from support_agent.adapters.models.http_limits import retry_after
from support_agent.domain.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelUnavailable,
    SupportAgentError,
)

ANTHROPIC = Vendor(
    base_url="https://api.anthropic.com",
    key_setting="ANTHROPIC_API_KEY",
    url_setting="ANTHROPIC_BASE_URL",
)
THINKING_SETTING = "SUPPORT_AGENT_MODEL__THINKING_TOKENS"
PATH = "/v1/messages"  # behind the base URL

_NAME_AND_URL = f"{NAME_SETTING}, {ANTHROPIC.url_setting}"

# A wrong setting must not look like an outage.
_WRONG_SETTING: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            ANTHROPIC.key_setting,
            f"the model server does not accept the key; see also {ANTHROPIC.url_setting}",
        ),
        HTTPStatus.FORBIDDEN: (
            ANTHROPIC.key_setting,
            f"the key may not use this model or server; see also {_NAME_AND_URL}",
        ),
        HTTPStatus.NOT_FOUND: (
            NAME_SETTING,
            f"the server has no such model or no {PATH}; see also {ANTHROPIC.url_setting}",
        ),
    }
)
# Said in words only: these have no code of their own.
_TOO_LONG = re.compile(r"prompt is too long|exceeds? (the )?context (limit|window)", re.IGNORECASE)
_NO_BUDGET = re.compile(r"budget_tokens|thinking\.type", re.IGNORECASE)
_STATUSES_THAT_PASS = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
)
_TYPES_THAT_PASS = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
# Words only: a server that echoes the API key as a type does not get it logged.
_TYPE = re.compile(r"[a-z_]{3,48}")


def http_failure(status: int, headers: Mapping[str, str], body: bytes) -> SupportAgentError:
    """The error for any status but success; no redirect is followed."""
    kind, words = _error_of(_document(body))
    what = f"HTTP {status}, {kind}" if kind else f"HTTP {status}"
    if status < HTTPStatus.BAD_REQUEST:
        return ConfigurationError(
            f"the server points elsewhere ({what}); name that address itself",
            setting=ANTHROPIC.url_setting,
        )
    if status in _WRONG_SETTING:
        setting, problem = _WRONG_SETTING[status]
        return ConfigurationError(f"{problem} ({what})", setting=setting)
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return ContextTooLong(f"the model cannot read a request of this length ({what})")
    if status == HTTPStatus.BAD_REQUEST and _TOO_LONG.search(words):
        return ContextTooLong(f"the model cannot read a request of this length ({what})")
    if status == HTTPStatus.BAD_REQUEST and _NO_BUDGET.search(words):
        return ConfigurationError(
            f"this model does not take a number of tokens to think with ({what})",
            setting=THINKING_SETTING,
        )
    return ModelUnavailable(
        f"the model server refused the request ({what})",
        retry_after=retry_after(headers),
        may_pass=status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _STATUSES_THAT_PASS,
    )


def told_failure(document: Mapping[str, object]) -> ModelUnavailable | None:
    """The error that a body tells of under HTTP 200; None when it tells of none."""
    if document.get("type") != "error" and ("error" not in document or "content" in document):
        return None
    kind, _ = _error_of(document)
    return ModelUnavailable(
        f"the model server answered with an error ({kind or 'no type'})",
        may_pass=kind is None or kind in _TYPES_THAT_PASS,
    )


def _document(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error_of(document: object) -> tuple[str | None, str]:
    """Its type, and its message: foreign text, to look at and not to show."""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None, ""
    kind, words = error.get("type"), error.get("message")
    is_named = isinstance(kind, str) and _TYPE.fullmatch(kind)
    return (kind if is_named else None), (words if isinstance(words, str) else "")

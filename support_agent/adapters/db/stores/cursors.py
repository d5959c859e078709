"""Opaque cursors: the key of the last row of a page, checked before it reaches SQL."""

import base64
import binascii
import json
from typing import Any

from support_agent.adapters.db.statements import storable
from support_agent.domain.errors import InvalidInput

_MAX_LENGTH = 500
_MAX_INTEGER = 2**63 - 1


def encode_cursor(order: str, *key: int | str) -> str:
    """A cursor for the list in this order; `key` is the last row's."""
    raw = json.dumps([order, *key], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_cursor(cursor: str, order: str, *types: type[int] | type[str]) -> tuple[Any, ...]:
    """The key again.

    Raises:
        InvalidInput: not a cursor of a list in this order.
    """
    match _parse(cursor):
        case [found, *key] if (
            found == order
            and [type(part) for part in key] == [*types]
            and all(_fits(part) for part in key)
            and encode_cursor(order, *key) == cursor
        ):
            return tuple(key)
    raise InvalidInput("cursor", "was not handed out by this list; start again without one")


def _parse(cursor: str) -> Any:  # noqa: ANN401 - whatever JSON somebody sent
    if len(cursor) > _MAX_LENGTH:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return json.loads(raw.decode())
    except (binascii.Error, ValueError, RecursionError):
        return None


def _fits(part: int | str) -> bool:
    return storable(part) if isinstance(part, str) else 0 <= part <= _MAX_INTEGER

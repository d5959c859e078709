"""Values out of a foreign server's reply: usable, or told apart from what is."""

import re
from typing import TypeGuard

from support_agent.domain.errors import ModelReplyInvalid

_MOST_TOKENS = 10**12  # more is a broken counter, and would not fit a database column
# Half a surrogate pair or a NUL cannot be stored, so such a reply could not be committed.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_token_count(value: object) -> TypeGuard[int]:
    """Whether a server counted that; anything else is nonsense."""
    return type(value) is int and 0 <= value <= _MOST_TOKENS


def token_count(value: object) -> int:
    """What a server counted; nonsense is 0."""
    return value if is_token_count(value) else 0


def storable(value: object, what: str) -> str:
    """Text of the reply that a database takes.

    Raises:
        ModelReplyInvalid: it is none; `what` says what it should have been.
    """
    if not isinstance(value, str):
        raise ModelReplyInvalid(f"the {what} of the reply is not a string")
    if _UNSTORABLE.search(value):
        raise ModelReplyInvalid(f"the {what} of the reply is not valid Unicode text")
    return value


def is_storable(value: object) -> bool:
    """Whether it is text that a database takes."""
    return isinstance(value, str) and not _UNSTORABLE.search(value)


def usable_id(value: object, taken: set[str]) -> str | None:
    """The provider's id of a call; None when it is missing, unusable or repeated."""
    if not isinstance(value, str) or not value or value in taken:
        return None
    return value if is_storable(value) else None


def made_up_id(call_id: str) -> str:
    """Our id of a call as a provider's, in the alphabet that servers allow in a history."""
    return "call_" + call_id.replace(":", "_")

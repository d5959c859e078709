"""Addresses with places for ids; an id goes into its own place and nowhere else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from support_agent.domain.addresses import is_loopback

_PLACE = re.compile(r"\{([^{}]*)\}")
_LONGEST_ID = 512  # characters; no shop has a longer one
_UNSENDABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# Some servers decode %2F and then walk the path, so a part of an id may be no step of one either.
_STEP = re.compile(r"(?:^|[/\\])\.{1,2}(?:$|[/\\])")


@dataclass(frozen=True, slots=True)
class Address:
    """An http(s) address whose `{places}` stand in its path or query."""

    template: str

    @classmethod
    def parse(cls, text: str, places: tuple[str, ...]) -> "Address":
        """The address, when it has each of the places once and no other.

        Raises:
            ValueError: it has not, or it is no address; credentials and fragments are none's.
        """
        parts = _split(text)
        found = _PLACE.findall(text)
        if sorted(found) != sorted(places):
            named = " and ".join(f"{{{place}}}" for place in sorted(places))
            raise ValueError(f"must hold {named}, each once, and nothing else in braces")
        if _PLACE.search(parts.netloc):
            raise ValueError("must not hold an id in its host; write it into the path or query")
        return cls(text)

    @property
    def origin(self) -> str:
        """Scheme, host and port: whom the secret is told."""
        parts = urlsplit(self.template)
        return f"{parts.scheme}://{parts.netloc.lower()}"

    @property
    def in_the_clear(self) -> bool:
        """Plain http to another machine."""
        parts = urlsplit(self.template)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")

    def of(self, values: Mapping[str, str]) -> str | None:
        """The address of these ids, each encoded as one segment; None when one cannot be an id.

        What no server can be asked for safely does not exist: control characters, half of a
        surrogate pair, nothing at all, and `.` or `..` as the whole or between slashes.
        """
        if not all(_is_sendable(value) for value in values.values()):
            return None
        encoded = {name: quote(value, safe="") for name, value in values.items()}
        return _PLACE.sub(lambda place: encoded[place[1]], self.template)


def _is_sendable(value: str) -> bool:
    return (
        0 < len(value) <= _LONGEST_ID
        and _UNSENDABLE.search(value) is None
        and _STEP.search(value) is None
    )


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # reading it is what checks it
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("is no http(s) address")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("holds characters that no address has; percent-encode them")
    if parts.username is not None or parts.fragment:
        raise ValueError("must not hold credentials or #; a secret goes into ORDERS__AUTH")
    return parts

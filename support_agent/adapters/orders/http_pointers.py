"""JSON pointers (RFC 6901), and the parts of an answer that they lead to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from support_agent.domain.errors import OrdersUnavailable

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where in a JSON document something stands; the empty one is the whole document."""

    text: str
    tokens: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Pointer":
        """The pointer this text is.

        Raises:
            ValueError: it is none; says what one looks like.
        """
        if not _POINTER.fullmatch(text):
            raise ValueError(f'{text!r} is no JSON pointer; write "/customer/id"')
        unescaped = (part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])
        return cls(text, tuple(unescaped))


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every order: what the shop's answers do not say."""

    value: str | int | bool


Source = Pointer | Constant


class UnusableAnswer(OrdersUnavailable):
    """The shop answered, but what it says cannot be an order."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an answer, and where it stands; null where there is nothing."""

    value: object
    where: str

    def at(self, source: Source | None) -> "Node":
        """What the source leads to from here."""
        if source is None:
            return Node(None, self.where)
        if isinstance(source, Constant):
            return Node(source.value, "a value of the map")
        value = self.value
        for token in source.tokens:
            value = _step(value, token)
        return Node(value, f"{self.where}{source.text}")

    @property
    def there(self) -> bool:
        return self.value is not None

    def says_null(self, place: Pointer) -> bool:
        """Whether null itself stands there, which is an answer; a place that is missing is none."""
        *above, last = place.tokens or ("",)
        parent = self.at(Pointer(place.text, tuple(above))).value
        return isinstance(parent, dict) and last in parent and parent[last] is None

    def each(self) -> Iterator["Node"]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self.unusable("is no array")
        for index, value in enumerate(self.value):
            yield Node(value, f"{self.where}/{index}")

    def unusable(self, why: str) -> NoReturn:
        """This is not what it has to be; the message names the place and never the value.

        Raises:
            UnusableAnswer: always.
        """
        raise UnusableAnswer(
            f"the shop's order system sent what cannot be used: {self.where or '/'} {why}"
        )


def _step(value: object, token: str) -> object:
    if isinstance(value, dict):
        return value.get(token)
    if isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
        return value[int(token)]
    return None

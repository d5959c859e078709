"""JSON objects inside a model's text; each member keeps its own text beside its value."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A value and the text it was read from."""

    value: Any
    text: str


Members = Mapping[str, Member]

_SPACE = re.compile(r"[ \t\n\r]*")
# Each alternative ends where it cannot be tried again: linear on any text.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|,(?=\s*[}\]])|[{}\[\]]', re.DOTALL)
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}


def object_at(text: str, start: int) -> tuple[Members, int]:
    """The object whose brace is at `start`, and where it ends.

    Raises:
        ValueError: it is no JSON object, or one of its own keys stands twice; says which.
        RecursionError: it is nested too deeply.
    """
    members: dict[str, Member] = {}
    at = _after_space(text, start + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        key, end = _value(text, at)
        if not isinstance(key, str) or key in members:
            raise ValueError("has something else than a key, or a key twice")
        at = _after(":", text, end)
        value, end = _value(text, at)
        members[key] = Member(value=value, text=text[at:end])
        at = _after_space(text, end)
        if text[at : at + 1] == "}":
            return members, at + 1
        at = _after(",", text, at)


def without_trailing_commas(text: str, start: int) -> tuple[str, int] | None:
    """The object at `start` less its commas before a closing bracket, and where it ends.

    No other repair has only one reading. None when the object never ends.
    """
    depth, at = 0, start
    kept: list[str] = []
    for token in _TOKEN.finditer(text, start):
        sign = token.group()
        if sign == ",":
            kept.append(text[at : token.start()])
            at = token.end()
        depth += _DEPTH.get(sign, 0)
        if depth == 0:
            return "".join((*kept, text[at : token.end()])), token.end()
    return None


def only(members: Members, keys: Iterable[str]) -> Member | None:
    """The member under one of the keys, None without.

    Raises:
        ValueError: there are several.
    """
    found = [key for key in keys if key in members]
    if len(found) > 1:
        raise ValueError(f"has {' and '.join(found)}; only one may stand")
    return members[found[0]] if found else None


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no valid JSON: {error.msg}") from None
    except RecursionError:
        raise
    except ValueError:  # a number of thousands of digits
        raise ValueError("is no valid JSON that can be read") from None


def _after(sign: str, text: str, at: int) -> int:
    at = _after_space(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"is no valid JSON: {sign!r} is missing")
    return _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Not strict: models write line breaks into their strings as they are, which has one reading.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, strict=False)

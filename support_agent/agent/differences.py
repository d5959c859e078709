"""What is different between an observation as it was recorded and as it would be today."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from support_agent.domain.runs import Observation

Names = Mapping[str, str]  # ids that were made today, and the recorded ones they stand for


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field of an observation; None on the side that does not have it."""

    field: str
    recorded: object
    now: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a call that makes something makes anew each time: ids, and moments from then on."""

    ids: Names = field(default_factory=dict)
    moments: bool = False


def differences(
    recorded: Observation, now: Observation, allowed: Allowance
) -> tuple[Difference, ...]:
    """Field by field where both have fields, else the whole text with its code."""
    content = renamed(now.content, allowed.ids)
    before, after = _fields(recorded.content), _fields(content)
    if recorded.ok and now.ok and before is not None and after is not None:
        return tuple(_between(before, after, "", moments=allowed.moments))
    told = (
        ("ok", recorded.ok, now.ok),
        ("error_code", recorded.error_code, now.error_code),
        ("content", recorded.content, content),
    )
    return tuple(Difference(field=name, recorded=a, now=b) for name, a, b in told if a != b)


def renamed(text: str, ids: Names) -> str:
    """The text with recorded ids in place of those made today; ids hold nothing JSON escapes."""
    for made, was in ids.items():
        text = text.replace(made, was)
    return text


def _fields(content: str) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _between(before: object, after: object, path: str, *, moments: bool) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{path}.{key}" if path else key
            yield from _between(before.get(key), after.get(key), inner, moments=moments)
        return
    ours, theirs = _by_id(before), _by_id(after)
    if ours is not None and theirs is not None:
        for key in dict.fromkeys((*ours, *theirs)):
            inner = f"{path}[{key}]"
            yield from _between(ours.get(key), theirs.get(key), inner, moments=moments)
        return
    same = type(before) is type(after) and before == after
    if not same and not (moments and _is_moment(before) and _is_moment(after)):
        yield Difference(field=path, recorded=before, now=after)


def _by_id(value: object) -> Mapping[str, object] | None:
    """A list of objects by their ids, so that one more in it moves none of the others."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    rows: dict[str, object] = {}
    for row in value:
        names = [key for key in row if key.endswith("_id")] if isinstance(row, dict) else []
        if not names or str(row[names[0]]) in rows:
            return None
        rows[str(row[names[0]])] = row
    return rows


def _is_moment(value: object) -> bool:
    if not isinstance(value, str) or "T" not in value:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True

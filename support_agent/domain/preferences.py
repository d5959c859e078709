"""How a customer wants to be served: a few codes, never words of theirs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import cast

from support_agent.domain.reasons import Language


class PreferenceKind(StrEnum):
    """Stored; never renamed."""

    LANGUAGE = "language"
    ADDRESS = "address"  # how they want to be addressed
    CONTACT = "contact"  # by what
    HOURS = "hours"  # and when


# Every value there is, with the words a model reads.
VALUES: Mapping[PreferenceKind, Mapping[str, str]] = MappingProxyType(
    {
        PreferenceKind.LANGUAGE: {"vi": "Vietnamese", "en": "English"},
        PreferenceKind.ADDRESS: {
            "anh": "addressed as anh",
            "chi": "addressed as chị",
            "em": "addressed as em",
            "co": "addressed as cô",
            "chu": "addressed as chú",
            "bac": "addressed as bác",
            "ban": "addressed as bạn",
        },
        PreferenceKind.CONTACT: {
            "chat": "contact by chat",
            "phone": "contact by phone",
            "email": "contact by email",
        },
        PreferenceKind.HOURS: {
            "morning": "mornings",
            "afternoon": "afternoons",
            "evening": "evenings",
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A preference in a conversation: known before it (`seq` 0), or said in that message."""

    seq: int
    kind: PreferenceKind
    value: str


def known_of(stored: str | None) -> tuple[Known, ...]:
    """What a conversation holds of it, oldest first: `0:language=en 7:address=chi`.

    What this program does not know, maybe a newer one's, says nothing.
    """
    return tuple(known for word in (stored or "").split() if (known := _read(word)) is not None)


def written(known: Iterable[Known]) -> str:
    """As `known_of` reads it."""
    return " ".join(f"{one.seq}:{one.kind}={one.value}" for one in known)


def told(known: Iterable[Known], *, through_seq: int) -> str:
    """One line for a model: what was known up to a message, the newest of each kind."""
    newest = {one.kind: one.value for one in known if one.seq <= through_seq}
    words = [VALUES[kind][newest[kind]] for kind in PreferenceKind if kind in newest]
    return f"prefers: {', '.join(words)}" if words else ""


def spoken(known: Iterable[Known]) -> Language | None:
    """The language they asked for last."""
    asked = [one.value for one in known if one.kind is PreferenceKind.LANGUAGE]
    return cast("Language", asked[-1]) if asked else None


def _read(word: str) -> Known | None:
    match = re.fullmatch(r"(\d+):(\w+)=(\w+)", word, re.ASCII)
    if match is None or match[2] not in set(PreferenceKind):
        return None
    kind = PreferenceKind(match[2])
    if match[3] not in VALUES[kind]:
        return None
    return Known(seq=int(match[1]), kind=kind, value=match[3])

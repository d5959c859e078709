"""Where a conversation's view was cut, and what stands for what is no longer shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol


class MadeBy(StrEnum):
    """Whose words a summary is."""

    CODE = "code"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One cut of the view; the newest is in force, for this run, the next ones and other processes.

    Messages up to `through_seq`, with the runs they started, are told by facts and summary alone.
    Of the later ones, results up to step `digested_step` of run `digested_run_id` are digests.
    """

    conversation_id: str
    number: int  # from 1
    at: datetime
    through_seq: int = 0
    digested_run_id: str | None = None
    digested_step: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    masks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # numbered before the cut
    summary: str = ""
    made_by: MadeBy = MadeBy.CODE
    model_calls: int = 0  # made by the runs that are no longer read


class Compactions(Protocol):
    """Append-only; a cut is never moved back."""

    def newest(self, conversation_id: str) -> Compaction | None: ...

    def add(self, compaction: Compaction) -> None:
        """Store it, unless one of that number is there: then another owner was faster."""
        ...

"""What is remembered of a customer from one conversation to the next."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.preferences import PreferenceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """What a customer said of how they want to be served, last and where; `value` is a code."""

    customer_id: str
    kind: PreferenceKind
    value: str
    conversation_id: str | None
    at: datetime


class Preferences(Protocol):
    """One of a kind for each customer: the newest counts."""

    def of(self, customer_id: str) -> tuple[Preference, ...]:
        """In the order of `PreferenceKind`."""
        ...

    def put(self, preference: Preference) -> None:
        """Insert it, or replace the one of its kind."""
        ...

    def forget(self, customer_id: str, kind: PreferenceKind | None) -> tuple[PreferenceKind, ...]:
        """Forget one kind or all, in the customer's conversations as well; what there was."""
        ...

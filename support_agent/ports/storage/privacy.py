"""What is kept of people: told to them, erased for them, and let go when its time is over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """Why nothing of a customer can be erased yet: ids of what is not over."""

    requests: tuple[str, ...] = ()  # not final
    answering: tuple[str, ...] = ()  # conversations with a run, or something unread
    with_staff: tuple[str, ...] = ()  # conversations a person has

    def __bool__(self) -> bool:
        return bool(self.requests or self.answering or self.with_staff)


class Privacy(Protocol):
    """Reaches every row that says something of a customer, whatever table it is in.

    What is erased loses its texts; ids, states, amounts and the books stay as they are.
    """

    def knows(self, customer_id: str) -> bool:
        """Whether there is any row of theirs."""
        ...

    def tell(self, customer_id: str) -> Mapping[str, Rows]:
        """All rows of theirs, by what they are: personal ones and books; empty ones left out.

        Without conversations of whoever only claimed to be them, which may hold another person's
        words; and without the texts of such a writer in a conversation that is theirs.
        """
        ...

    def claimed(self, customer_id: str) -> tuple[str, ...]:
        """Ids of conversations whose writer only claimed to be them, and that are not erased."""
        ...

    def hold(self, customer_id: str) -> InUse:
        """Until the transaction ends no turn of theirs begins; what is not over now."""
        ...

    def erase(self, customer_id: str, *, at: datetime) -> Mapping[str, int]:
        """Take the texts out, after `hold`; how many rows lost something, by what they are."""
        ...

    def destinations_to_erase(self, customer_id: str) -> tuple[str, ...]:
        """Ids of their accounts that still have a number."""
        ...

    def let_go_quiet(self, before: datetime, *, at: datetime, limit: int) -> int:
        """Take the texts out of conversations in which nothing was written since `before`.

        Of those in which nothing is open: no request, task or run, nothing unread, no person.
        Returns how many, at most `limit`, the oldest first.
        """
        ...

    def let_go_preferences(self, before: datetime, *, limit: int) -> int:
        """Forget what was said before that day by customers of whom no conversation is left."""
        ...

    def let_go_delivered(self, before: datetime, *, limit: int) -> int:
        """Delete events to the outside that were delivered before that, and taken for webhooks."""
        ...

    def let_go_accepted(self, before: datetime, *, limit: int) -> int:
        """Delete provider events that came in before that."""
        ...

    def let_go_usage(self, before: date, *, limit: int) -> int:
        """Delete counters of days before that one."""
        ...


class Scrubber(Protocol):
    """Takes what was erased out of the database's files, too."""

    async def scrub(self) -> None:
        """A server's files are its operator's: there it does nothing.

        Raises:
            StillInFile: another process reads or writes; call it again.
        """
        ...

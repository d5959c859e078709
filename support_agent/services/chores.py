"""What has to happen by itself: named pieces of work, each of which may run anywhere, any time."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from support_agent.domain.refunds import RefundRequest, RequestStatus

ANSWERED = "answered"  # the chore of answering what is unread, where no queue wakes anybody
PAID = "paid"  # the chore that a wake-up for payouts does at once
SWEEP_S = 5.0  # how often is looked for what nobody was woken for
Counts = Mapping[str, int]  # of what was done, by what it came to


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """A piece of periodic work. `tick` runs each once, a worker every so many seconds.

    Invariants:
        - Two at once, here or on two machines, do nothing twice.
        - One that fails changed nothing that its next run does not take up.
        - Called off in the middle it leaves what another run finishes.
    """

    name: str
    every_s: float
    run: Callable[[], Awaitable[Counts]]
    needs_gateway: bool = False  # only who has its key can do it


def moved(requests: Iterable[RefundRequest]) -> Counts:
    """In which states requests are now; what is approved and was not sent has not moved."""
    return Counter(
        str(request.status) for request in requests if request.status is not RequestStatus.APPROVED
    )


def counted(many: int, what: str) -> Counts:
    """So many of one kind; nothing at all when there were none."""
    return {what: many} if many else {}

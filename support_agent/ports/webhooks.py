"""How events reach the endpoints of other systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ToEndpoint:
    """One try to hand over one event; `id` is the event's, the same at each try."""

    url: str
    id: str
    at: datetime  # of this try, by the machine's clock
    body: str
    secrets: Sequence[bytes]  # each signs; the newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a try: a status, or a code of why there is none."""

    status: int | None = None
    error: str | None = None
    wait_s: float | None = None  # for how long the endpoint wants to be left alone

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class WebhookSender(Protocol):
    """Sends by HTTP, to addresses of the open internet and what was allowed beside it.

    Invariants:
        - The address is checked when it is connected to: a name that leads elsewhere by then than
          it did before gains nothing. Redirects are not followed.
        - A try ends in bounded time, whatever the other side does.
    """

    async def check(self, url: str) -> None:
        """Pass when something could be sent there now.

        Raises:
            InvalidInput: it is no address for events, or leads where they may not go.
        """
        ...

    async def send(self, message: ToEndpoint) -> Answer:
        """Never raises for what the other side does, or does not do."""
        ...

"""The history as it is given out: part by part, so that nobody waits and nothing piles up."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from support_agent.domain.audit import AuditHead, AuditRow
from support_agent.domain.errors import InvalidInput
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Transaction

ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedHistory:
    """What an export is of: the events after `since`, up to the head as it was."""

    installation_id: str
    since: int
    head: AuditHead
    at: datetime


class AuditExports:
    """Reads the chain as it is, also one that was changed: that is for `audit verify` to say."""

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def begin(self, *, since: int) -> ExportedHistory:
        """What there is to give out now; what is written later is of the next export.

        Raises:
            InvalidInput: the history is shorter than that.
        """

        def read(tx: Transaction) -> ExportedHistory:
            return ExportedHistory(
                installation_id=tx.installation.id(),
                since=since,
                head=tx.audit.head(),
                at=self._clock.now(),
            )

        export = await self._database.read(read)
        if since > export.head.seq:
            raise InvalidInput(
                "since",
                f"is after the newest event, which is {export.head.seq}; if there were more, "
                "events were cut off: run `support-agent audit verify --head`",
            )
        return export

    async def parts(self, export: ExportedHistory) -> AsyncIterator[tuple[AuditRow, ...]]:
        """Its events by `seq`; no transaction is open while a part is written somewhere."""
        last = export.since
        while last < export.head.seq:
            after = last
            rows = await self._database.read(
                lambda tx: tuple(tx.audit.rows(after=after, most=ROWS_AT_ONCE))  # noqa: B023 - at once
            )
            wanted = tuple(row for row in rows if row.seq <= export.head.seq)
            if not wanted:
                return  # the head says more than there is
            yield wanted
            last = wanted[-1].seq

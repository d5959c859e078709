"""Going over many requests, oldest first: what cannot move must not keep the others waiting."""

import time
from collections.abc import Awaitable, Callable

import structlog

from support_agent.domain.errors import AlreadyDecided, DatabaseUnavailable
from support_agent.domain.refunds import RefundRequest
from support_agent.ports.storage import Database, Transaction
from support_agent.services.workers import tell

log = structlog.get_logger(__name__)
PAGE = 100
# In one call. What does not move stays the oldest and is tried each time, so only this many of
# them could keep a later one from its turn; a person has been called for each long before.
MOST_AT_ONCE = 2_000
LONGEST_S = 300.0  # of one call; the next one takes up what is left

NextIds = Callable[[Transaction, str | None], tuple[str, ...]]  # up to PAGE, filed after an id
Work = Callable[[str], Awaitable[RefundRequest | None]]  # None: there was nothing to do
GoingOn = Callable[[], bool]  # asked before each: whether the sweep is still of use


def always() -> bool:
    """Nothing but the end of the list ends this sweep."""
    return True


async def sweep(
    database: Database, next_ids: NextIds, work: Work, *, going_on: GoingOn = always
) -> tuple[RefundRequest, ...]:
    """What became of each request, page by page to the end, one after the other.

    Raises:
        DatabaseUnavailable: then nothing can be done about the others either.
    """
    done: list[RefundRequest] = []
    last: str | None = None
    until = time.monotonic() + LONGEST_S
    for _ in range(MOST_AT_ONCE // PAGE):
        ids = await _page(database, next_ids, last)
        for request_id in ids:
            if not going_on() or time.monotonic() > until:
                log.warning("sweep.cut_short", next_id=request_id, done=len(done))
                return tuple(done)
            request = await _attempted(work, request_id)
            if request is not None:
                done.append(request)
        if len(ids) < PAGE:
            break
        last = ids[-1]
    return tuple(done)


async def _page(database: Database, next_ids: NextIds, last: str | None) -> tuple[str, ...]:
    return await database.read(lambda tx: next_ids(tx, last))


async def _attempted(work: Work, request_id: str) -> RefundRequest | None:
    try:
        return await work(request_id)
    except DatabaseUnavailable:
        raise
    except AlreadyDecided:
        log.info("sweep.moved_meanwhile", refund_id=request_id)
    except Exception as error:  # noqa: BLE001 - one must not keep the others
        tell(error, "sweep.put_off", refund_id=request_id)
    return None

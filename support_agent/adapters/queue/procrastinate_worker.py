"""The worker of a shop with a queue: procrastinate takes jobs, its periodic ones are the chores."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from support_agent.adapters.db.faults import parse
from support_agent.adapters.queue.procrastinate import (
    CHORES,
    PAY,
    PAYOUTS,
    TURNS,
    WORK,
    need_procrastinate,
)
from support_agent.adapters.queue.procrastinate_log import left_jobs_logged, route_log
from support_agent.services.chores import PAID, SWEEP_S, Chore
from support_agent.services.workers import (
    Answering,
    Stop,
    called_off,
    done,
    ended,
    tell,
    until,
)

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job
    from procrastinate.retry import BaseRetryStrategy, RetryDecision

log = structlog.get_logger(__name__)

CHORES_AT_ONCE = 4
PAYOUTS_AT_ONCE = 3  # both chores of the gateway, and a wake-up beside them
STALLED_AFTER_S = 30.0  # without a heartbeat a worker counts as gone
HEARTBEAT_S = 10.0
LOOK_FOR_STALLED_S = 30.0
MOST_TRIES = 8  # of one job; then the sweep wakes again
LONGEST_PAUSE_S = 60
RESTART_S = 1.0  # after the connection was lost
CONNECT_S = 10.0
SET_BACK_S = 60.0  # so much that it is worth to start anew
LOOK_AT_CLOCK_S = 1.0
END_S = 2.0  # for what has been called off to tell the database so


class ProcrastinateWorker:
    """Runs jobs until it is told to stop; a lost connection starts procrastinate's worker anew.

    Jobs are deleted when they end: what they came to stands in the conversation, and what went
    wrong in the log. Chores have no lock, because a dead worker's would keep everyone from them.
    """

    def __init__(
        self,
        *,
        database_url: str,
        agent: Answering,
        chores: Sequence[Chore],
        concurrency: int,
        poll_s: float,
        shutdown_s: float,
    ) -> None:
        """Raises ConfigurationError as `need_procrastinate`."""
        need_procrastinate(database_url)
        url = parse(database_url).set(drivername="postgresql")
        self._address = url.render_as_string(hide_password=False)
        self._agent = agent
        self._chores = chores
        self._concurrency = concurrency
        self._poll_s = poll_s
        self._shutdown_s = shutdown_s
        self._turns: set[asyncio.Task[Any]] = set()

    async def run(self, stop: Stop) -> None:
        route_log()
        with left_jobs_logged():
            await self._again_and_again(self._app(), stop)

    async def _again_and_again(self, app: "App", stop: Stop) -> None:
        while not stop.asked.is_set():
            problem = "procrastinate's worker ended by itself"  # as when nobody listens any more
            try:
                await self._connected(app, stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next one may work
                problem = repr(error.__cause__ or error)
            finally:
                await _close(app)
            if not stop.asked.is_set():
                log.warning("worker.starts_anew", problem=problem)
            await until(stop.asked, within_s=RESTART_S)

    async def _connected(self, app: "App", stop: Stop) -> None:
        """Until it is told to stop, or the worker of one of the queues ends by an error."""
        hurry = asyncio.create_task(self._let_go(stop))
        try:
            await self._together(stop, _opened(app))
            if not stop.asked.is_set():
                serving = (self._serve(app, *each) for each in self._queues())
                await self._together(stop, *serving, _clock_is_set_back())
        finally:
            hurry.cancel()

    async def _together(self, stop: Stop, *works: Coroutine[Any, Any, None]) -> None:
        """Until one of them ends or it is told to stop; then the others are called off.

        Called off once, a procrastinate worker ends in good order; but where its database is away
        it waits for that in each of several places, and has to be called off from each.
        """
        tasks = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(stop.asked.wait())
        try:
            await asyncio.wait((*tasks, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            await ended(tasks, within_s=self._shutdown_s, at_once=stop.at_once)
            while (await asyncio.wait(tasks, timeout=END_S))[1]:
                for task in tasks:
                    task.cancel()
            await called_off(self._turns)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _queues(self) -> Iterator[tuple[str, int]]:
        yield TURNS, self._concurrency
        yield CHORES, CHORES_AT_ONCE
        if any(chore.needs_gateway for chore in self._chores):
            yield PAYOUTS, PAYOUTS_AT_ONCE

    async def _serve(self, app: "App", queue: str, concurrency: int) -> None:
        await app.run_worker_async(
            queues=[queue],
            name=queue,
            concurrency=concurrency,
            fetch_job_polling_interval=self._poll_s,
            shutdown_graceful_timeout=self._shutdown_s,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT_S,
            stalled_worker_timeout=STALLED_AFTER_S,
        )

    async def _let_go(self, stop: Stop) -> None:
        await stop.at_once.wait()
        for task in self._turns:
            task.cancel()

    def _app(self) -> "App":
        from procrastinate import App, PsycopgConnector

        connector = PsycopgConnector(
            conninfo=self._address,
            min_size=2,
            max_size=8,
            timeout=CONNECT_S,
            kwargs={"connect_timeout": round(CONNECT_S)},
        )
        app = App(connector=connector)
        again = _again()

        @app.task(name=WORK, queue=TURNS, retry=again)
        async def work(conversation_id: str) -> None:
            await self._answer(app, conversation_id)

        @app.task(name=PAY, queue=PAYOUTS)
        async def pay() -> None:
            for chore in self._chores:
                if chore.name == PAID:
                    await done(chore)

        for chore in (*self._chores, _stalled(app)):
            _add_chore(app, chore)
        return app

    async def _answer(self, app: "App", conversation_id: str) -> None:
        """Answer what is unread; not quiet yet, or soon free, a later job looks again.

        While somebody has it for longer he answers what comes in, and when he is gone the sweep
        notices: else each message to a busy conversation would leave a job behind.
        """
        this = asyncio.current_task()
        assert this is not None  # noqa: S101 - a job is a task
        self._turns.add(this)
        try:
            # One who writes again at once would else keep his place before all who wait for theirs.
            later_s = await self._agent.work(conversation_id, once=True)
        except Exception as error:
            tell(error, "worker.turn_failed", conversation_id=conversation_id)
            raise
        finally:
            self._turns.discard(this)
        if later_s is not None and later_s <= SWEEP_S:
            later = {"milliseconds": max(1, round(later_s * 1_000))}
            job = app.configure_task(WORK, queue=TURNS, schedule_in=later)
            await job.defer_async(conversation_id=conversation_id)


def _add_chore(app: "App", chore: Chore) -> None:
    """As a periodic job: one for each moment, whichever of the workers notices it first.

    One that was not even begun is not queued again: the lock is of waiting, not of running. While
    it still runs here its next moments are let pass: one that hangs takes one slot and not all.
    """
    name = f"chore.{chore.name}"
    running = False

    @app.periodic(cron=cron_of(chore.every_s), queueing_lock=name)
    @app.task(name=name, queue=PAYOUTS if chore.needs_gateway else CHORES)
    async def do(timestamp: int) -> None:  # noqa: ARG001 - procrastinate gives it
        nonlocal running
        if running:
            return
        running = True
        try:
            await done(chore)
        finally:
            running = False


def cron_of(every_s: float) -> str:
    """The rhythm as croniter reads it, with seconds last; slower ones at an odd minute or hour."""
    seconds = max(1, round(every_s))
    if seconds < 60:
        return f"* * * * * */{seconds}"
    minutes = seconds // 60
    if minutes < 60:
        return f"*/{minutes} * * * *"
    hours = minutes // 60
    return f"7 */{hours} * * *" if hours < 24 else "7 3 * * *"


def _stalled(app: "App") -> Chore:
    """Jobs of workers that are gone: a wake-up comes again, a chore has its next moment anyway."""
    from procrastinate.exceptions import ConnectorException
    from procrastinate.jobs import Status

    async def look() -> dict[str, int]:
        manager, taken = app.job_manager, 0
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_AFTER_S):
            try:
                if job.task_name in {WORK, PAY}:
                    await manager.retry_job(job)
                else:
                    await manager.finish_job(job, Status.FAILED, delete_job=True)
            except ConnectorException as error:  # another worker was faster
                log.info("worker.stalled_taken", job=job.id, problem=repr(error))
            else:
                taken += 1
        return {"JOBS": taken} if taken else {}

    return Chore(name="stalled", every_s=LOOK_FOR_STALLED_S, run=look)


def _again() -> "BaseRetryStrategy":
    from procrastinate.retry import BaseRetryStrategy, RetryDecision

    class Again(BaseRetryStrategy):
        """At once when the turn was let go of, for any other worker; after a failure later."""

        def get_retry_decision(
            self, *, exception: BaseException, job: "Job"
        ) -> "RetryDecision | None":
            if isinstance(exception, asyncio.CancelledError):
                return RetryDecision()
            if job.attempts >= MOST_TRIES:
                return None
            return RetryDecision(retry_in={"seconds": min(2**job.attempts, LONGEST_PAUSE_S)})

    return Again()


async def _clock_is_set_back() -> None:
    """Wait for that. Procrastinate would do no chore until the clock is where it has been before.

    Raises:
        RuntimeError: it was, and a new start counts from now.
    """
    most = time.time() - time.monotonic()
    while (now := time.time() - time.monotonic()) > most - SET_BACK_S:
        most = max(most, now)
        await asyncio.sleep(LOOK_AT_CLOCK_S)
    raise RuntimeError("the clock of this machine was set back")


async def _opened(app: "App") -> None:
    await app.open_async()


async def _close(app: "App") -> None:
    try:
        await app.close_async()
    except Exception as error:  # noqa: BLE001 - it is thrown away anyway
        log.info("worker.close_failed", problem=repr(error))

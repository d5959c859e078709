"""`TurnQueue` on procrastinate: a wake-up is a job in the database that the message is in."""

import importlib.util
from collections.abc import Sequence
from typing import Any

from support_agent.adapters.db.connections import on_driver
from support_agent.adapters.db.faults import parse
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.storage import Transaction

SETTING = "SUPPORT_AGENT_QUEUE__KIND"
# Each with slots of its own: long turns keep no payout waiting.
TURNS = "turns"
CHORES = "chores"
PAYOUTS = "payouts"  # served by who has the gateway's key
WORK = "work"
PAY = "pay"

_WAITING = (
    "SELECT args->>'conversation_id' FROM procrastinate_jobs "
    "WHERE status = 'todo' AND task_name = %s AND args->>'conversation_id' = ANY(%s)"
)


def need_procrastinate(database_url: str) -> None:
    """Pass when the queue can be used at all.

    Raises:
        ConfigurationError: the database is no PostgreSQL, or the extra is not installed.
    """
    if parse(database_url).get_backend_name() != "postgresql":
        raise ConfigurationError(
            "is procrastinate, which needs PostgreSQL; set SUPPORT_AGENT_DATABASE__URL, or use "
            "inline",
            setting=SETTING,
        )
    if importlib.util.find_spec("procrastinate") is None:
        raise ConfigurationError(
            "is procrastinate, which needs the extra: pip install 'support-agent[scale]'",
            setting=SETTING,
        )


class ProcrastinateQueue:
    """Jobs go through the transaction's own connection: message and wake-up commit as one.

    Jobs have no lock, for the conversation's lease lets one owner in, and a job of a dead worker
    would hold a lock until somebody noticed. They have no queueing lock, for a second wake-up
    would be an error that rolls its message back, and one that waits for later would swallow one
    for now. And they have one priority: a higher one would let a later message overtake.
    """

    def __init__(self, *, database_url: str) -> None:
        """Connects nothing.

        Raises:
            ConfigurationError: as `need_procrastinate`.
        """
        need_procrastinate(database_url)
        from procrastinate import App, SyncPsycopgConnector

        self._app = App(connector=SyncPsycopgConnector())  # never opened

    def wake(self, tx: Transaction, conversation_id: str, *, delay_s: float = 0) -> None:
        self._defer(tx, WORK, TURNS, delay_s=delay_s, conversation_id=conversation_id)

    def wake_payouts(self, tx: Transaction) -> None:
        self._defer(tx, PAY, PAYOUTS)

    def asleep(self, tx: Transaction, conversation_ids: Sequence[str]) -> tuple[str, ...]:
        def look(connection: Any) -> set[str]:  # noqa: ANN401 - the driver's
            found = connection.execute(_WAITING, (WORK, [*conversation_ids]))
            return {row[0] for row in found}

        waiting = on_driver(tx, look)
        return tuple(each for each in conversation_ids if each not in waiting)

    def _defer(
        self, tx: Transaction, task: str, queue: str, *, delay_s: float = 0, **arguments: str
    ) -> None:
        from procrastinate.exceptions import ConnectorException

        later = {"milliseconds": round(delay_s * 1_000)} if delay_s > 0 else None

        def defer(connection: Any) -> None:  # noqa: ANN401 - the driver's
            job = self._app.configure_task(
                task, queue=queue, schedule_in=later, connection=connection
            )
            try:
                job.defer(**arguments)
            except ConnectorException as error:
                raise (error.__cause__ or error) from error

        on_driver(tx, defer)

"""A database on which everything can be tried and nothing is kept."""

from collections.abc import Callable
from typing import Literal, TypeVar

from sqlalchemy import Connection, Engine

from support_agent.adapters.db.database import SqlDatabase

T = TypeVar("T")


class RehearsalDatabase(SqlDatabase):
    """Every transaction sees what it wrote itself, and is rolled back with its result in hand."""

    keeps_nothing: Literal[True] = True

    def _run(self, engine: Engine, work: Callable[[Connection], T], *, reading: bool) -> T:
        if reading:
            return super()._run(engine, work, reading=True)
        results: list[T] = []

        def undone(connection: Connection) -> None:
            results.append(work(connection))
            raise _Undone

        try:
            super()._run(engine, undone, reading=False)
        except _Undone:
            return results[0]
        raise AssertionError("a rehearsal was committed")  # nothing above swallows an error


class _Undone(Exception):
    """Rolls a transaction back that went well."""

"""Counters of use in SQL."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.prepared import driven
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.stores.cursors import decode_cursor, encode_cursor
from support_agent.adapters.db.tables.usage import UsageCounter
from support_agent.domain.runs import Usage
from support_agent.domain.usage import INSTALLATION, Measure, Scope, UsageAccount, UsageCount
from support_agent.ports.storage.requests import Page
from support_agent.ports.storage.usage import UsageFilter

Row = sa.Row[*tuple[Any, ...]]

COUNTERS = table_of(UsageCounter)

_COUNTED = ("requests", "input_tokens", "output_tokens", "cost_micros")
_WHOLE_LIFE = ""  # the day of a conversation


def _move(*, of_customer: bool, on_postgres: bool) -> str:
    """The statement that every step runs: constant text, so that both drivers prepare it once.

    Rows are taken in the order written here, which is the same for everybody, the most wanted last.
    """

    def value(name: str) -> str:
        return f"%({name})s" if on_postgres else f":{name}"

    def row(scope: Scope, subject: str, day: str) -> str:
        return f"('{scope}', {subject}, {day}, {', '.join(map(value, _COUNTED))})"

    day, larger = value("day"), "GREATEST" if on_postgres else "max"
    rows = [
        row(Scope.CONVERSATION, value("conversation"), f"'{_WHOLE_LIFE}'"),
        *([row(Scope.CUSTOMER, value("customer"), day)] if of_customer else []),
        row(Scope.CHANNEL, value("channel"), day),
        row(Scope.INSTALLATION, f"'{INSTALLATION}'", day),
    ]
    changes = (
        f"{name} = {larger}(0, known.{name} + {value(name)} - {value(f'take_{name}')})"
        for name in _COUNTED
    )
    return (
        f"INSERT INTO usage_counters AS known (scope, subject, day, {', '.join(_COUNTED)}) "  # noqa: S608 - our own words
        f"VALUES {', '.join(rows)} "
        f"ON CONFLICT (scope, subject, day) DO UPDATE SET {', '.join(changes)} "
        f"RETURNING scope, {', '.join(_COUNTED)}"
    )


_MOVE = {
    (of_customer, on_postgres): _move(of_customer=of_customer, on_postgres=on_postgres)
    for of_customer in (False, True)
    for on_postgres in (False, True)
}


class SqlUsageCounters:
    """The counters of one transaction's connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def move(
        self, account: UsageAccount, day: date, *, add: Usage, take: Usage
    ) -> dict[Scope, Usage]:
        statement = _MOVE[account.customer_id is not None, is_postgres(self._connection)]
        parameters = {
            "conversation": account.conversation_id,
            "channel": account.channel,
            "day": day.isoformat(),
            "requests": add.requests,
            "input_tokens": add.input_tokens,
            "output_tokens": add.output_tokens,
            "cost_micros": add.cost_micros,
            "take_requests": take.requests,
            "take_input_tokens": take.input_tokens,
            "take_output_tokens": take.output_tokens,
            "take_cost_micros": take.cost_micros,
        }
        if account.customer_id is not None:
            parameters["customer"] = account.customer_id
        rows = driven(self._connection, statement, parameters).fetchall()
        return {Scope(row[0]): _usage(row[1:]) for row in rows}

    def list(self, where: UsageFilter, *, limit: int, cursor: str | None) -> Page[UsageCount]:
        order = f"usage:{where.scope}"
        of_scope = sa.select(COUNTERS).where(COUNTERS.c.scope == where.scope)
        if where.subject is not None:
            if not storable(where.subject):
                return Page(data=(), next_cursor=None)
            of_scope = of_scope.where(COUNTERS.c.subject == where.subject)
        if where.day is not None:
            of_scope = of_scope.where(COUNTERS.c.day == where.day.isoformat())
        if cursor is not None:
            day, subject = decode_cursor(cursor, order, str, str)
            later = sa.and_(COUNTERS.c.day == day, COUNTERS.c.subject > subject)
            of_scope = of_scope.where(sa.or_(COUNTERS.c.day < day, later))
        newest = of_scope.order_by(COUNTERS.c.day.desc(), COUNTERS.c.subject)
        rows = self._connection.execute(newest.limit(limit + 1)).all()
        return _page(rows, limit, lambda row: encode_cursor(order, row.day, row.subject))

    def top(self, day: date, by: Measure, *, limit: int, cursor: str | None) -> Page[UsageCount]:
        order, used = f"usage.top:{by}:{day.isoformat()}", _measured(by)
        of_day = sa.select(COUNTERS, used.label("used")).where(*_customers_on(day))
        if cursor is not None:
            most, subject = decode_cursor(cursor, order, int, str)
            same = sa.and_(used == most, COUNTERS.c.subject > subject)
            of_day = of_day.where(sa.or_(used < most, same))
        largest = of_day.order_by(used.desc(), COUNTERS.c.subject)
        rows = self._connection.execute(largest.limit(limit + 1)).all()
        return _page(rows, limit, lambda row: encode_cursor(order, row.used, row.subject))

    def median(self, measure: Measure, *, since: date, before: date) -> int:
        used = _measured(measure)
        within = (
            COUNTERS.c.scope == Scope.CUSTOMER,
            COUNTERS.c.day >= since.isoformat(),
            COUNTERS.c.day < before.isoformat(),
            COUNTERS.c.requests > 0,  # one who was refused leaves a row as well
        )
        count = self._connection.execute(
            sa.select(sa.func.count()).select_from(COUNTERS).where(*within)
        ).scalar_one()
        middle = sa.select(used).where(*within).order_by(used).offset(count // 2).limit(1)
        return self._connection.execute(middle).scalar_one_or_none() or 0

    def above(self, day: date, *, requests: int, tokens: int, limit: int) -> tuple[UsageCount, ...]:
        more = sa.or_(_measured(Measure.REQUESTS) > requests, _measured(Measure.TOKENS) > tokens)
        found = sa.select(COUNTERS).where(*_customers_on(day), more).order_by(COUNTERS.c.subject)
        return tuple(_count(row) for row in self._connection.execute(found.limit(limit)))


def _page(rows: Sequence[Row], limit: int, key: Callable[[Row], str]) -> Page[UsageCount]:
    """Up to `limit` of `limit + 1` rows; the last one shown is the cursor."""
    more = len(rows) > limit
    data = tuple(_count(row) for row in rows[:limit])
    return Page(data=data, next_cursor=key(rows[limit - 1]) if more else None)


def _customers_on(day: date) -> tuple[sa.ColumnElement[bool], ...]:
    return COUNTERS.c.scope == Scope.CUSTOMER, COUNTERS.c.day == day.isoformat()


def _measured(measure: Measure) -> sa.ColumnElement[int]:
    match measure:
        case Measure.REQUESTS:
            return COUNTERS.c.requests
        case Measure.TOKENS:
            return COUNTERS.c.input_tokens + COUNTERS.c.output_tokens
        case Measure.COST:
            return COUNTERS.c.cost_micros


def _count(row: Row) -> UsageCount:
    return UsageCount(
        scope=Scope(row.scope),
        subject=row.subject,
        day=date.fromisoformat(row.day) if row.day else None,
        usage=_usage((row.requests, row.input_tokens, row.output_tokens, row.cost_micros)),
    )


def _usage(counted: Sequence[int]) -> Usage:
    requests, input_tokens, output_tokens, cost_micros = counted
    return Usage(
        requests=requests,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_micros=cost_micros,
    )

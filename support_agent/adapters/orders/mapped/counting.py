"""What is in the shop's tables that a map cannot read, counted: for `orders check`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.orders.mapped import values
from support_agent.adapters.orders.mapped.reflecting import Reflected, quoted
from support_agent.adapters.orders.mapped.selecting import as_read, table_of
from support_agent.adapters.orders.mapped.shape import OrdersMap, TableName
from support_agent.adapters.orders.mapped.uses import Use, uses_of
from support_agent.domain.money import EXPONENTS

MOST_WORDS = 1_000  # different ones of a column; where there are more, it is no closed list
SHOWN = 10  # of what is wrong, in one line

# Columns that are searched; (section, label).
_SEARCHED = (
    ("customers", "id"),
    ("orders", "id"),
    ("orders", "customer_id"),
    ("lines", "order_id"),
    ("payments", "order_id"),
)
# What no two rows may share.
_UNIQUE = (
    ("customers", ("id",)),
    ("orders", ("id",)),
    ("lines", ("order_id", "id")),
    ("payments", ("order_id", "id")),
    ("payments", ("gateway", "account", "gateway_payment_id")),
)
_RIGHTS = sa.text(
    "SELECT has_table_privilege(c.oid, 'INSERT') OR has_table_privilege(c.oid, 'UPDATE')"
    " OR has_any_column_privilege(c.oid, 'INSERT, UPDATE')"
    " OR has_table_privilege(c.oid, 'DELETE') OR has_table_privilege(c.oid, 'TRUNCATE') AS writes,"
    " pg_has_role(c.relowner, 'MEMBER') AS owns,"
    " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_super"
    " FROM pg_class c WHERE c.oid = to_regclass(:name)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One thing about the shop's tables: wrong, worth a word, or as it should be."""

    level: str  # fail, warn or ok
    name: str
    detail: str


class Counting:
    """Remarks about whole tables; each of them reads one."""

    def __init__(
        self,
        connection: sa.Connection,
        shape: OrdersMap,
        tables: Mapping[TableName, Reflected],
    ) -> None:
        self._connection = connection
        self._shape = shape
        self._tables = tables
        self._uses = {(use.section, use.label): use for use in uses_of(shape)}

    def remarks(self) -> Iterator[Remark]:
        yield from self._rights()
        yield from self._indexes()
        yield from self._words()
        yield from self._doubles()
        yield from self._nulls()

    def _rights(self) -> Iterator[Remark]:
        if self._connection.dialect.name != "postgresql":
            yield Remark(level="ok", name="rights", detail="the file is opened read only")
            return
        wrong = []
        for table in self._tables:
            named = {"name": quoted(self._connection, table)}
            told = self._connection.execute(_RIGHTS, named).mappings().one()
            if told["is_super"] or told["owns"] or told["writes"]:
                wrong.append((str(table), told))
        if not wrong:
            yield Remark(level="ok", name="rights", detail="the role may only read")
        elif wrong[0][1]["is_super"]:
            problem = "the role is a superuser; make one of its own that may only SELECT"
            yield Remark(level="fail", name="rights", detail=problem)
        else:
            names = ", ".join(name for name, _ in wrong)
            problem = f"the role may write to {names}; make one that may only SELECT"
            yield Remark(level="fail", name="rights", detail=problem)

    def _indexes(self) -> Iterator[Remark]:
        missing = []
        for at in _SEARCHED:
            use = self._uses[at]
            table = self._tables[use.table]
            if not table.is_view and use.column not in table.leading:
                missing.append(f"{use.table}.{use.column}")
        if missing:
            problem = f"{', '.join(missing)}: searched each time, and no index begins with it"
            yield Remark(level="warn", name="indexes", detail=problem)
        else:
            yield Remark(level="ok", name="indexes", detail="what is searched has one")

    def _words(self) -> Iterator[Remark]:
        shape = self._shape
        lists: tuple[tuple[str, str, Iterable[str]], ...] = (
            ("orders", "status", shape.orders.status),
            ("orders", "currency", EXPONENTS),
            ("lines", "kind", shape.lines.kind),
            ("payments", "method", shape.payments.method),
            ("payments", "status", shape.payments.status),
            ("payments", "currency", EXPONENTS),
        )
        for section, label, known in lists:
            use = self._uses.get((section, label))
            if use is not None:
                yield self._unmapped(use, frozenset(known))

    def _unmapped(self, use: Use, known: frozenset[str]) -> Remark:
        table = table_of((use,))
        column: sa.ColumnElement[Any] = table.c[use.column]
        if self._connection.dialect.name == "postgresql":
            column = as_read(column, self._tables[use.table].kinds.get(use.column))
        found = self._connection.execute(
            sa.select(column, sa.func.count()).group_by(column).limit(MOST_WORDS + 1)
        ).all()
        if len(found) > MOST_WORDS:
            problem = f"column {use.column!r} has more than {MOST_WORDS} words: no closed list"
            return Remark(level="fail", name=use.key, detail=problem)
        unknown = [(values.word(value), count) for value, count in found]
        wrong = sorted(((w, n) for w, n in unknown if w not in known), key=lambda one: -one[1])
        if not wrong:
            return Remark(level="ok", name=use.key, detail=f"{len(found)} words, each mapped")
        told = ", ".join(
            f"{'NULL' if word is None else repr(word)} ({count})" for word, count in wrong[:SHOWN]
        )
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        return Remark(level="fail", name=use.key, detail=f"not mapped: {told}{more}")

    def _doubles(self) -> Iterator[Remark]:
        for section, labels in _UNIQUE:
            uses = [use for label in labels if (use := self._uses.get((section, label)))]
            if not uses or (len(uses) == 1 and self._is_unique(uses[0])):
                continue
            count = self._connection.execute(self._doubled(uses)).scalar_one()
            if count:
                keys = ", ".join(use.key for use in uses)
                problem = f"{keys}: {count} values are there more than once"
                yield Remark(level="fail", name="doubles", detail=problem)

    def _is_unique(self, use: Use) -> bool:
        return use.column in self._tables[use.table].unique

    def _doubled(self, uses: Sequence[Use]) -> sa.Select[Any]:
        """Of values that are there: NULL is no double, and told elsewhere."""
        status = self._uses.get(("payments", "status")) if uses[0].section == "payments" else None
        table = table_of((*uses, status) if status else tuple(uses))
        columns = [table.c[use.column] for use in uses]
        captured = [
            word for word, meant in self._shape.payments.status.items() if meant == "captured"
        ]
        of_money = [sa.cast(table.c[status.column], sa.Text).in_(captured)] if status else []
        doubled = (
            sa.select(*columns)
            .where(*(column.is_not(None) for column in columns), *of_money)
            .group_by(*columns)
            .having(sa.func.count() > 1)
        )
        return sa.select(sa.func.count()).select_from(doubled.subquery())

    def _nulls(self) -> Iterator[Remark]:
        for section in ("customers", "orders", "lines", "payments"):
            uses = [
                use for (of, _), use in self._uses.items() if of == section and not use.may_be_null
            ]
            table = table_of(tuple(uses))
            counted = sa.select(
                *(sa.func.sum(sa.case((table.c[use.column].is_(None), 1), else_=0)) for use in uses)
            ).select_from(table)
            found = self._connection.execute(counted).one()
            for use, count in zip(uses, found, strict=True):
                if count:
                    problem = f"column {use.column!r} is NULL in {count} rows, and may not be"
                    yield Remark(level="fail", name=use.key, detail=problem)

    def total(self) -> Remark:
        """Whether orders are held against a sum of their own."""
        if self._shape.orders.columns.total is None:
            problem = "orders.columns.total is not mapped: what lines lack of an order counts as "
            return Remark(level="warn", name="total", detail=problem + "paid too much")
        return Remark(level="ok", name="total", detail="lines are held against it")

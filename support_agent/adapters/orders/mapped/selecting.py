"""The statements over the shop's tables; names come from the map and are quoted by SQLAlchemy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import NullType

from support_agent.adapters.orders.mapped.reflecting import Reflected
from support_agent.adapters.orders.mapped.shape import OrdersMap, TableName
from support_agent.adapters.orders.mapped.uses import Use, uses_of

MOST_LINES = 1_000  # of one order; one with more is not read at all
MOST_PAYMENTS = 100
SECTIONS = ("customers", "orders", "lines", "payments")
MOST_COPIES = 50  # rows of ids that a database takes for the same
_PADDED = "character"  # PostgreSQL's char(n), whose blanks at the end mean nothing
Row = Mapping[Any, Any]  # by label


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """What is asked, for one map on one database. `of` is the id looked for, as text."""

    order: sa.Select[Any]
    newest: sa.Select[Any]  # the orders of a customer; with `most`
    recent: sa.Select[Any]  # the orders with the last ids; with `most`
    lines: sa.Select[Any]  # of the orders in `ids`; with `most`
    payments: sa.Select[Any]
    customer: sa.Select[Any]
    probes: tuple[sa.Select[Any], ...]  # ask for nothing, of every table


def statements(
    shape: OrdersMap, tables: Mapping[TableName, Reflected], *, postgres: bool
) -> Statements:
    """For a map that fits."""
    asked = _Sections(shape, tables, postgres=postgres)
    orders = asked.named("orders")
    own_id, owner, placed = (orders[name] for name in ("id", "customer_id", "placed_at"))
    newest = (
        sa.select(own_id)
        .where(*asked.exactly("orders", "customer_id", owner), placed.is_not(None))
        .order_by(placed.desc(), own_id.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )
    recent = sa.select(own_id).order_by(own_id.desc()).limit(sa.bindparam("most", type_=sa.Integer))
    chosen = asked.select("orders")
    return Statements(
        order=chosen.where(*asked.exactly("orders", "id", own_id)).limit(MOST_COPIES),
        # By their ids, so that another row of the same id is seen, whoever's it is.
        newest=chosen.where(own_id.in_(newest)).limit(_at_most(MOST_COPIES)),
        recent=chosen.where(own_id.in_(recent)).limit(_at_most(MOST_COPIES)),
        lines=asked.parts("lines"),
        payments=asked.parts("payments"),
        customer=asked.select("customers")
        .where(*asked.exactly("customers", "id", asked.named("customers")["id"]))
        .distinct()
        .limit(MOST_COPIES),
        probes=tuple(asked.select(section).where(sa.false()) for section in SECTIONS),
    )


def table_of(uses: tuple[Use, ...]) -> sa.TableClause:
    """The table of these uses with their columns, which have no types: rows come as they are."""
    table = uses[0].table
    names = dict.fromkeys(use.column for use in uses)
    return sa.table(table.name, *(sa.column(name) for name in names), schema=table.schema)


def as_read(column: sa.ColumnElement[Any], kind: str | None) -> sa.ColumnElement[Any]:
    """A column of PostgreSQL without the blanks that char(n) puts behind."""
    return sa.cast(column, sa.Text) if kind == _PADDED else column


def _at_most(copies: int) -> sa.ColumnElement[int]:
    return sa.bindparam("most", type_=sa.Integer) * copies


class _Sections:
    """The columns of each section of the map, as they are written in SQL."""

    def __init__(
        self, shape: OrdersMap, tables: Mapping[TableName, Reflected], *, postgres: bool
    ) -> None:
        self._uses = uses_of(shape)
        self._tables = tables
        self._postgres = postgres
        self._named: dict[str, dict[str, sa.ColumnElement[Any]]] = {}
        for section in dict.fromkeys(use.section for use in self._uses):
            uses = tuple(use for use in self._uses if use.section == section)
            table = table_of(uses)
            self._named[section] = {use.label: table.c[use.column] for use in uses}

    def named(self, section: str) -> dict[str, sa.ColumnElement[Any]]:
        """The columns by what they are called when read."""
        return self._named[section]

    def select(self, section: str) -> sa.Select[Any]:
        uses = [use for use in self._uses if use.section == section]
        return sa.select(*(self._read(use).label(use.label) for use in uses))

    def exactly(
        self, section: str, label: str, column: sa.ColumnElement[Any]
    ) -> tuple[sa.ColumnElement[bool], ...]:
        """Twice: in the column's own way, which an index serves, and then to the byte.

        The first has no type, so that PostgreSQL takes the text for whatever the column is.
        """
        collation = "C" if self._postgres else "BINARY"
        as_text = sa.cast(column, sa.Text).collate(collation)
        return (
            column == sa.bindparam("of", type_=NullType()),
            as_text == sa.bindparam("of_text", type_=sa.Text),
        )

    def parts(self, section: str) -> sa.Select[Any]:
        """Rows of the orders in `ids`, in the shop's order."""
        columns = self._named[section]
        own = (columns["position"],) if "position" in columns else ()
        return (
            self.select(section)
            .where(columns["order_id"].in_(sa.bindparam("ids", type_=NullType(), expanding=True)))
            .order_by(columns["order_id"], *own, columns["id"])
            .limit(sa.bindparam("most", type_=sa.Integer))
        )

    def _read(self, use: Use) -> sa.ColumnElement[Any]:
        column = self._named[use.section][use.label]
        if self._postgres:
            return as_read(column, self._tables[use.table].kinds.get(use.column))
        return column

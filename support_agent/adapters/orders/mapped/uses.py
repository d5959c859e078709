"""Every column an orders map names, as a list: to be looked for, selected and counted."""

from dataclasses import dataclass
from types import MappingProxyType

from support_agent.adapters.orders.mapped.shape import (
    Column,
    Columns,
    Constant,
    Holds,
    OrdersMap,
    TableName,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One column the map names: where it is written, what it is called when read."""

    key: str  # in the file
    section: str
    label: str
    table: TableName
    column: str
    holds: Holds
    may_be_null: bool


def uses_of(shape: OrdersMap) -> tuple[Use, ...]:
    """Every column, in the file's order."""
    address = shape.orders.address
    found = [
        *_uses("customers", "customers.columns", shape.customers.table, shape.customers.columns),
        *_uses("orders", "orders.columns", shape.orders.table, shape.orders.columns),
    ]
    if address is not None:
        found += _uses("orders", "orders.address", shape.orders.table, address, "address_")
    found += _uses("lines", "lines.columns", shape.lines.table, shape.lines.columns)
    found += [
        Use(
            key=f"lines.options.{name}",
            section="lines",
            label=option_label(number),
            table=shape.lines.table,
            column=column.name,
            holds=Holds.TEXT,
            may_be_null=True,
        )
        for number, (name, column) in enumerate(shape.lines.options.items())
    ]
    found += _uses("payments", "payments.columns", shape.payments.table, shape.payments.columns)
    return tuple(found)


def option_label(number: int) -> str:
    """What the column of an option is called when read: its name may be in any script."""
    return f"option_{number}"


def constants_of(columns: Columns, prefix: str = "") -> MappingProxyType[str, str | int | bool]:
    """What is the same for every row, by label."""
    return MappingProxyType(
        {
            f"{prefix}{name}": source.value
            for name in type(columns).model_fields
            if isinstance(source := getattr(columns, name), Constant)
        }
    )


def _uses(
    section: str, key: str, table: TableName, columns: Columns, prefix: str = ""
) -> list[Use]:
    return [
        Use(
            key=f"{key}.{name}",
            section=section,
            label=f"{prefix}{name}",
            table=table,
            column=source.name,
            holds=next(mark for mark in field.metadata if isinstance(mark, Holds)),
            may_be_null=name in columns.may_be_null,
        )
        for name, field in type(columns).model_fields.items()
        if isinstance(source := getattr(columns, name), Column)
    ]

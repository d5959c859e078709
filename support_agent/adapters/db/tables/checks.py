"""CHECK constraints in the few shapes our tables need; the convention completes their names."""

from enum import StrEnum

from sqlalchemy import CheckConstraint


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """The column holds one of the enum's values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def not_negative(*columns: str) -> tuple[CheckConstraint, ...]:
    """Each column is zero or more."""
    return tuple(CheckConstraint(f"{column} >= 0", name=column) for column in columns)


def positive(column: str) -> CheckConstraint:
    """The column is one or more."""
    return CheckConstraint(f"{column} > 0", name=column)

"""How lines and reasons stand in JSON columns; stored shapes, so they only ever grow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine


def lines_to_json(lines: Iterable[RefundLine]) -> list[dict[str, Any]]:
    """`[{"line_id", "units", "amount_minor"}]`."""
    return [
        {"line_id": line.line_id, "units": line.units, "amount_minor": line.amount_minor}
        for line in lines
    ]


def lines_from_json(stored: Sequence[Mapping[str, Any]]) -> tuple[RefundLine, ...]:
    """The lines again."""
    return tuple(RefundLine(**line) for line in stored)


def reasons_to_json(reasons: Iterable[Reason]) -> list[str]:
    """Their stable codes."""
    return [str(reason) for reason in reasons]


def reasons_from_json(stored: Sequence[str]) -> tuple[Reason, ...]:
    """The reasons again."""
    return tuple(Reason(reason) for reason in stored)

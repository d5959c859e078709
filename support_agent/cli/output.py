"""Everything the command line prints. Text passes `visible` here, so no command can forget it."""

import json
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from shutil import get_terminal_size
from typing import TextIO

from support_agent.domain.text import visible

LINE = 4_000  # characters of one printed line
BODY = 20_000  # characters of a text over several lines
CELL = 80  # characters of one table cell
GAP = 2  # blanks between two columns
WIDEST = 2_000  # columns of a table; one that does not fit the window is not printed as one

_NOT_PLAIN_ASCII = re.compile(r"[^\x20-\x7e]")
# Escaped in JSON, which loses nothing: controls, invisible and bidi characters, odd separators.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def print_json(value: Mapping[str, object], *, to: TextIO | None = None) -> None:
    """One JSON object on one line: Vietnamese as it is, what a terminal would act on escaped."""
    print(to_json(value), file=to or sys.stdout)


def to_json(value: object) -> str:
    """The value on one line; see `print_json`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_jsonable)
    return _NOT_PLAIN_ASCII.sub(lambda match: _escaped(match[0]), text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if unicodedata.category(char) in _ESCAPED_CATEGORIES else char


def _jsonable(value: object) -> object:
    match value:
        case datetime():
            return rfc3339(value)
        case date():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case frozenset() | set():
            return sorted(value)
        case _:
            return str(value)


def rfc3339(moment: datetime) -> str:
    """An instant as JSON carries it: UTC, `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def say(text: str = "", *, to: TextIO | None = None) -> None:
    """One line; a line break inside `text` is made visible, so nobody can forge a line."""
    _write(visible(text, LINE), to)


def say_body(text: str, *, to: TextIO | None = None) -> None:
    """A text that may have lines of its own."""
    _write(visible(text, BODY, keep_newlines=True), to)


def _write(text: str, to: TextIO | None) -> None:
    print(text, file=to or sys.stdout)


def flush() -> None:
    """Hand over what is still in a buffer; nothing when stdout is closed."""
    print(end="", flush=True)  # noqa: T201 - sys.stdout may be None, which print knows


def at_terminal() -> bool:
    """Whether somebody looks; what is piped stays plain."""
    return sys.stdout.isatty()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A table's column; amounts stand to the right."""

    title: str
    right: bool = False


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Labels and values under one another."""
    width = max((len(label) for label, _ in facts), default=0)
    for label, value in facts:
        say(f"{label:<{width}}  {value}")


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """A table that wraps no cell; plain columns when the output is piped.

    At a terminal too narrow for the table each row becomes a block of labels and values.
    """
    cells = [[visible(cell, CELL) for cell in row] for row in rows]
    if not at_terminal():
        _plain_table(columns, cells)
    elif sum(_widths(columns, cells)) + GAP * (len(columns) - 1) > get_terminal_size().columns:
        _blocks(columns, cells)
    else:
        _rich_table(columns, cells)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([len(column.title), *(len(row[index]) for row in rows)])
        for index, column in enumerate(columns)
    ]


def _blocks(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if number:
            say()
        cells = zip(columns, row, strict=True)
        print_facts([(column.title.lower(), cell) for column, cell in cells if cell])


def _plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    widths = _widths(columns, rows)
    for row in ([column.title for column in columns], *rows):
        padded = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        _write((" " * GAP).join(padded).rstrip(), None)


def _rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich import box  # noqa: PLC0415 - only a terminal pays for rich
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # One blank of padding and the divider make the GAP.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(
            column.title, justify="right" if column.right else "left", no_wrap=True, min_width=1
        )
    for row in rows:
        # Text, because a str would be read as markup.
        table.add_row(*(Text(cell) for cell in row))
    # Wider than the window rather than cut: an id has to be whole to be copied.
    Console(width=WIDEST, height=len(rows)).print(table)  # both, or a dumb terminal has 80


def print_box(title: str, texts: Sequence[str]) -> None:
    """Foreign texts in a box of their own, where none can pass for a computed fact or another."""
    bodies = [visible(text, LINE) for text in texts]
    if not at_terminal():
        say(title)
        for body in bodies:
            _write(f"  | {body}", None)
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich
    from rich.panel import Panel  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    Console().print(
        Panel(Text("\n".join(bodies)), title=Text(visible(title, LINE)), border_style="yellow")
    )

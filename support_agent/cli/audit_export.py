"""`audit export`: the history with its signatures, for whoever keeps or reads it elsewhere."""

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from support_agent.cli.options import Json
from support_agent.cli.output import print_json, rfc3339, say, to_json
from support_agent.cli.runtime import run
from support_agent.cli.views import Object, head_text
from support_agent.domain.audit import AuditRow
from support_agent.domain.errors import InvalidInput
from support_agent.domain.text import csv_cell, visible

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.audit_export import ExportedHistory

FORMAT = 1  # of an export; a later one may add, and never changes what is there
STDOUT = "-"
OWNER_ONLY = 0o600
LONGEST_CELL = 4_000
COLUMNS = (
    *("seq", "at", "action", "actor_kind", "actor_id", "actor_person_id", "actor_proof"),
    *("actor_via", "subject", "data", "root", "prev_mac", "key_id", "mac"),
)


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


def export(
    *,
    out: Annotated[
        str,
        typer.Option(
            "--out", help="A file that is not there yet, or - for stdout.", metavar="FILE|-"
        ),
    ],
    since: Annotated[
        int,
        typer.Option("--since", help="Only events after this one.", metavar="SEQ", min=0),
    ] = 0,
    format_: Annotated[
        Format, typer.Option("--format", help="jsonl is whole; csv is for a spreadsheet.")
    ] = Format.JSONL,
    as_json: Json = False,
) -> None:
    """Write the signed history out, one event a line, up to the head of now.

    jsonl has all that a signature covers, and the head in its last line: whoever has the keys can
    verify it without the database. In csv what hides is made visible and no cell is a formula.
    """

    async def work(container: "Container") -> "tuple[ExportedHistory, int]":
        exports = container.audit_exports()
        begun = await exports.begin(since=since)
        events = 0
        with opened(out) as file:
            write = _writer(format_, file)
            async for rows in exports.parts(begun):
                write(rows)
                events += len(rows)
            if format_ is Format.JSONL:
                print(to_json(_end(begun, events)), file=file)
        return begun, events

    begun, events = run(work, check_history=False)
    to = sys.stderr if out == STDOUT else sys.stdout  # stdout is the export's
    if as_json:
        print_json({"out": out, "events": events, "head": head_text(begun.head)}, to=to)
        return
    say(f"{events} events after {since}, to {out}", to=to)
    say(f"head {head_text(begun.head)}", to=to)


def event_object(row: AuditRow) -> Object:
    """An event as its signature covers it."""
    event, actor = row.event, row.event.actor
    return {
        "seq": row.seq,
        "at": rfc3339(event.at),
        "action": event.action,
        "actor": {
            "kind": actor.kind,
            "id": actor.id,
            "person_id": actor.person_id,
            "proof": actor.proof,
            "via": actor.via,
        },
        "subject": event.subject,
        "data": dict(event.data),
        "root": row.root,
        "prev_mac": row.prev_mac,
        "key_id": row.key_id,
        "mac": row.mac,
    }


def _cells(row: AuditRow) -> Iterator[str]:
    event, actor = row.event, row.event.actor
    values = (
        *(str(row.seq), rfc3339(event.at), event.action, actor.kind, actor.id),
        *(actor.person_id or "", actor.proof, actor.via, event.subject),
        *(to_json(dict(event.data)), row.root or "", row.prev_mac, row.key_id, row.mac),
    )
    return (csv_cell(visible(value, LONGEST_CELL)) for value in values)


def _end(export: "ExportedHistory", events: int) -> Object:
    return {
        "format": FORMAT,
        "installation_id": export.installation_id,
        "exported_at": rfc3339(export.at),
        "since": export.since,
        "events": events,
        "head": head_text(export.head),
    }


def _writer(format_: Format, file: TextIO) -> Callable[[Sequence[AuditRow]], None]:
    if format_ is Format.JSONL:

        def write(rows: Sequence[AuditRow]) -> None:
            file.writelines(f"{to_json(event_object(row))}\n" for row in rows)

        return write
    table = csv.writer(file, lineterminator="\r\n")  # RFC 4180
    table.writerow(COLUMNS)
    return lambda rows: table.writerows(list(_cells(row)) for row in rows)


@contextmanager
def opened(out: str) -> Iterator[TextIO]:
    """Stdout, or a new file that only its owner reads; half of an export is none."""
    if out == STDOUT:
        yield sys.stdout
        return
    path = Path(out)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileExistsError as error:
        raise InvalidInput("out", f"{out!r} exists; name a file that is not there yet") from error
    except (OSError, ValueError) as error:
        raise InvalidInput("out", f"{out!r} cannot be made: {error}") from error
    try:
        with open(made, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor
            yield file
    except BaseException as error:
        with suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise InvalidInput("out", f"{out!r} cannot be written: {error.strerror}") from error
        raise

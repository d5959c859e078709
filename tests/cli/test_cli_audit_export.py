"""`audit export`: the whole signed history, streamed, to verify or to read elsewhere."""

import csv
import errno
import io
import json
import stat
from datetime import datetime
from pathlib import Path

import pytest

from support_agent.cli.audit_export import COLUMNS, opened
from support_agent.domain.audit import START, AuditEvent, AuditHead, AuditRow, holds
from support_agent.domain.errors import DatabaseUnavailable, InvalidInput
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.signing import KeyRing
from support_agent.services import audit_export
from tests.heart import attack

RING = KeyRing(keys=(("test", bytes.fromhex("5e" * 32)),))  # the keys of tests/kit.py


def lines(text: str) -> tuple[list[dict], dict]:
    """The events, and what the last line says of them."""
    *events, end = map(json.loads, text.splitlines())
    return events, end


def as_row(told: dict) -> AuditRow:
    actor = told["actor"]
    return AuditRow(
        seq=told["seq"],
        event=AuditEvent(
            action=told["action"],
            actor=Principal(
                kind=PrincipalKind(actor["kind"]),
                id=actor["id"],
                person_id=actor["person_id"],
                proof=Proof(actor["proof"]),
                via=actor["via"],
            ),
            subject=told["subject"],
            at=datetime.fromisoformat(told["at"]),
            data=told["data"],
        ),
        prev_mac=told["prev_mac"],
        key_id=told["key_id"],
        mac=told["mac"],
        root=told["root"],
    )


@pytest.fixture
def lived(cli) -> str:
    """A shop in which something was decided; the request."""
    request = cli.filed("A100")
    cli("approvals", "approve", request, "--expect", "1", "--as", "lan", "--note", "ghi chú kín")
    return request


def test_an_export_can_be_verified_with_the_keys_alone(cli, lived):
    events, end = lines(cli("audit", "export", "--out", "-").stdout)

    before = START
    for row in map(as_row, events):
        assert (row.seq, row.prev_mac) == (before.seq + 1, before.mac)
        assert holds(RING, row), row
        before = AuditHead(seq=row.seq, mac=row.mac)
    assert end["head"] == f"{before.seq}:{before.mac}"
    assert (end["format"], end["since"], end["events"]) == (1, 0, before.seq)
    assert cli.json("audit", "verify", "--head", end["head"])["ok"]
    approved = next(row for row in events if row["action"] == "refund.approved")
    assert (approved["subject"], approved["actor"]["id"]) == (lived, "lan")
    changed = as_row(approved | {"subject": "req_other"})
    assert not holds(RING, changed)


def test_words_of_people_are_not_in_it(cli, lived):
    exported = cli("audit", "export", "--out", "-").stdout

    assert "ghi chú kín" not in exported
    assert "hoàn tiền đơn" not in exported


def test_the_next_export_goes_on_where_the_last_one_ended(cli, lived, monkeypatch):
    first, end = lines(cli("audit", "export", "--out", "-").stdout)
    cli.filed("A102")
    monkeypatch.setattr(audit_export, "ROWS_AT_ONCE", 2)

    seq, _, mac = end["head"].partition(":")
    second, later = lines(cli("audit", "export", "--since", seq, "--out", "-").stdout)

    assert [row["seq"] for row in second] == [int(seq) + 1 + n for n in range(len(second))]
    assert second[0]["prev_mac"] == mac
    assert (later["since"], later["events"]) == (int(seq), len(second))
    assert later["head"] == f"{second[-1]['seq']}:{second[-1]['mac']}"
    whole, _ = lines(cli("audit", "export", "--out", "-").stdout)
    assert whole == [*first, *second]
    newest = later["head"].partition(":")[0]
    nothing, end = lines(cli("audit", "export", "--since", newest, "--out", "-").stdout)
    assert (nothing, end["events"], end["head"]) == ([], 0, later["head"])


def test_no_cell_of_a_csv_is_a_formula_or_hides_anything(cli, lived):
    attack(
        cli.url,
        "UPDATE audit_events SET subject = '=HYPERLINK(\"http://x\")' || char(10) || char(8238), "
        "actor_id = '+1', data = '{\"a\": \"@x\"}' WHERE seq = 1",
    )

    shown = cli("audit", "export", "--format", "csv", "--out", "-").stdout
    header, first, *rest = csv.reader(io.StringIO(shown))

    told = dict(zip(header, first, strict=True))
    assert tuple(header) == COLUMNS
    assert told["subject"] == '\'=HYPERLINK("http://x")\\n\\u202e'
    assert told["actor_id"] == "'+1"
    assert told["data"] == '{"a":"@x"}'
    assert [int(row[0]) for row in rest] == [*range(2, len(rest) + 2)]


def test_a_history_that_was_changed_is_exported_as_it_is(cli, lived):
    attack(cli.url, "UPDATE audit_events SET data = 'broken' WHERE seq = 2")
    attack(cli.url, "DELETE FROM audit_events WHERE seq = 4")

    events, end = lines(cli("audit", "export", "--out", "-").stdout)

    assert events[1]["action"] == "unreadable"
    assert not holds(RING, as_row(events[1]))
    assert 4 not in {row["seq"] for row in events}
    assert end["events"] == len(events)


class TestFiles:
    def test_a_file_is_new_and_only_its_owners(self, cli, lived, tmp_path: Path):
        path = tmp_path / "lịch sử.jsonl"

        told = cli.json("audit", "export", "--out", str(path))

        events, end = lines(path.read_text(encoding="utf-8"))
        assert told == {"out": str(path), "events": len(events), "head": end["head"]}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        before = path.read_bytes()
        error = cli.error("audit", "export", "--out", str(path), code=2)
        assert (error["field"], path.read_bytes()) == ("out", before)

    @pytest.mark.parametrize("name", ["missing/x.jsonl", ".", "a\0b"])
    def test_one_that_cannot_be_made_is_said(self, cli, lived, tmp_path: Path, name):
        assert cli.error("audit", "export", "--out", str(tmp_path / name), code=2)["field"] == "out"

    @pytest.mark.parametrize(
        ("broken", "told"),
        [
            (OSError(errno.ENOSPC, "No space left on device"), InvalidInput),
            (DatabaseUnavailable("away"), DatabaseUnavailable),
            (KeyboardInterrupt(), KeyboardInterrupt),
        ],
    )
    def test_half_of_an_export_is_no_file(self, tmp_path: Path, broken, told):
        path = tmp_path / "half.jsonl"

        def export() -> None:
            with opened(str(path)) as file:
                file.write("{}")
                raise broken

        with pytest.raises(told):
            export()

        assert not path.exists()


def test_where_the_export_goes_to_stdout_the_rest_goes_to_stderr(cli, lived):
    result = cli("audit", "export", "--out", "-", "--json")

    _, end = lines(result.stdout)
    assert json.loads(result.stderr.splitlines()[-1])["head"] == end["head"]


def test_more_than_there_is_may_have_been_cut_off(cli):
    error = cli.error("audit", "export", "--since", "100000", "--out", "-", code=2)

    assert error["field"] == "since"
    assert "cut off" in error["message"]


def test_where_to_has_to_be_said(cli):
    assert "--out" in cli("audit", "export", code=2).stderr

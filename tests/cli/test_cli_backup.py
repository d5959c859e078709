"""`db backup`: a copy that can be trusted, or none at all."""

import errno
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from support_agent.adapters.db.backup import back_up
from support_agent.domain.errors import InvalidInput
from tests.kit import KEYS


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_copy_is_private_whole_and_says_which_history_is_in_it(cli, tmp_path, environment):
    request = cli.filed("A100")
    copy = tmp_path / "backups" / "copy.db"
    copy.parent.mkdir()

    made = cli.json("db", "backup", str(copy))

    assert made["audit_head"] == cli.json("audit", "verify")["head"]
    assert (made["kind"], made["size_bytes"]) == ("demo", copy.stat().st_size)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert names_in(copy.parent) == {"copy.db"}
    environment(DATABASE__URL=f"sqlite:///{copy}")
    assert cli.json("refunds", "show", request)["status"] == "PENDING_APPROVAL"
    assert cli.json("audit", "verify", "--head", made["audit_head"])["ok"] is True
    assert cli.json("db", "check")["ok"] is True


def test_it_says_in_words_that_the_keys_are_kept_apart(cli, tmp_path):
    said = cli("db", "backup", str(tmp_path / "copy.db")).stdout

    assert "audit head" in said
    assert "keys are not in it" in said


def test_what_a_writer_has_not_committed_is_not_in_it_and_nobody_waits(cli, tmp_path):
    with closing(sqlite3.connect(path_of(cli.url), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE shop_customers SET name = 'half done'")

        cli("db", "backup", str(tmp_path / "copy.db"))

        writer.execute("COMMIT")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        names = copy.execute("SELECT count(*) FROM shop_customers WHERE name = 'half done'")
        assert names.fetchone() == (0,)


def test_copies_taken_while_a_shop_writes_show_one_moment_each(cli, tmp_path):
    """Two rows change in each transaction; a copy that mixes two moments shows them apart."""
    stop, written = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(path_of(cli.url), isolation_level=None, timeout=30)) as own:
            while not stop.is_set():
                own.execute("BEGIN IMMEDIATE")
                own.execute("UPDATE shop_orders SET note = coalesce(note, '') || 'x'")
                own.execute("UPDATE shop_customers SET name = name || 'x'")
                own.execute("COMMIT")
                written.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert written.wait(30)
        for number in range(5):
            back_up(cli.url, tmp_path / f"{number}.db", busy_timeout_s=10)
    finally:
        stop.set()
        thread.join()

    with closing(sqlite3.connect(path_of(cli.url))) as own:
        longest = written_into(own)
    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as copy:
            assert 0 < written_into(copy) <= longest


def written_into(connection: sqlite3.Connection) -> int:
    """How often the two tables were written, which they have to agree on."""
    notes = connection.execute(
        "SELECT DISTINCT length(note) - length(rtrim(note, 'x')) FROM shop_orders"
    ).fetchall()
    names = connection.execute(
        "SELECT DISTINCT length(name) - length(rtrim(name, 'x')) FROM shop_customers"
    ).fetchall()
    assert notes == names
    ((times,),) = names
    return int(times)


@pytest.mark.parametrize("dangling", [False, True])
def test_nothing_is_overwritten(cli, tmp_path, dangling):
    there = tmp_path / "there.db"
    if dangling:
        there.symlink_to(tmp_path / "nowhere")
    else:
        there.write_bytes(b"somebody's")

    error = cli.error("db", "backup", str(there), code=2)

    assert (error["code"], error["field"]) == ("INVALID_INPUT", "file")
    assert "not overwritten" in error["message"]
    assert not (tmp_path / "nowhere").exists()
    assert dangling or there.read_bytes() == b"somebody's"


def test_of_two_at_once_under_one_name_one_is_told_that_it_is_taken(cli, tmp_path):
    copy = tmp_path / "backups" / "copy.db"
    copy.parent.mkdir()
    begin = threading.Barrier(2)

    def take() -> str:
        begin.wait(30)
        try:
            return str(back_up(cli.url, copy, busy_timeout_s=10).file)
        except InvalidInput as error:
            return error.field

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(take), pool.submit(take)]
        ended = sorted(future.result() for future in both)

    assert ended == sorted([str(copy), "file"])
    assert names_in(copy.parent) == {"copy.db"}


def test_where_files_cannot_be_linked_the_copy_gets_its_name_all_the_same(
    cli, tmp_path, monkeypatch
):
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")  # as a stick's system says

    monkeypatch.setattr(os, "link", refused)
    folder = tmp_path / "stick"
    folder.mkdir()

    cli("db", "backup", str(folder / "copy.db"))

    assert names_in(folder) == {"copy.db"}
    assert cli.error("db", "backup", str(folder / "copy.db"), code=2)["field"] == "file"


def test_a_folder_that_is_not_there_is_named(cli, tmp_path):
    error = cli.error("db", "backup", str(tmp_path / "no" / "copy.db"), code=2)

    assert error["field"] == "file"
    assert not (tmp_path / "no").exists()


def test_a_damaged_database_leaves_no_copy(cli, tmp_path):
    path = path_of(cli.url)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xa5" * 4096 * 3
    path.write_bytes(content)
    before = names_in(tmp_path)

    error = cli.error("db", "backup", str(tmp_path / "copy.db"), code=2)

    assert "damaged" in error["message"]
    assert "restore" in error["message"]
    assert {name for name in names_in(tmp_path) - before if "copy" in name} == set()


def test_a_row_that_points_nowhere_leaves_no_copy(cli, tmp_path):
    cli.tamper(
        "INSERT INTO messages (conversation_id, seq, author, text, at) "
        "VALUES ('con_gone', 1, 'customer', 'x', '2026-10-13 02:00:00')"
    )

    assert "messages" in cli.error("db", "backup", str(tmp_path / "copy.db"), code=2)["message"]
    assert not (tmp_path / "copy.db").exists()


def test_an_older_schema_is_copied_as_it_is_before_an_upgrade(cli, tmp_path):
    cli.tamper("UPDATE alembic_version SET version_num = '0003'")

    assert cli.json("db", "backup", str(tmp_path / "copy.db"))["revision"] == "0003"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "older than the database"),
        ("DELETE FROM alembic_version", "has no tables yet"),
    ],
)
def test_what_this_program_does_not_know_is_not_copied(cli, tmp_path, change, says):
    cli.tamper(change)

    assert says in cli.error("db", "backup", str(tmp_path / "copy.db"), code=2)["message"]
    assert not (tmp_path / "copy.db").exists()


def test_a_missing_database_is_not_made(cli, tmp_path, environment):
    environment(DATABASE__URL=f"sqlite:///{tmp_path}/no.db")

    assert "db upgrade" in cli.error("db", "backup", str(tmp_path / "copy.db"), code=2)["message"]
    assert not {"no.db", "copy.db"} & names_in(tmp_path)


def test_a_server_is_backed_up_by_its_own_tool_without_a_password_on_the_line(
    cli, tmp_path, environment
):
    environment(DATABASE__URL="postgresql+psycopg://owner:hunter2@db.local:5433/shop")

    error = cli.error("db", "backup", str(tmp_path / "shop.dump"), code=2)

    assert error["setting"] == "SUPPORT_AGENT_DATABASE__URL"
    assert (
        f"pg_dump --format=custom --file={tmp_path}/shop.dump "
        "--dbname=postgresql://owner@db.local:5433/shop" in error["message"]
    )
    assert "hunter2" not in error["message"]
    assert KEYS not in error["message"]

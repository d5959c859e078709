"""`doctor --deep`: real faults, each told with what to do about it."""

from datetime import timedelta
from pathlib import Path

import pytest

from support_agent.adapters.db.backlog import Jobs
from support_agent.adapters.db.condition import Files, Held
from support_agent.cli.condition import (
    GB,
    MB,
    clocks,
    duration,
    files,
    looked,
    queue_jobs,
    rights,
    versions,
)
from support_agent.cli.findings import Finding
from tests.kit import Shop, settings_for
from tests.moved_time import MovedTime, open_shop_in


def found(cli, name: str, *, code: int = 0):
    """The finding of that name, as the command tells it."""
    checks = {check["name"]: check for check in cli.json("doctor", "--deep", code=code)["checks"]}
    return checks[name]


def test_a_sound_installation_is_looked_through_and_the_plain_one_does_not_look(cli):
    deep = cli.json("doctor", "--deep")
    plain = cli.json("doctor")

    names = [check["name"] for check in deep["checks"]]
    more = ["versions", "clock skew", "unread", "orphaned", "pending", "outbox", "jobs", "rights"]
    assert names[-len(more) - 3 :] == [*more, "disk", "wal", "integrity"]
    assert {check["level"] for check in deep["checks"]} == {"ok"}
    assert deep["ok"] is True
    assert not {*more} & {check["name"] for check in plain["checks"]}


def test_lines_are_called_ok_warn_and_fail(cli, environment):
    cli.filed("A100")
    environment(CLOCK__NOW="2026-10-15T09:00:00+07:00")

    lines = cli("doctor", "--deep", code=1).stdout.splitlines()

    assert {line.split()[0] for line in lines} == {"OK", "WARN", "FAIL"}


def test_a_request_that_is_overdue_is_a_warning_that_names_it(cli, environment):
    request = cli.filed("A100")
    environment(CLOCK__NOW="2026-10-14T08:59:00+07:00")
    assert found(cli, "pending", code=1)["level"] == "ok"
    environment(CLOCK__NOW="2026-10-14T09:00:01+07:00")

    pending = found(cli, "pending", code=1)

    assert pending["level"] == "warn"
    assert request in pending["detail"]
    assert "approvals list" in pending["detail"]


def test_an_old_event_of_the_outbox_fails(cli, environment):
    cli.filed("A100")
    assert found(cli, "outbox")["level"] == "ok"
    environment(CLOCK__NOW="2026-10-13T10:30:00+07:00")

    outbox = found(cli, "outbox", code=1)

    assert (outbox["level"], outbox["ok"]) == ("fail", False)
    assert "support-agent tick" in outbox["detail"]


@pytest.mark.parametrize(
    ("seconds", "level", "code"), [(5, "ok", 0), (90, "warn", 0), (3_600, "fail", 1)]
)
def test_a_message_that_nobody_reads_is_found(cli, seconds, level, code):
    talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]
    cli.tamper(
        "INSERT INTO messages (conversation_id, seq, author, text, at, posted_at) VALUES "  # noqa: S608 - an id of ours
        f"('{talk}', 99, 'customer', 'alo?', '2026-10-13 02:00:00', "
        f"(julianday('now') - 2440587.5) * 86400.0 - {seconds})"
    )

    unread = found(cli, "unread", code=code)

    assert unread["level"] == level
    assert unread["detail"].startswith("1 conversations with unread messages")


@pytest.mark.parametrize(("seconds", "level", "code"), [(5, "warn", 0), (3_600, "fail", 1)])
def test_a_run_without_an_owner_is_found(cli, seconds, level, code):
    cli("ask", "xin chào", "--customer", "C001")
    cli.tamper("UPDATE runs SET status = 'running', stop_reason = NULL, ended_at = NULL")
    cli.tamper(
        "UPDATE conversations SET lease_until = "  # noqa: S608 - a number of ours
        f"(julianday('now') - 2440587.5) * 86400.0 - {seconds}"
    )

    orphaned = found(cli, "orphaned", code=code)

    assert orphaned["level"] == level
    assert "support-agent worker" in orphaned["detail"]


def test_a_run_that_somebody_has_is_no_orphan(cli):
    cli("ask", "xin chào", "--customer", "C001")
    cli.tamper("UPDATE runs SET status = 'running', stop_reason = NULL, ended_at = NULL")
    cli.tamper(
        "UPDATE conversations SET lease_until = (julianday('now') - 2440587.5) * 86400.0 + 60"
    )

    assert found(cli, "orphaned")["detail"].startswith("0 ")


def test_a_page_that_is_torn_is_found_and_a_backup_advised(cli):
    path = Path(cli.url.removeprefix("sqlite:///"))
    [(root,)] = cli.rows(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'ix_shop_orders_customer'"
    )
    [(size,)] = cli.rows("PRAGMA page_size")
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(content)

    integrity = found(cli, "integrity", code=1)

    assert integrity["level"] == "fail"
    assert "restore a backup" in integrity["detail"]


def test_what_does_not_start_is_not_looked_into(cli, environment, tmp_path):
    environment(DATABASE__URL=f"sqlite:///{tmp_path}/no.db")

    names = [check["name"] for check in cli.json("doctor", "--deep", code=2)["checks"]]

    assert names[-1] == "start"


def test_a_problem_of_settings_keeps_its_exit_code_beside_a_deep_one(cli, environment):
    cli.filed("A100")
    environment(CLOCK__NOW="2026-10-15", APPROVALS__PROOF="token")

    cli("doctor", "--deep", code=2)


@pytest.mark.parametrize(
    ("database_ahead_s", "level"),
    [(0, "ok"), (0.9, "ok"), (5, "warn"), (-5, "warn"), (31, "fail"), (-31, "fail")],
)
async def test_a_database_whose_clock_is_off_is_found(shop_url, database_ahead_s, level):
    time = MovedTime()
    time.database += timedelta(seconds=database_ahead_s)
    async with open_shop_in(time, shop_url) as shop:
        skew = await skew_of(shop)

    assert skew.level == level
    if level != "ok":
        assert "NTP" in skew.detail
        assert ("ahead of" if database_ahead_s > 0 else "behind") in skew.detail


async def skew_of(shop: Shop) -> Finding:
    findings = [one async for one in looked(shop.container, settings_for(shop.url))]
    return {one.name: one for one in findings}["clock skew"]


async def test_both_clocks_off_together_is_no_skew(shop_url):
    time = MovedTime()
    time.advance(timedelta(hours=3))
    async with open_shop_in(time, shop_url) as shop:
        skew = await skew_of(shop)

    assert skew.level == "ok"


class TestJudging:
    """What cannot be made here in earnest: a full disk, a server of ten years ago."""

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (-3, "0 s"),
            (59.6, "60 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (86_400, "24 h"),
            (259_200, "3 d"),
        ],
    )
    def test_a_time_is_told_as_a_person_says_it(self, seconds, text):
        assert duration(seconds) == text

    @pytest.mark.parametrize(
        ("free", "database", "level"),
        [
            (10 * GB, MB, "ok"),
            (500 * MB, MB, "warn"),
            (50 * MB, MB, "fail"),
            (3 * GB, 2 * GB, "warn"),
        ],
    )
    def test_a_disk_without_room_for_a_backup_is_told(self, free, database, level):
        disk, *_ = files(Files(database=database, wal=0, free=free, problem=None))
        assert (disk.name, disk.level) == ("disk", level)

    @pytest.mark.parametrize(("wal", "level"), [(MB, "ok"), (64 * MB, "warn"), (GB, "fail")])
    def test_a_log_that_does_not_shrink_is_told(self, wal, level):
        _, found, _ = files(Files(database=MB, wal=wal, free=10 * GB, problem=None))
        assert (found.name, found.level) == ("wal", level)

    @pytest.mark.parametrize(
        ("server", "number", "level"),
        [
            ("PostgreSQL 14.9", 140_009, "warn"),
            ("PostgreSQL 18.0", 180_000, "ok"),
            ("SQLite 3.40.1", 34_001, "ok"),
        ],
    )
    def test_a_server_from_before_its_rights_could_be_trusted_is_told(self, server, number, level):
        assert versions(server, number).level == level

    @pytest.mark.parametrize(("stalled", "level"), [(0, "ok"), (1, "warn"), (10, "fail")])
    def test_jobs_whose_worker_is_gone_are_told(self, stalled, level):
        assert queue_jobs(Jobs(by_state={"doing": 12}, stalled=stalled)).level == level

    @pytest.mark.parametrize(("live", "level"), [(False, "warn"), (True, "fail")])
    @pytest.mark.parametrize(
        ("more", "says"),
        [
            ({"is_superuser": True}, "superuser"),
            (
                {"owns": ("audit_events", "tasks", "a", "b")},
                "owns audit_events, tasks, a and 1 more",
            ),
            ({"too_much": ("UPDATE audit_events",)}, "may UPDATE audit_events"),
            ({"may_create": True}, "may make tables"),
        ],
    )
    def test_a_role_that_could_rewrite_history_fails_where_money_is_real(
        self, more, says, live, level
    ):
        held = {"role": "app", "is_superuser": False, "owns": (), "too_much": (), "missing": ()}
        finding: Finding = rights(Held(**held | {"may_create": False} | more), live=live)
        assert finding.level == level
        assert says in finding.detail

    def test_no_skew_is_told_with_how_exactly_it_is_known(self):
        assert clocks(0.25, 0.001).detail.startswith("the database's is 0.250 s ahead of")

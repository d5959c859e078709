"""The machine's clock and ids that sort by their making."""

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from support_agent.adapters.system import ALPHABET, SortableIds, SystemClock


def test_the_clock_tells_the_present_in_utc():
    before = datetime.now(UTC)
    told = SystemClock().now()
    after = datetime.now(UTC)

    assert before <= told <= after
    assert told.tzinfo is UTC


def test_an_id_is_its_prefix_and_26_characters_that_nobody_misreads():
    prefix, rest = SortableIds().new("req").split("_")

    assert prefix == "req"
    assert len(rest) == 26
    assert set(rest) <= set(ALPHABET)
    assert not set("ilou") & set(ALPHABET)


def test_each_id_is_larger_than_the_one_before_also_within_a_millisecond():
    ids = SortableIds()
    made = [ids.new("x") for _ in range(5_000)]

    assert made == sorted(set(made))


def test_ids_stay_in_order_when_the_machines_clock_goes_back(monkeypatch: pytest.MonkeyPatch):
    ids = SortableIds()
    before = ids.new("x")
    monkeypatch.setattr(time, "time_ns", lambda: 0)

    assert ids.new("x") > before


def test_an_id_begins_with_its_moment(monkeypatch: pytest.MonkeyPatch):
    moments = (0, 1_000_000, 1_791_858_000_000_000_000, 4_102_444_800_000_000_000)
    made = []
    for moment in moments:
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        made.append(SortableIds().new("x"))

    assert made == sorted(made)
    assert made[0].startswith("x_0000000000")
    assert made[1].startswith("x_0000000001")


def test_threads_never_get_the_same_id():
    ids = SortableIds()
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def make(into: list[str]) -> None:
        start.wait()
        into.extend(ids.new("x") for _ in range(500))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({one for into in made for one in into}) == 8 * 500
    assert all(into == sorted(into) for into in made)


def test_processes_do_not_share_their_randomness():
    program = (
        "import time\n"
        "from support_agent.adapters.system import SortableIds\n"
        "time.time_ns = lambda: 1_791_858_000_000_000_000\n"
        "print(SortableIds().new('x'))\n"
    )
    made = {
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }

    assert len(made) == 2

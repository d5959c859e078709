"""Real workers on a real PostgreSQL, with everything going wrong that does in a data centre.

The size that this machine does in a minute; `benchmarks/scale.py --faults` is the large one.
"""

import pytest

from benchmarks.crowd.trial import Trial, faults, on_postgres
from support_agent.testing.postgres import PostgresMissing, own_server

RUN_S, GRACE_S = 10, 0.5  # shorter than a turn may take on a machine that does other things, too
TRIAL = Trial(
    conversations=40,
    workers=3,
    latency_s=0.2,
    think_s=2,
    settings={
        "QUEUE__KIND": "procrastinate",
        "LIMITS__RUN_SECONDS": RUN_S,
        "QUEUE__LEASE_GRACE_SECONDS": GRACE_S,
        "DATABASE__BUSY_SECONDS": 2,
    },
)


@pytest.fixture(scope="module")
def server():
    try:
        with own_server() as started:
            yield started
    except PostgresMissing as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


def test_no_turn_is_lost_and_none_doubled_when_workers_die_and_stand_still(server, tmp_path):
    disturb = faults(server, lease_s=RUN_S + GRACE_S)

    outcome = on_postgres(TRIAL, server, tmp_path, disturb=disturb)

    assert outcome.problems == []
    assert outcome.taken_over >= 2, outcome.notes
    assert outcome.duplicates >= sum(one.deliveries - 1 for s in TRIAL.crowd for one in s.messages)
    assert outcome.model["again"] <= outcome.taken_over + outcome.model["most_open"], outcome.model

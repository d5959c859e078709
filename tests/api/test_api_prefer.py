"""`Prefer: wait` as RFC 7240 has it."""

import pytest

from support_agent.api.prefer import wait_of

MOST = 30.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], 0),
        (["wait=20"], 20),
        (["Wait = 20"], 20),
        (['wait="20"'], 20),
        (["wait=020"], 20),
        (["wait=0"], 0),
        (["wait=00000000000"], 0),
        (["wait=31"], 30),
        (["wait=" + "9" * 500], 30),
        (["respond-async, wait=10"], 10),
        (["respond-async", "wait=10"], 10),
        (["wait=10, wait=20"], 10),  # RFC 7240, section 2: the first counts
        (["wait=10; foo=bar"], 10),
        (['x="a, wait=5", wait=10'], 10),
        (['x="a\\", wait=5", wait=10'], 10),
        (["wait"], 0),
        (["wait="], 0),
        (["wait=soon"], 0),
        (["wait=-1"], 0),
        (["wait=1.5"], 0),
        (["wait=१०"], 0),
        (["await=10"], 0),
        (["wait=10 20"], 0),
        (['wait="10'], 0),
        (["wait=soon, wait=10"], 10),
        ([",,, wait=10,"], 10),
        (["x=" + '"' * 999, "wait=10"], 0),
        (["," * 2_000 + "wait=10"], 0),
    ],
)
def test_the_seconds_a_client_would_wait(headers, seconds):
    assert wait_of(headers, most_s=MOST) == seconds

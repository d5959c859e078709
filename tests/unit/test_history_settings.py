"""The marks between which a conversation's view moves."""

import pytest

from support_agent.container import Container
from support_agent.domain.errors import ConfigurationError
from support_agent.settings import Settings, load_settings


def test_the_low_mark_is_half_of_the_high_one_unless_it_is_set():
    half = Settings(_env_file=None, history={"high_water_tokens": 3_000})
    own = Settings(_env_file=None, history={"high_water_tokens": 3_000, "low_water_tokens": 1_000})

    assert (half.history.low, own.history.low) == (1_500, 1_000)


@pytest.mark.parametrize(
    ("values", "variable"),
    [
        ({"HIGH_WATER_TOKENS": "0"}, "HIGH_WATER_TOKENS"),
        ({"HIGH_WATER_TOKENS": "-5"}, "HIGH_WATER_TOKENS"),
        ({"HIGH_WATER_TOKENS": "99999999999"}, "HIGH_WATER_TOKENS"),
        ({"HIGH_WATER_TOKENS": "viele"}, "HIGH_WATER_TOKENS"),
        ({"LOW_WATER_TOKENS": "10"}, "LOW_WATER_TOKENS"),
        ({"LOW_WATER_TOKENS": "6000"}, "LOW_WATER_TOKENS"),
        ({"LOW_WATER_TOKENS": "5999"}, "LOW_WATER_TOKENS"),
        ({"HIGH_WATER_TOKENS": "1000", "LOW_WATER_TOKENS": "2000"}, "LOW_WATER_TOKENS"),
    ],
)
def test_marks_that_make_no_sense_are_refused_by_name(monkeypatch, tmp_path, values, variable):
    for name, value in values.items():
        monkeypatch.setenv(f"SUPPORT_AGENT_HISTORY__{name}", value)

    with pytest.raises(ConfigurationError, match=f"SUPPORT_AGENT_HISTORY__{variable}"):
        load_settings(folder=tmp_path)


def test_the_container_hands_the_marks_on():
    container = Container()
    container.settings.override(
        Settings(_env_file=None, history={"high_water_tokens": 900, "low_water_tokens": 300})
    )

    marks = container.marks()

    assert (marks.high, marks.low, marks.recap, marks.summary_chars) == (900, 300, 100, 200)

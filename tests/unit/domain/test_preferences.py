"""Preferences as a conversation holds them and as a model reads them."""

import pytest

from support_agent.domain.preferences import (
    VALUES,
    Known,
    PreferenceKind,
    known_of,
    spoken,
    told,
    written,
)

K = PreferenceKind
KNOWN = (
    Known(seq=0, kind=K.LANGUAGE, value="en"),
    Known(seq=0, kind=K.ADDRESS, value="chi"),
    Known(seq=7, kind=K.LANGUAGE, value="vi"),
)


def test_what_is_written_is_read_again():
    assert known_of(written(KNOWN)) == KNOWN
    assert written(KNOWN) == "0:language=en 0:address=chi 7:language=vi"


@pytest.mark.parametrize(
    "stored", [None, "", "0:colour=red", "0:language=fr", "x", "0:language", "::="]
)
def test_what_is_not_known_says_nothing(stored):
    assert known_of(stored) == ()


def test_what_is_not_known_hides_nothing_else():
    assert known_of("0:colour=red 0:address=chi") == (Known(seq=0, kind=K.ADDRESS, value="chi"),)


@pytest.mark.parametrize(
    ("through", "line"),
    [(0, "prefers: English, addressed as chị"), (7, "prefers: Vietnamese, addressed as chị")],
)
def test_a_model_is_told_the_newest_up_to_a_message(through, line):
    assert told(KNOWN, through_seq=through) == line


def test_without_any_a_model_is_told_nothing():
    assert told((), through_seq=9) == ""
    assert told(KNOWN[2:], through_seq=6) == ""


def test_the_language_that_was_asked_for_last_counts():
    assert spoken(KNOWN) == "vi"
    assert spoken(KNOWN[1:2]) is None


def test_every_kind_has_values_of_plain_letters():
    assert VALUES.keys() == set(PreferenceKind)
    for values in VALUES.values():
        for value in values:
            assert value.isascii()
            assert value.isalpha()

"""How far the estimate of tokens is off what a real tokenizer counts."""

import json
import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.tokens import estimate_tokens
from support_agent.resources import resource_dir

MEASURED = [
    json.loads(line)
    for line in (resource_dir() / "data" / "evals" / "tokens.jsonl").read_text().splitlines()
]
SHORT = 20  # tokens; below it one word more or less is a large part

# Language -> the least and the most of estimate / count.
EACH = {"vi": (0.80, 1.20), "en": (0.80, 1.20), "json": (0.80, 1.20), "vi-plain": (0.75, 1.20)}
TOGETHER = {"vi": (0.95, 1.10), "en": (0.95, 1.12), "json": (0.95, 1.05), "vi-plain": (0.80, 1.0)}


def of_language(language: str) -> list[tuple[int, int]]:
    """Estimate and count."""
    rows = [row for row in MEASURED if row["language"] == language]
    assert len(rows) >= 5
    return [(estimate_tokens(row["text"]), row["tokens"]) for row in rows]


@pytest.mark.parametrize("language", EACH)
def test_each_text_is_estimated_within_its_languages_bounds(language: str):
    least, most = EACH[language]
    for estimate, count in of_language(language):
        if count >= SHORT:
            assert least <= estimate / count <= most
        else:
            assert abs(estimate - count) <= 4


@pytest.mark.parametrize("language", TOGETHER)
def test_what_fills_a_request_is_estimated_more_closely(language: str):
    pairs = of_language(language)
    least, most = TOGETHER[language]

    assert least <= sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs) <= most


def test_long_texts_and_the_prompt_are_within_twelve_percent():
    for row in MEASURED:
        if row["language"] in {"long", "prompt"}:
            assert 0.88 <= estimate_tokens(row["text"]) / row["tokens"] <= 1.12


@given(st.text())
def test_a_text_costs_the_same_however_its_letters_are_composed(text: str):
    composed = unicodedata.normalize("NFC", text)

    assert estimate_tokens(unicodedata.normalize("NFD", text)) == estimate_tokens(composed)
    assert estimate_tokens(composed) <= 2 * len(composed.encode(errors="replace"))


def test_half_a_surrogate_pair_is_estimated_and_nothing_costs_nothing():
    assert estimate_tokens("\ud800") > 0
    assert estimate_tokens("") == 0


def test_the_measured_texts_cover_what_is_promised():
    counted = defaultdict(int)
    for row in MEASURED:
        counted[row["language"]] += 1

    assert {"vi", "en", "json", "vi-plain", "long", "prompt"} <= counted.keys()


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0301" * 4_000,
        "\u0316" * 4_000,
        "\u00ff" * 4_000,
        "\u0111" * 4_000,
        "\u0417\u0434\u0440\u0430\u0432" * 800,
        "\u05e9\u05dc\u05d5\u05dd" * 1_000,
        "\u200b" * 4_000,
        "\u8a02" * 4_000,
        "\U0001f600" * 4_000,
    ],
)
def test_no_script_is_for_nothing(text: str):
    assert estimate_tokens(text) >= len(text) // 2

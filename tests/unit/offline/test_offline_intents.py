"""The offline model reads labelled phrases, however they are typed."""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from support_agent.adapters.models.offline.folding import fold
from support_agent.adapters.models.offline.intents import Intent, understand

ROOT = Path(__file__).parents[3]
PHRASES = [
    json.loads(line)
    for line in (ROOT / "data/evals/intents.jsonl").read_text(encoding="utf-8").splitlines()
]
# The consent classifier is stricter with bare letters, on purpose; it has phrases of its own.
NOT_CONSENT = [p for p in PHRASES if p["intent"] not in {Intent.CONFIRM, Intent.DECLINE}]


def texts(phrases):
    return [pytest.param(p, id=p["text"]) for p in phrases]


def test_the_phrases_cover_every_intent_in_both_languages():
    by_intent = Counter(p["intent"] for p in PHRASES)
    by_language = Counter(p["lang"] for p in PHRASES)

    assert len(PHRASES) >= 120
    assert len({p["text"] for p in PHRASES}) == len(PHRASES)
    assert set(by_intent) == {intent.value for intent in Intent}
    assert min(by_intent.values()) >= 3
    assert set(by_language) == {"vi", "vi-bare", "en"}
    assert min(by_language.values()) >= 40


@pytest.mark.parametrize("phrase", texts(PHRASES))
def test_a_phrase_is_read_as_labelled(phrase):
    understood = understand(phrase["text"])

    assert understood.intent == phrase["intent"]
    assert list(understood.entities.order_ids) == phrase["order_ids"]
    assert understood.entities.amount == phrase["amount"]


@pytest.mark.parametrize("phrase", texts(PHRASES))
def test_decomposed_text_reads_the_same(phrase):
    decomposed = unicodedata.normalize("NFD", phrase["text"])

    assert understand(decomposed) == understand(phrase["text"])


@pytest.mark.parametrize("phrase", texts(NOT_CONSENT))
def test_capitals_read_the_same(phrase):
    assert understand(phrase["text"].upper()).intent == phrase["intent"]


@pytest.mark.parametrize("phrase", texts(NOT_CONSENT))
def test_bare_letters_read_the_same(phrase):
    bare = fold(unicodedata.normalize("NFC", phrase["text"]))

    assert understand(bare).intent == phrase["intent"]


@pytest.mark.parametrize("phrase", texts(NOT_CONSENT))
def test_spacing_does_not_matter(phrase):
    spread = "  " + phrase["text"].replace(" ", " \u00a0 ") + " \n"

    assert understand(spread).intent == phrase["intent"]


@pytest.mark.parametrize(
    "text",
    ["hoàntiền đơn A100", "hoàntiền đơnA100", "hoantien don A100", "HoànTiền  đơn#A100"],
)
def test_a_missing_space_does_not_matter(text):
    understood = understand(text)

    assert understood.intent is Intent.REFUND_REQUEST
    assert understood.entities.order_ids == ("A100",)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("đừng huỷ yêu cầu hoàn tiền", Intent.CANCEL_REFUND),
        ("don't cancel my refund", Intent.CANCEL_REFUND),
        ("mình không cần gặp nhân viên", Intent.PERSON),
        ("không cần biết chính sách, hoàn tiền đơn A100", Intent.POLICY),
        ("hoàn toàn hài lòng", Intent.REFUND_REQUEST),
    ],
)
def test_a_phrase_that_only_sounds_like_an_intent_is_not_it(text, intent):
    assert understand(text).intent is not intent

"""A message is answered in the language it is written in."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.language import detect

VIETNAMESE = [
    "Đơn A100 của tôi có được hoàn tiền không?",
    "don hang cua toi dau roi",
    "hoan tien A100",
    "toi can hoan tien cho don a100",
    "tôi muốn refund",
    "check order refund giúp mình",
    "xin chào",
    "Có",
    "đồng ý",
    "bao gio giao",
]
ENGLISH = [
    "Where is my order?",
    "Can I get a refund for A100?",
    "I'd like my money back",
    "refund A100",
    "cancel",
    "Is order A100 refundable",
    "Where is my order? Nguyễn Văn A",
]
NEITHER = ["A100", "ok", "", "   ", "👍", "250000", "yes", "hello", "café", "I100", "???"]


@pytest.mark.parametrize("text", VIETNAMESE)
def test_vietnamese_is_seen_with_and_without_diacritics(text):
    assert detect(text, "en") == "vi"


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_seen(text):
    assert detect(text, "vi") == "en"


@pytest.mark.parametrize("text", NEITHER)
def test_a_text_that_speaks_for_no_language_keeps_the_default(text):
    assert detect(text, "vi") == "vi"
    assert detect(text, "en") == "en"


def test_as_many_words_of_each_language_keep_the_default():
    mixed = "I want refund cho đơn A100"

    assert detect(mixed, "vi") == "vi"
    assert detect(mixed, "en") == "en"


@pytest.mark.parametrize("text", VIETNAMESE + ENGLISH)
def test_how_a_text_is_encoded_or_cased_does_not_matter(text):
    expected = "vi" if text in VIETNAMESE else "en"

    assert detect(unicodedata.normalize("NFD", text), "vi") == expected
    assert detect(text.upper(), "en") == expected


@given(st.text())
def test_any_text_gets_an_answer(text):
    assert detect(text, "vi") in {"vi", "en"}

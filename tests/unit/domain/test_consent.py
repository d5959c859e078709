"""Consent: only a message that is a yes and nothing else moves money."""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.consent import MAX_CHARS, Consent, classify

EVALS = Path(__file__).parents[3] / "data" / "evals" / "consent.jsonl"
ROWS = [json.loads(line) for line in EVALS.read_text(encoding="utf-8").splitlines()]
TEXTS = {label: [row["text"] for row in ROWS if row["label"] == label] for label in Consent}
YES = TEXTS[Consent.YES]
NOT_YES = TEXTS[Consent.NO] + TEXTS[Consent.UNCLEAR]

yes_phrases = st.sampled_from(YES)
INVISIBLE = [
    "\u200b",
    "\u200c",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\u00ad",
    "\u202e",
    "\u2066",
    "\ufe0f",
    "\u034f",
    "\u0336",
    "\x01",
    "\U000e0041",
]
LOOKALIKES = str.maketrans("aceiopyАОК", "асеіорухух")


def test_the_labelled_phrases_cover_each_label_and_each_way_of_writing():
    assert len(ROWS) >= 180
    assert len({row["text"] for row in ROWS}) == len(ROWS)
    assert all(set(row) == {"text", "label", "lang"} for row in ROWS)
    assert min(Counter(row["label"] for row in ROWS)[label] for label in Consent) >= 50
    languages = Counter(row["lang"] for row in ROWS)
    assert set(languages) == {"vi", "vi-ascii", "en", "mixed"}
    assert min(languages.values()) >= 25


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row["text"]))
def test_each_labelled_phrase_is_read_as_a_careful_person_reads_it(row):
    assert classify(row["text"]) == row["label"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ascii(row["text"]))
def test_encoding_case_and_white_space_around_do_not_matter(row):
    text = row["text"]

    assert classify(unicodedata.normalize("NFD", text)) == row["label"]
    assert classify(unicodedata.normalize("NFC", text)) == row["label"]
    assert classify(text.upper()) == row["label"]
    assert classify(unicodedata.normalize("NFD", text.upper())) == row["label"]
    assert classify(f"  \n\t{text} \n") == row["label"]


@given(yes=yes_phrases, mark=st.sampled_from(["?", " ?", "？", "؟", "?!", "!?", "\u037e"]))
def test_a_question_mark_takes_the_yes_away(yes, mark):
    assert classify(yes + mark) is Consent.UNCLEAR


@given(
    yes=yes_phrases,
    negation=st.sampled_from(
        [
            "không",
            "chưa",
            "khong",
            "chua",
            "don't",
            "don’t",
            "dont",
            "ko",
            "k",
            "đừng",
            "no",
            "not",
            "never",
            "thôi",
            "khoan",
        ]
    ),
    between=st.sampled_from([" ", ", ", ". ", "\n", "... ", " - "]),
)
def test_a_negation_before_the_yes_takes_it_away(yes, negation, between):
    assert classify(negation + between + yes) is not Consent.YES


@given(
    yes=yes_phrases,
    more=st.one_of(
        st.integers(0, 10**9).map(str),
        st.integers(1, 999).map(lambda n: f"{n}.000"),
        st.integers(1, 999).map(lambda n: f"{n}k"),
        st.from_regex(r"\A[A-Z]{1,3}-?[0-9]{1,6}\Z"),
        st.sampled_from(["10 triệu", "2tr5", "100%", "một nửa", "half", "0", "₫", "qt_01"]),
    ),
    between=st.sampled_from([" ", ", ", ".", "\n", ""]),
)
def test_an_amount_or_an_id_beside_the_yes_takes_it_away(yes, more, between):
    assert classify(yes + between + more) is not Consent.YES
    assert classify(more + between + yes) is not Consent.YES


@given(
    yes=yes_phrases,
    condition=st.sampled_from(
        [
            "nếu",
            "nhưng",
            "neu",
            "nhung",
            "if",
            "but",
            "thì",
            "unless",
            "chỉ khi",
            "trừ khi",
            "với điều kiện",
            "hay",
            "hoặc",
            "or",
        ]
    ),
)
def test_a_condition_takes_the_yes_away(yes, condition):
    assert classify(f"{yes} {condition}") is Consent.UNCLEAR
    assert classify(f"{condition} {yes}") is Consent.UNCLEAR


# "dạ" before a no is only polite.
@given(yes=yes_phrases.filter(lambda yes: yes != "dạ"), no=st.sampled_from(TEXTS[Consent.NO]))
def test_a_yes_and_a_no_together_are_unclear(yes, no):
    assert classify(f"{yes}\n{no}") is Consent.UNCLEAR
    assert classify(f"{no}\n{yes}") is Consent.UNCLEAR


@given(
    yes=yes_phrases, quotes=st.sampled_from(['""', "''", "“”", "‘’", "«»", "()", "[]", "``", "**"])
)
def test_a_quoted_yes_is_not_the_customers_own(yes, quotes):
    assert classify(quotes[0] + yes + quotes[1]) is Consent.UNCLEAR
    assert classify(f"> {yes}") is Consent.UNCLEAR


@given(
    yes=yes_phrases,
    teller=st.sampled_from(
        [
            "shop bảo",
            "shop nói",
            "you said",
            "bạn bảo",
            "vợ tôi",
            "i said",
            "tôi chưa nói",
            "he says",
            "giả sử",
        ]
    ),
)
def test_a_reported_yes_is_not_the_customers_own(yes, teller):
    assert classify(f"{teller} {yes}") is Consent.UNCLEAR


@given(
    text=st.sampled_from(NOT_YES),
    hidden=st.lists(
        st.tuples(st.integers(0, MAX_CHARS), st.sampled_from(INVISIBLE)), min_size=1, max_size=4
    ),
)
def test_invisible_characters_never_make_a_yes(text, hidden):
    for at, character in hidden:
        text = text[:at] + character + text[at:]
    assert classify(text) is not Consent.YES


@given(text=st.sampled_from(NOT_YES))
def test_letters_of_another_script_never_make_a_yes(text):
    assert classify(text.translate(LOOKALIKES)) is not Consent.YES


@pytest.mark.parametrize(
    "text",
    [
        "уes",
        "yеs",
        "оk",
        "đồng\u200bý",
        "y\u0336e\u0336s\u0336",
        "ｙｅｓ",
        "y\ufe0fes",
        "ye s",
        "yeſ",
    ],
)
def test_a_yes_in_disguise_is_unclear(text):
    assert classify(text) is Consent.UNCLEAR


@given(
    st.text(
        alphabet="aăâbcdđeêghiklmnoôơpqrstuưvxyàáảãạồờớợýỳừữịệ0123456789 ?,.!'\"\n-/", min_size=1
    )
)
def test_random_text_is_a_yes_only_if_it_is_plain_words(text):
    if classify(text) is Consent.YES:
        assert set(text).isdisjoint('0123456789?"-/')


# No Vietnamese word has these letters, and no English one is made of them alone.
unknown_words = st.text(alphabet="fjwzFJWZ", min_size=1, max_size=8)


@given(yes=yes_phrases, unknown=unknown_words, at=st.integers(0, 10))
def test_one_unknown_word_anywhere_takes_the_yes_away(yes, unknown, at):
    words = yes.split(" ")

    assert classify(" ".join([*words[:at], unknown, *words[at:]])) is Consent.UNCLEAR


@given(st.lists(unknown_words).map(" ".join))
def test_random_words_are_unclear(text):
    assert classify(text) is Consent.UNCLEAR


@given(st.text())
def test_any_text_gets_an_answer_and_encoding_does_not_change_it(text):
    composed = unicodedata.normalize("NFC", text)

    assert classify(composed) is classify(unicodedata.normalize("NFD", composed))


@pytest.mark.parametrize(
    "text",
    [
        "dung",  # đúng or đừng
        "dung roi",  # đúng rồi or dừng rồi
        "hoan di",  # hoàn đi or hoãn đi
        "hoan lai di",
        "cu hoan di",
        "dong y hoan",
        "ok a",  # ạ or à
        "duoc a",
        "ok ban",
        "um",
        "da hoan tien cho em",  # dạ, hoàn or đã hoàn
        "da co",
        "duoc thoi",
        "thoi",
        "khong",
        "chua",
    ],
)
def test_bare_letters_that_could_be_a_no_are_no_yes(text):
    assert classify(text) is not Consent.YES


@pytest.mark.parametrize(
    ("customer", "shop"),
    [
        ("em đồng ý", "shop đồng ý"),
        ("tôi xác nhận", "bạn xác nhận"),
        ("mình ok", "shop ok"),
        ("ok shop em đồng ý", "ok em shop đồng ý"),
    ],
)
def test_only_the_customers_own_yes_counts(customer, shop):
    assert classify(customer) is Consent.YES
    assert classify(shop) is Consent.UNCLEAR


@pytest.mark.parametrize(
    "thanks",
    [
        "cảm ơn",
        "Cảm ơn shop",
        "thanks",
        "cam on nhieu",
        "dạ cảm ơn",
        "ok, cảm ơn",
        "ok thanks",
        "không sao, cảm ơn",
    ],
)
def test_thanks_say_neither_yes_nor_no(thanks):
    assert classify(thanks) is Consent.UNCLEAR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cảm ơn shop đồng ý", Consent.UNCLEAR),  # thanks for agreeing
        ("cảm ơn shop, em đồng ý", Consent.YES),
        ("có hoàn tiền", Consent.UNCLEAR),  # is there a refund
        ("có, hoàn tiền đi", Consent.YES),
        ("được hoàn tiền ngay", Consent.UNCLEAR),  # gets refunded at once
        ("được, hoàn tiền ngay", Consent.YES),
        ("không đồng ý hoàn tiền", Consent.NO),
        ("không, đồng ý hoàn tiền", Consent.UNCLEAR),
        ("thôi hoàn đi", Consent.UNCLEAR),
        ("thôi đừng hoàn nữa", Consent.NO),
    ],
)
def test_where_a_phrase_stands_matters(text, expected):
    assert classify(text) is expected


@pytest.mark.parametrize(
    "text", ["", " ", "\n", ",", "!", "...", "👍", "👍🏽👍🏽", "❤️", "ạ", "shop ơi", "please", "em"]
)
def test_a_message_that_says_nothing_is_unclear(text):
    assert classify(text) is Consent.UNCLEAR


@pytest.mark.parametrize("text", ["okkkkk", "vângggg ạ", "yesssss", "okeeee nha"])
def test_a_letter_held_down_does_not_change_a_yes(text):
    assert classify(text) is Consent.YES


@pytest.mark.parametrize("text", ["kkkk", "kkkkkkk", "ok kkkk"])
def test_laughter_is_not_a_no(text):
    assert classify(text) is Consent.UNCLEAR


@pytest.mark.parametrize("text", ["ok...", "ok…", "vâng ...", "ok . . .", "ừ.\ufe0f.."])
def test_trailing_off_is_no_yes(text):
    assert classify(text) is Consent.UNCLEAR


def test_a_very_long_message_is_unclear_even_if_it_only_repeats_yes():
    assert classify("yes " * 100) is Consent.UNCLEAR
    assert classify("đồng ý" + " " * MAX_CHARS) is Consent.UNCLEAR
    assert classify("\u0315\u0300" * 100_000) is Consent.UNCLEAR

"""Foreign text: checked on the way in, masked for the model, made visible on the way out."""

import csv
import io
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.errors import InvalidInput
from support_agent.domain.text import Masker, clean_message, csv_cell, redact_cards, visible

NBSP = "\u00a0"


def mask_all(texts: Sequence[str]) -> list[str]:
    masker = Masker()
    return [masker.mask(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  Đơn A100 đâu?\n", "Đơn A100 đâu?"),
        ("một\nhai\tba", "một\nhai\tba"),
        ("một\r\nhai\rba", "một\nhai\nba"),
        (unicodedata.normalize("NFD", "hoàn tiền"), "hoàn tiền"),
        ("a\x1b[2J\x07b\x7f\x85c", "a[2Jbc"),
        ("đ\u200bồng ý", "đ\u200bồng ý"),  # evidence, and no yes
        ("👨\u200d👩", "👨\u200d👩"),
    ],
)
def test_a_message_is_composed_stripped_and_without_controls(text, kept):
    assert clean_message(text, max_chars=100) == kept


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\t", "\u00a0\u3000", "\u200b\u2060", "\x01", "\u3164", " \ufeff "]
)
def test_a_message_with_nothing_to_read_is_refused(text):
    with pytest.raises(InvalidInput, match="text is empty"):
        clean_message(text, max_chars=100)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a\0b", "NUL"), ("\0", "NUL"), ("a\ud800b", "surrogate"), ("\udfff", "surrogate")],
)
def test_a_message_that_is_no_text_is_refused(text, problem):
    with pytest.raises(InvalidInput, match=problem) as refused:
        clean_message(text, max_chars=100)
    assert refused.value.field == "text"


def test_the_limit_counts_composed_characters_and_is_named():
    fits = unicodedata.normalize("NFD", "ệ" * 10)

    assert len(clean_message(fits, max_chars=10)) == 10
    with pytest.raises(InvalidInput, match="longer than 9 characters"):
        clean_message(fits, max_chars=9)
    with pytest.raises(InvalidInput, match="longer than 10 characters"):
        clean_message("x" * 100_000, max_chars=10)


@given(st.text())
def test_cleaning_twice_changes_nothing(text):
    try:
        once = clean_message(text, max_chars=1_000)
    except InvalidInput:
        return
    assert clean_message(once, max_chars=1_000) == once
    assert all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cs"} for c in once)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("4111111111111111", "[card …1111]"),
        ("4111 1111 1111 1111", "[card …1111]"),
        ("4111-1111-1111-1111", "[card …1111]"),
        ("4111 - 1111 - 1111 - 1111", "[card …1111]"),
        (NBSP.join(["4111", "1111", "1111", "1111"]), "[card …1111]"),
        ("thẻ 5555555555554444, hạn 12/28", "thẻ [card …4444], hạn 12/28"),
        ("3782 822463 10005", "[card …0005]"),
        ("4222222222222", "[card …2222]"),
        ("6304000000000000000", "[card …0000]"),
        ("9704 0000 0000 0018", "[card …0018]"),
        ("2223003122003222", "[card …3222]"),
        ("thẻ4111111111111111ạ", "thẻ[card …1111]ạ"),
        ("2026-10-01 4111111111111111 123", "2026-10-01 [card …1111] 123"),
        ("4111 1111 1111 1111 0912345678", "[card …1111] 0912345678"),
        ("4111111111111111 5555555555554444", "[card …1111] [card …4444]"),
        ("4111111111111111\n5555555555554444", "[card …1111]\n[card …4444]"),
    ],
)
def test_a_card_number_keeps_only_its_last_four_digits(text, redacted):
    assert redact_cards(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # the check digit is wrong
        "A100",
        "250.000 ₫ và 10.000.000",
        "1.234.567.890.123.456",
        "0912345678, +84 912 345 678",
        "001099012345",
        "A4111111111111111",
        "rf_4111111111111111",
        "DH-4111111111111111",
        "250000 0912345678",
        "450000 0912345672",  # an amount and a phone number that pass the check together
        "345678901 4504",
        "411111111111",  # 12 digits
        "41111111111111110000",  # 20 digits
        "0000000000000000",
        "2026-10-13 08:30",
        "",
    ],
)
def test_what_is_no_card_number_stays(text):
    assert redact_cards(text) == text


def luhn_check_digit(body: str) -> str:
    doubled = [int(d) * (2 if i % 2 == 0 else 1) for i, d in enumerate(reversed(body))]
    return str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)


@given(
    body=st.from_regex(r"\A[3-6][0-9]{11,17}\Z"),
    separator=st.sampled_from(["", " ", "-", NBSP]),
)
def test_every_number_with_a_right_check_digit_is_redacted(body, separator):
    number = body + luhn_check_digit(body)
    written = separator.join(number[i : i + 4] for i in range(0, len(number), 4))

    assert redact_cards(f"thẻ {written} nhé") == f"thẻ [card …{number[-4:]}] nhé"


@given(st.text(alphabet="0123456789 -.a\u00a0"))
def test_redacting_twice_changes_nothing(text):
    once = redact_cards(text)

    assert redact_cards(once) == once


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("gọi 0912345678 nhé", "gọi [phone-1] nhé"),
        ("0912 345 678", "[phone-1]"),
        ("0912.345.678", "[phone-1]"),
        ("091-234-5678", "[phone-1]"),
        ("09 1234 5678", "[phone-1]"),
        ("0912 34 56 78", "[phone-1]"),
        ("+84912345678", "[phone-1]"),
        ("+84 912 345 678", "[phone-1]"),
        ("0084912345678", "[phone-1]"),
        ("028 3822 1234", "[phone-1]"),
        ("0912345678.", "[phone-1]."),
        ("0912345678 2 cái", "[phone-1] 2 cái"),
        ("CCCD 001099012345", "CCCD [id-1]"),
        ("001 099 012 345", "[id-1]"),
        ("stk 19034567890123", "stk [number-1]"),
        ("stk 1903 4567 8901 23", "stk [number-1]"),
        ("CMND 123456789", "CMND [number-1]"),
        ("mail an.nguyen+shop@example.com.vn nhé", "mail [email-1] nhé"),
    ],
)
def test_personal_numbers_and_addresses_become_placeholders(text, masked):
    assert mask_all([text]) == [masked]


@pytest.mark.parametrize(
    "text",
    [
        "Đơn A100, DH202610130001",
        "hoàn 10.000.000 đi",
        "250000",
        "250.000 ₫",
        "100000000đ",
        "100000000 đồng",
        "100000000 VND",
        "2tr5, 250k",
        "giao 2026-10-01 lúc 08:30",
        "03-10-2026 10:30",
        "03.10.2026 10.30",
        "qt_20261013083000",
        "[card …1234]",
        "@shop",
    ],
)
def test_amounts_dates_and_order_ids_stay_readable(text):
    assert mask_all([text]) == [text]


def test_the_same_value_has_the_same_placeholder_in_all_texts_however_it_is_written():
    texts = [
        "0912345678 và 0987654321",
        "a@example.com",
        "+84 912 345 678, A@EXAMPLE.com, b@example.com",
    ]

    assert mask_all(texts) == [
        "[phone-1] và [phone-2]",
        "[email-1]",
        "[phone-1], [email-1], [email-2]",
    ]


messages = st.lists(
    st.lists(
        st.sampled_from(
            [
                "0912345678",
                "0987654321",
                "+84912345678",
                "001099012345",
                "a@example.com",
                "123456789",
                "A100",
                "250.000",
                "xin chào",
            ]
        )
    ).map(" ".join)
)


@given(history=messages, more=messages)
def test_a_history_that_grows_keeps_its_masked_prefix(history, more):
    assert mask_all([*history, *more])[: len(history)] == mask_all(history)


@given(messages)
def test_masking_twice_changes_nothing(texts):
    once = mask_all(texts)

    assert mask_all(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x00\x7f\x85\x9b", r"\x00\x7f\x85\x9b"),
        ("a\nb\r\nc\td", r"a\nb\r\nc\td"),
        ("\u202egnp", r"\u202egnp"),
        ("\u2066\u2069\u200e\u200f\u061c", r"\u2066\u2069\u200e\u200f\u061c"),
        ("a\u200b\u200c\u200d\u2060\ufeffb", r"a\u200b\u200c\u200d\u2060\ufeffb"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\U000e0041\U000e007f", r"\U000e0041\U000e007f"),
        ("\ud800", r"\ud800"),
        ("\u00ad\u034f\u3164\u2800", r"\xad\u034f\u3164\u2800"),
        ("\ue000\uffff", r"\ue000\uffff"),
        ("a\ufe0fb", r"a\ufe0fb"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("x\U000e0100", r"x\U000e0100"),
        ("\u0301a", r"\u0301a"),  # would sit on what is printed before it
        ("a\u0316\u0317\u0318\u0319", "a\u0316\u0317\\u0318\\u0319"),
    ],
)
def test_what_could_mislead_a_reader_is_shown_as_an_escape(text, shown):
    assert visible(text, 100) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Đơn A100 của tôi có được hoàn tiền không?",
        "ĐẶNG THỊ NGỌC ÁNH, ưỡn ẹo, quyển vở, khuỷu",
        f"250.000{NBSP}₫",
        "ok 👍🏽 ❤️ 😊 🇻🇳 ©️",
        "[bold]không phải thẻ[/bold] <b> & \"'",
        "日本語 العربية Ελληνικά",
    ],
)
def test_vietnamese_emoji_and_plain_text_pass(text):
    assert visible(text, 100) == text
    assert visible(unicodedata.normalize("NFD", text), 100) == unicodedata.normalize("NFC", text)


def test_the_lines_of_a_body_may_be_kept():
    body = "một\r\nhai\nba\rbốn\tnăm\u2028sáu"

    assert visible(body, 100, keep_newlines=True) == "một\nhai\nba\\rbốn\\tnăm\\u2028sáu"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("đồng ý", 6, "đồng ý"),
        ("đồng ý", 5, "đồng…"),
        ("đồng ý", 1, "…"),
        ("đồng ý", 0, ""),
        ("", 0, ""),
        ("ab\x1bcd", 6, r"ab…"),  # an escape is never cut in two
        ("ab\x1bcd", 8, r"ab\x1bcd"),
        ("\x1b", 3, "…"),
    ],
)
def test_what_is_too_long_ends_in_an_ellipsis(text, limit, shown):
    assert visible(text, limit) == shown


def test_a_long_text_costs_no_more_than_its_limit():
    assert visible("\u0315\u0300" * 1_000_000, 20).endswith("…")
    assert visible(unicodedata.normalize("NFD", "ệ") * 30, 30) == "ệ" * 30


SPECIAL = "\x00\x1b\x7f\x85\n\r\t\u061c\u200b\u200f\u202e\u2028\u2066\ufe0f\ufeff\ud800\U000e0041e\u0302\u0323đệ👍❤ "
any_text = st.one_of(
    st.text(),
    st.text(alphabet=st.characters()),  # surrogates too
    st.text(alphabet=SPECIAL),
)


@given(text=any_text, limit=st.integers(0, 60), keep_newlines=st.booleans())
def test_no_text_gets_a_control_character_out(text, limit, keep_newlines):
    shown = visible(text, limit, keep_newlines=keep_newlines)

    assert len(shown) <= limit
    shown.encode("utf-8")
    for character in shown.replace("\n", "") if keep_newlines else shown:
        category = unicodedata.category(character)
        assert category not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}, ascii(character)
    assert len(shown.splitlines()) <= 1 or keep_newlines


@given(any_text)
def test_what_is_visible_stays_as_it_is(text):
    once = visible(text, 10_000)

    assert visible(once, 10_000) == once


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", f"{NBSP}=1", "＝1"]
)
def test_a_cell_that_a_spreadsheet_would_run_gets_a_quote(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "A100", "250.000 ₫", "a=b", "đồng ý", "'=1"])
def test_other_cells_stay(text):
    assert csv_cell(text) == text


@given(any_text)
def test_no_cell_of_a_written_file_starts_a_formula(text):
    written = io.StringIO()
    csv.writer(written).writerow(["x", csv_cell(visible(text, 80))])

    cell = next(csv.reader(io.StringIO(written.getvalue())))[1]
    assert not cell.strip().startswith(("=", "+", "-", "@", "\t", "\r"))

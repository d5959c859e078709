"""Sentences about money say what is true of a state and nothing that is not."""

from zoneinfo import ZoneInfo

import pytest

from support_agent.domain.orders import PaymentMethod
from support_agent.domain.refunds import OPEN, RefundRequest, RequestStatus
from support_agent.domain.wording import (
    group_sentence,
    late_failure_sentence,
    offer_sentence,
    request_sentence,
)
from support_agent.services.notices import TOLD
from support_agent.testing.builders import make_quote, make_request

S = RequestStatus
ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
PAID = {"vi": "đã hoàn 250.000", "en": "has been refunded"}
FAILED = {"vi": ("thất bại", "không thực hiện được"), "en": ("failed", "could not")}


@pytest.mark.parametrize("language", ["vi", "en"])
@pytest.mark.parametrize("status", list(S))
def test_amount_order_and_id_are_named_and_only_the_truth_is_told(status, language):
    text = request_sentence(make_request("req_1", status=status), language, books_only=False)

    assert "250.000\u00a0₫" in text
    assert "A1" in text
    assert "req_1" in text
    assert (PAID[language] in text.lower()) is (status is S.REFUNDED)
    assert any(word in text.lower() for word in FAILED[language]) is (status is S.FAILED)


@pytest.mark.parametrize(("language", "word"), [("vi", "chưa xác định"), ("en", "not known yet")])
def test_doubt_is_called_doubt(language, word):
    text = request_sentence(make_request("r", status=S.IN_DOUBT), language, books_only=False)

    assert word in text


@pytest.mark.parametrize(("language", "word"), [("vi", "ghi sổ"), ("en", "recorded")])
def test_a_ledger_that_only_keeps_books_says_recorded_not_refunded(language, word):
    text = request_sentence(make_request("r", status=S.REFUNDED), language, books_only=True)

    assert word in text
    assert PAID[language] not in text.lower()


@pytest.mark.parametrize("language", ["vi", "en"])
@pytest.mark.parametrize("level", [0, 1])
def test_a_quote_says_how_much_until_when_and_who_decides(language, level):
    text = offer_sentence((make_quote("quo_1", required_level=level),), language, ZONE)
    person = {"vi": "cần nhân viên duyệt", "en": "A person has to approve it"}[language]

    assert "quo_1" in text
    assert "250.000\u00a0₫" in text
    assert "10:30 13/10/2026" in text
    assert (person in text) is (level > 0)


BY_HAND = "bank:dst_1:0f"
SPLIT = (
    ("quo_1", PaymentMethod.CARD, 400_000, "ledger:shop:p1"),
    ("quo_2", PaymentMethod.BANK_TRANSFER, 200_000, BY_HAND),
)
ACCOUNTS = {BY_HAND: "VCB ••••6789"}


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("vi", "thẻ đã thanh toán (400.000\u00a0₫) và tài khoản VCB ••••6789 (200.000\u00a0₫)"),
        ("en", "the card that paid (400.000\u00a0₫) and account VCB ••••6789 (200.000\u00a0₫)"),
    ],
)
def test_an_offer_over_several_payments_is_one_sum_and_its_parts(language, parts):
    quotes = [
        make_quote(id_, method=method, amount_minor=amount, destination=to)
        for id_, method, amount, to in SPLIT
    ]

    text = offer_sentence(quotes, language, ZONE, ACCOUNTS)

    assert "600.000\u00a0₫" in text
    assert parts in text
    assert "quo_1" in text
    assert "quo_2" not in text


@pytest.mark.parametrize(("language", "word"), [("vi", "ưu đãi"), ("en", "promotion")])
@pytest.mark.parametrize("deducted", [0, 15_000])
def test_what_a_lost_promotion_took_off_is_said_once(language, word, deducted):
    quotes = [make_quote("quo_1", deduction_minor=deducted), make_quote("quo_2")]

    text = offer_sentence(quotes, language, ZONE)

    assert text.count(word) == text.count("15.000\u00a0₫") == (1 if deducted else 0)


def group(*statuses: RequestStatus) -> list[RefundRequest]:
    return [
        make_request(f"req_{number}", status=status, amount_minor=amount)
        for number, (status, amount) in enumerate(zip(statuses, (400_000, 200_000), strict=True))
    ]


@pytest.mark.parametrize("language", ["vi", "en"])
@pytest.mark.parametrize("status", list(S))
def test_a_group_that_stands_alike_is_told_as_one(language, status):
    text = group_sentence(group(status, status), language, books_only=False)

    assert "600.000\u00a0₫" in text
    assert ("400.000" in text) is (status in OPEN | {S.REFUNDED})
    assert "req_0" in text
    assert "req_1" not in text


@pytest.mark.parametrize("language", ["vi", "en"])
def test_a_group_that_does_not_is_told_each_for_itself(language):
    text = group_sentence(group(S.REFUNDED, S.IN_DOUBT), language, books_only=False)

    assert "600.000" not in text
    for told in ("400.000\u00a0₫", "200.000\u00a0₫", "req_0", "req_1"):
        assert told in text


@pytest.mark.parametrize(
    ("language", "word"),
    [("vi", "sau đó ngân hàng hoặc cổng thanh toán báo lỗi"), ("en", "afterwards")],
)
def test_a_late_failure_takes_back_what_was_said(language, word):
    request = make_request("req_1", status=S.FAILED)

    text = late_failure_sentence(request, language)

    assert word in text
    assert "250.000\u00a0₫" in text
    assert text != request_sentence(request, language, books_only=False)


def test_what_a_person_transferred_was_paid_whatever_the_books_of_the_gateway_are():
    request = make_request("req_1", status=S.REFUNDED, method=PaymentMethod.COD)

    assert "Đã hoàn" in request_sentence(request, "vi", books_only=True)


def test_the_customer_hears_of_every_end_and_every_doubt():
    assert set(S) - {S.PENDING_APPROVAL} == TOLD

"""Sentences about money say what is true of a state and nothing that is not."""

from zoneinfo import ZoneInfo

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.domain.wording import quote_sentence, request_sentence
from support_agent.services.refunds import TOLD
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
    text = quote_sentence(make_quote("quo_1", required_level=level), language, ZONE)
    person = {"vi": "cần nhân viên duyệt", "en": "A person has to approve it"}[language]

    assert "quo_1" in text
    assert "250.000\u00a0₫" in text
    assert "10:30 13/10/2026" in text
    assert (person in text) is (level > 0)


def test_the_customer_hears_of_every_end_and_every_doubt():
    silent = {S.PENDING_APPROVAL, S.PAYING}

    assert set(S) - silent == TOLD

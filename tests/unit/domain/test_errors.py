"""Errors speak the customer's language and carry their data."""

from datetime import datetime

import pytest

from support_agent.domain import errors
from support_agent.domain.reasons import SENTENCES, Reason


@pytest.mark.parametrize(
    ("error", "vi", "en"),
    [
        (errors.OrderNotFound("A1"), "Không có đơn hàng 'A1'.", "there is no order 'A1'."),
        (errors.QuoteNotFound("q"), "Không có báo giá 'q'.", "there is no quote 'q'."),
        (
            errors.RequestNotFound("r"),
            "Không có yêu cầu hoàn tiền 'r'.",
            "there is no refund request 'r'.",
        ),
    ],
)
def test_what_is_missing_is_said_in_either_language(error, vi, en):
    assert error.sentence("vi") == vi
    assert error.sentence("en") == en


def test_every_reason_has_a_sentence_in_both_languages():
    assert set(SENTENCES) == set(Reason)
    for vi, en in SENTENCES.values():
        assert vi.strip()
        assert en.strip()
        assert vi != en


def test_a_conflict_says_who_decided_and_when():
    at = datetime.fromisoformat("2026-10-13T09:00:00+07:00")
    error = errors.AlreadyDecided("req_1", status="REJECTED", by="lan", at=at)

    assert "REJECTED" in str(error)
    assert "by lan" in str(error)
    assert "2026-10-13T09:00:00+07:00" in str(error)

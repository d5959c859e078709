"""Refusals in the reader's language, and the field of the policy behind each reason."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from support_agent.domain.clauses import clause_of, level_clauses
from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    DecisionRefused,
    InsufficientAuthority,
    NotProved,
    RecordChanged,
    RequestExpired,
    RequestNotFound,
    SecondPersonNeeded,
    SelfApproval,
    StaleDecision,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.refusals import refusal_sentence, state_name
from tests.kit import sample

VIETNAM = ZoneInfo("Asia/Ho_Chi_Minh")
AT = datetime(2026, 10, 13, 2, 0, tzinfo=UTC)
REFUSALS = [
    (
        AlreadyDecided("r", status="REFUNDED", by="lan", at=AT),
        "Yêu cầu này đã hoàn tiền: được quyết định bởi lan lúc 2026-10-13 09:00.",
        "request 'r' is REFUNDED: decided by lan at 2026-10-13 09:00",
    ),
    (
        AlreadyDecided("r", status="CANCELLED", by=None, at=None),
        "Yêu cầu này đã huỷ.",
        "request 'r' is CANCELLED",
    ),
    (
        SecondPersonNeeded("r", status="PENDING_APPROVAL", by="huong", at=AT),
        (
            "Bạn đã duyệt yêu cầu này với tên huong lúc 2026-10-13 09:00; "
            "cần một người khác có đủ thẩm quyền quyết định."
        ),
        (
            "this person approved request 'r' already, as huong at 2026-10-13 09:00; "
            "another person with enough authority has to decide"
        ),
    ),
    (
        RequestExpired("r", at=AT),
        "Yêu cầu đã hết hạn lúc 2026-10-13 09:00; khách phải yêu cầu lại.",
        "request 'r' expired at 2026-10-13 09:00; the customer has to ask again",
    ),
    (
        StaleDecision("r", expected=1, actual=2),
        "Yêu cầu đã đổi sang phiên bản 2 (bạn đã xem phiên bản 1); hãy xem lại.",
        "request 'r' is at version 2, not 1: look at it again",
    ),
    (
        InsufficientAuthority("too low", limit=1, others=("huong", "tuan")),
        "Cấp duyệt hoặc hạn mức của bạn không đủ; người duyệt được: huong, tuan.",
        "too low",
    ),
    (
        InsufficientAuthority("too low", limit=1, others=()),
        "Cấp duyệt hoặc hạn mức của bạn không đủ; chưa có ai đủ thẩm quyền.",
        "too low",
    ),
    (
        DecisionRefused(Reason.NO_CONVERSATION),
        "Yêu cầu này không có cuộc trò chuyện nào để hỏi khách.",
        "This request has no conversation in which the customer could be asked.",
    ),
    (RequestNotFound("x"), "Không có yêu cầu hoàn tiền 'x'.", "there is no refund request 'x'."),
]


@pytest.mark.parametrize(("error", "vietnamese", "english"), REFUSALS)
def test_a_refusal_says_why_in_both_languages(error, vietnamese: str, english: str):
    assert refusal_sentence(error, "vi", VIETNAM) == vietnamese
    assert refusal_sentence(error, "en", VIETNAM) == english


@pytest.mark.parametrize(
    "error",
    [SelfApproval("lan"), ApproverDisabled("dung"), NotProved("no"), RecordChanged("x", "y")],
)
def test_a_refusal_without_facts_has_words_of_its_own_in_vietnamese(error):
    assert refusal_sentence(error, "vi", VIETNAM) != refusal_sentence(error, "en", VIETNAM)


def test_every_state_has_a_name_of_its_own():
    for language in ("vi", "en"):
        names = [state_name(status, language) for status in RequestStatus]
        assert len(set(names)) == len(RequestStatus)


@pytest.mark.parametrize(
    ("reason", "clause"),
    [
        (Reason.WITHIN_WINDOW, "window_days: 30"),
        (Reason.WINDOW_EXPIRED, "window_days: 30"),
        (Reason.NON_RETURNABLE, "excluded_categories"),
        (Reason.ABOVE_AUTO_LIMIT, "limits.VND.auto: 200000"),
        (Reason.CAP_CUSTOMER_DAY, "limits.VND.auto_per_customer_day: 400000"),
        (Reason.ABOVE_POLICY_LIMIT, "limits.VND.levels: [2000000, 20000000]"),
        (Reason.DISPUTED, None),
    ],
)
def test_a_reason_names_the_field_of_the_policy_that_gave_it(reason, clause):
    assert clause_of(reason, sample().policy, "VND") == clause


def test_a_currency_without_limits_names_what_is_missing():
    policy = sample().policy

    assert clause_of(Reason.ABOVE_AUTO_LIMIT, policy, "USD") == "limits.USD"
    assert level_clauses(policy, "USD", approvals=1) == ("limits.USD",)


def test_four_eyes_name_their_threshold():
    assert level_clauses(sample().policy, "VND", approvals=2) == (
        "limits.VND.levels: [2000000, 20000000]",
        "limits.VND.four_eyes_from: 10000000",
    )

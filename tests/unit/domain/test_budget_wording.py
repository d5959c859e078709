"""What a customer is told when a budget is used up."""

import re

import pytest

from support_agent.domain.budget_wording import budget_sentence
from support_agent.domain.usage import Scope

DAYS = (Scope.CUSTOMER, Scope.CHANNEL, Scope.INSTALLATION)


@pytest.mark.parametrize("scope", list(Scope))
def test_each_budget_is_told_in_both_languages_without_figures(scope: Scope):
    vi, en = budget_sentence(scope, "vi"), budget_sentence(scope, "en")

    assert vi.startswith("Xin lỗi, ")
    assert en.startswith("Sorry, ")
    assert not re.search(r"[0-9]|token", vi + en)
    assert "Nhân viên của cửa hàng đã được báo" in vi
    assert "Our staff has been told" in en


def test_each_is_told_apart_and_only_what_is_counted_by_the_day_comes_back_tomorrow():
    for language, tomorrow in (("vi", "ngày mai"), ("en", "tomorrow")):
        told = [budget_sentence(scope, language) for scope in Scope]
        assert len(set(told)) == len(told)
        back = [scope for scope in Scope if tomorrow in budget_sentence(scope, language)]
        assert back == [*DAYS]

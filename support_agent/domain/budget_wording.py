"""What a customer is told when a budget is used up: which one it is, and what to do about it."""

from collections.abc import Mapping
from types import MappingProxyType

from support_agent.domain.reasons import Language
from support_agent.domain.usage import Scope

# True only where a task for staff was made: say them nowhere else.
BUDGET_SENTENCES: Mapping[Scope, tuple[str, str]] = MappingProxyType(
    {
        Scope.CONVERSATION: (
            (
                "Xin lỗi, cuộc trò chuyện này đã quá dài nên trợ lý tự động không trả lời tiếp "
                "ở đây được. Nhân viên của cửa hàng đã được báo; bạn cũng có thể bắt đầu một "
                "cuộc trò chuyện mới."
            ),
            (
                "Sorry, this conversation has become too long for the automatic assistant to go "
                "on here. Our staff has been told; you can also start a new conversation."
            ),
        ),
        Scope.CUSTOMER: (
            (
                "Xin lỗi, hôm nay bạn đã dùng hết phần mà trợ lý tự động dành cho một khách "
                "hàng trong ngày. Nhân viên của cửa hàng đã được báo; bạn vui lòng nhắn lại vào "
                "ngày mai."
            ),
            (
                "Sorry, you have used up what the automatic assistant can do for one customer in "
                "a day. Our staff has been told; please write again tomorrow."
            ),
        ),
        Scope.CHANNEL: (
            (
                "Xin lỗi, hôm nay trợ lý tự động đã trả lời hết mức cho phép trên kênh này. "
                "Nhân viên của cửa hàng đã được báo; bạn vui lòng nhắn lại vào ngày mai."
            ),
            (
                "Sorry, the automatic assistant has answered as much as it may on this channel "
                "today. Our staff has been told; please write again tomorrow."
            ),
        ),
        Scope.INSTALLATION: (
            (
                "Xin lỗi, hôm nay trợ lý tự động của cửa hàng đã trả lời hết mức cho phép. "
                "Nhân viên của cửa hàng đã được báo; bạn vui lòng nhắn lại vào ngày mai."
            ),
            (
                "Sorry, the shop's automatic assistant has answered as much as it may today. "
                "Our staff has been told; please write again tomorrow."
            ),
        ),
    }
)
NOTHING_LOST = (
    "Những yêu cầu bạn đã gửi vẫn được giữ nguyên.",
    "What you have already requested stays as it is.",
)


def budget_sentence(scope: Scope, language: Language) -> str:
    """Which budget it is, in words, and what the customer can do."""
    index = 0 if language == "vi" else 1
    return f"{BUDGET_SENTENCES[scope][index]} {NOTHING_LOST[index]}"

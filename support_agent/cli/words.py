"""Labels of the approver's desk in Vietnamese and English."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import typer

from support_agent.domain.conversation import Author
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Language
from support_agent.domain.wording import pick

Lang = Annotated[
    Language | None,
    typer.Option("--lang", help="The reader's language; the shop's by default.", metavar="vi|en"),
]
LABELS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "request": ("yêu cầu", "request"),
        "status": ("trạng thái", "status"),
        "due": ("hạn xử lý", "due"),
        "asked": ("đã hỏi khách", "asked"),
        "customer": ("khách hàng", "customer"),
        "filed": ("lập lúc", "filed"),
        "by": ("người lập", "by"),
        "amount": ("số tiền", "amount"),
        "reduced": ("đã giảm", "reduced"),
        "group": ("cùng nhóm", "group"),
        "order": ("đơn hàng", "order"),
        "verdict": ("kết luận", "verdict"),
        "clause": ("điều khoản", "clause"),
        "window": ("thời hạn", "window"),
        "balance": ("số dư", "balance"),
        "why": ("lý do duyệt", "why a person"),
        "needed": ("cần", "needed"),
        "deciders": ("ai duyệt được", "may decide"),
        "account": ("chủ tài khoản", "account holder"),
        "item": ("mặt hàng", "item"),
        "note": ("ghi chú đơn", "order note"),
    }
)
COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "id": ("MÃ", "ID"),
        "order": ("ĐƠN", "ORDER"),
        "customer": ("KHÁCH", "CUSTOMER"),
        "customers": ("SỐ KHÁCH", "CUSTOMERS"),
        "amount": ("SỐ TIỀN", "AMOUNT"),
        "level": ("CẤP", "LEVEL"),
        "age": ("CHỜ", "AGE"),
        "due": ("HẠN", "DUE"),
        "state": ("GHI CHÚ", "STATE"),
        "version": ("BẢN", "VERSION"),
        "approver": ("NGƯỜI DUYỆT", "APPROVER"),
        "destination": ("NƠI NHẬN", "DESTINATION"),
        "decided": ("QUYẾT ĐỊNH", "DECIDED"),
        "approved": ("DUYỆT", "APPROVED"),
        "paid": ("ĐÃ TRẢ", "PAID"),
        "share": ("TỶ LỆ", "SHARE"),
        "approved_sum": ("TIỀN DUYỆT", "APPROVED SUM"),
        "paid_sum": ("TIỀN ĐÃ TRẢ", "PAID SUM"),
    }
)
AUTHORS: Mapping[Author, tuple[str, str]] = MappingProxyType(
    {
        Author.CUSTOMER: ("khách", "customer"),
        Author.AGENT: ("trợ lý", "agent"),
        Author.NOTICE: ("thông báo", "notice"),
        Author.STAFF: ("nhân viên", "staff"),
    }
)
VERDICTS: Mapping[Verdict, tuple[str, str]] = MappingProxyType(
    {
        Verdict.ELIGIBLE: ("đủ điều kiện", "ELIGIBLE"),
        Verdict.PARTIAL: ("đủ điều kiện một phần", "PARTIAL"),
        Verdict.INELIGIBLE: ("không đủ điều kiện", "INELIGIBLE"),
        Verdict.NEEDS_REVIEW: ("cần người xem xét", "NEEDS_REVIEW"),
    }
)
CHOICES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "approve": ("duyệt", "approve"),
        "reject": ("từ chối", "reject"),
        "auto": ("tự động", "auto"),
        "reduce": ("giảm", "reduce"),
        "paid": ("xác nhận đã trả", "paid"),
        "not_paid": ("xác nhận chưa trả", "not_paid"),
    }
)


def label(name: str, language: Language) -> str:
    """The label of a fact."""
    return pick(LABELS[name], language)


def column(name: str, language: Language) -> str:
    """The title of a table's column."""
    return pick(COLUMNS[name], language)

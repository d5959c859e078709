"""Why a decision was refused, in the reader's language: who decided, who may, until when it was."""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from types import MappingProxyType

from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    InsufficientAuthority,
    NotFound,
    NotProved,
    RecordChanged,
    Refused,
    RequestExpired,
    SecondPersonNeeded,
    SelfApproval,
    StaleDecision,
    SupportAgentError,
)
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import RequestStatus

# A state as people say it. What has no name in English is its code in small letters.
STATES_VI: Mapping[RequestStatus, str] = MappingProxyType(
    {
        RequestStatus.PENDING_APPROVAL: "chờ duyệt",
        RequestStatus.APPROVED: "đã duyệt",
        RequestStatus.PAYING: "đang chi trả",
        RequestStatus.PROVIDER_PENDING: "cổng thanh toán đang xử lý",
        RequestStatus.IN_DOUBT: "chưa rõ kết quả",
        RequestStatus.MANUAL_REVIEW: "nhân viên đang xử lý",
        RequestStatus.REFUNDED: "đã hoàn tiền",
        RequestStatus.FAILED: "hoàn không thành công",
        RequestStatus.REJECTED: "đã từ chối",
        RequestStatus.CANCELLED: "đã huỷ",
        RequestStatus.EXPIRED: "đã hết hạn",
    }
)
# Refusals that need no facts.
VIETNAMESE: Mapping[type[SupportAgentError], str] = MappingProxyType(
    {
        SelfApproval: (
            "Bạn là người yêu cầu, khách hàng hoặc người nhập yêu cầu này; cần người khác duyệt."
        ),
        ApproverDisabled: "Tài khoản duyệt này đã bị khoá; cần người khác duyệt.",
        NotProved: "Mã xác thực của người duyệt thiếu hoặc sai.",
        RecordChanged: (
            "Dữ liệu đã bị sửa ngoài chương trình nên không có giá trị; hãy báo quản trị viên."
        ),
    }
)


def state_name(status: RequestStatus, language: Language) -> str:
    """A request's state in words."""
    return STATES_VI[status] if language == "vi" else status.lower().replace("_", " ")


def refusal_sentence(error: SupportAgentError, language: Language, zone: tzinfo) -> str:
    """What a decision was refused with; the English of an error that has no Vietnamese."""
    if isinstance(error, NotFound | Refused):
        return error.sentence(language)
    return _vietnamese(error, zone) if language == "vi" else _english(error, zone)


def _english(error: SupportAgentError, zone: tzinfo) -> str:
    told = str(error)
    at = getattr(error, "at", None)
    if isinstance(at, datetime):
        told = told.replace(at.isoformat(timespec="seconds"), _local(at, zone))
    return told


def _vietnamese(error: SupportAgentError, zone: tzinfo) -> str:
    match error:
        case SecondPersonNeeded(by=by, at=datetime() as at):
            told = (
                f"Bạn đã duyệt yêu cầu này với tên {by} lúc {_local(at, zone)}; "
                "cần một người khác có đủ thẩm quyền quyết định."
            )
        case AlreadyDecided():
            who = f" bởi {error.by}" if error.by else ""
            when = f" lúc {_local(error.at, zone)}" if error.at else ""
            decided = f": được quyết định{who}{when}" if who or when else ""
            told = f"Yêu cầu này {_state_vi(error.status)}{decided}."
        case RequestExpired():
            told = f"Yêu cầu đã hết hạn lúc {_local(error.at, zone)}; khách phải yêu cầu lại."
        case StaleDecision():
            told = (
                f"Yêu cầu đã đổi sang phiên bản {error.actual} (bạn đã xem phiên bản "
                f"{error.expected}); hãy xem lại."
            )
        case InsufficientAuthority():
            others = ", ".join(error.others or ())
            who = f"người duyệt được: {others}" if others else "chưa có ai đủ thẩm quyền"
            told = f"Cấp duyệt hoặc hạn mức của bạn không đủ; {who}."
        case _:
            kinds = (kind for kind in VIETNAMESE if isinstance(error, kind))
            told = next((VIETNAMESE[kind] for kind in kinds), None) or _english(error, zone)
    return told


def _state_vi(status: str) -> str:
    known = status in RequestStatus.__members__
    return STATES_VI[RequestStatus(status)] if known else "đã có quyết định"


def _local(at: datetime, zone: tzinfo) -> str:
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M")

"""Sentences about money, rendered by code in Vietnamese and English; no model writes these."""

from collections.abc import Mapping
from datetime import tzinfo

from support_agent.domain.money import format_money
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Language, Reason, sentence
from support_agent.domain.refunds import Quote, RefundRequest, RequestStatus
from support_agent.domain.runs import StopReason

METHODS: Mapping[PaymentMethod, tuple[str, str]] = {
    PaymentMethod.CARD: ("thẻ đã thanh toán", "the card that paid"),
    PaymentMethod.WALLET: ("ví điện tử đã thanh toán", "the wallet that paid"),
    PaymentMethod.GIFT_CARD: ("thẻ quà tặng đã dùng", "the gift card that paid"),
    PaymentMethod.COD: ("tài khoản bạn cung cấp cho nhân viên", "an account you give our staff"),
    PaymentMethod.BANK_TRANSFER: (
        "tài khoản bạn cung cấp cho nhân viên",
        "an account you give our staff",
    ),
}

# {amount} and {order} are the request's own; {id} is what the customer can ask about.
STATUS_SENTENCES: Mapping[RequestStatus, tuple[str, str]] = {
    RequestStatus.PENDING_APPROVAL: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} đang chờ nhân viên duyệt.",
        "Request {id} to refund {amount} for order {order} is waiting for a person to decide.",
    ),
    RequestStatus.APPROVED: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} đã được duyệt và sẽ được chi trả.",
        "Request {id} to refund {amount} for order {order} is approved and will be paid.",
    ),
    RequestStatus.PAYING: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} đang được chi trả.",
        "Request {id} to refund {amount} for order {order} is being paid.",
    ),
    RequestStatus.PROVIDER_PENDING: (
        "Khoản hoàn {amount} cho đơn {order} ({id}) đang được cổng thanh toán xử lý.",
        "The refund of {amount} for order {order} ({id}) is being processed by the provider.",
    ),
    RequestStatus.IN_DOUBT: (
        (
            "Khoản hoàn {amount} cho đơn {order} ({id}) chưa xác định được kết quả; "
            "chúng tôi đang kiểm tra."
        ),
        (
            "The outcome of the refund of {amount} for order {order} ({id}) is not known yet; "
            "we are checking."
        ),
    ),
    RequestStatus.MANUAL_REVIEW: (
        "Khoản hoàn {amount} cho đơn {order} ({id}) đang được nhân viên xử lý bằng tay.",
        "The refund of {amount} for order {order} ({id}) is being handled by a person.",
    ),
    RequestStatus.REFUNDED: (
        "Đã hoàn {amount} cho đơn {order} về {destination} ({id}).",
        "{amount} has been refunded for order {order} to {destination} ({id}).",
    ),
    RequestStatus.FAILED: (
        (
            "Khoản hoàn {amount} cho đơn {order} ({id}) không thực hiện được; "
            "nhân viên sẽ liên hệ với bạn."
        ),
        (
            "The refund of {amount} for order {order} ({id}) could not be made; "
            "our staff will contact you."
        ),
    ),
    RequestStatus.REJECTED: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} không được duyệt.",
        "Request {id} to refund {amount} for order {order} was not approved.",
    ),
    RequestStatus.CANCELLED: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} đã được huỷ.",
        "Request {id} to refund {amount} for order {order} was cancelled.",
    ),
    RequestStatus.EXPIRED: (
        "Yêu cầu {id} hoàn {amount} cho đơn {order} đã hết hạn chờ; bạn có thể yêu cầu lại.",
        "Request {id} to refund {amount} for order {order} has expired; you can ask again.",
    ),
}
BOOKS_ONLY = (
    "Đã ghi sổ khoản hoàn {amount} cho đơn {order} ({id}); cửa hàng sẽ chuyển tiền.",
    "The refund of {amount} for order {order} ({id}) is recorded; the shop will pay it.",
)

# Said when a run ends without an answer: polite, and true.
STOP_SENTENCES: Mapping[StopReason, tuple[str, str]] = {
    StopReason.HANDED_OFF: (
        "Mình đã chuyển cuộc trò chuyện này cho nhân viên; họ sẽ trả lời bạn tại đây.",
        "I have passed this conversation to our staff; they will answer you here.",
    ),
    StopReason.MODEL_UNAVAILABLE: (
        "Xin lỗi, trợ lý tạm thời không trả lời được. Bạn vui lòng nhắn lại sau ít phút.",
        "Sorry, the assistant cannot answer right now. Please write again in a few minutes.",
    ),
    StopReason.DEADLINE: (
        (
            "Xin lỗi, việc này mất nhiều thời gian hơn dự kiến nên mình phải dừng lại. "
            "Bạn vui lòng nhắn lại."
        ),
        "Sorry, this took longer than expected, so I had to stop. Please write again.",
    ),
}
STOP_DEFAULT = (
    (
        "Xin lỗi, mình chưa hoàn thành được yêu cầu này. "
        "Bạn có thể nói rõ hơn hoặc yêu cầu gặp nhân viên."
    ),
    "Sorry, I could not finish this. You can say it differently or ask for a person.",
)

# Stands beside a model's text that names an amount of its own; true whatever that text says.
NOTHING_FILED = (
    "Lưu ý: lượt trả lời này không tạo yêu cầu hoàn tiền và không chi trả khoản nào.",
    "Please note: this answer did not request or pay any refund.",
)
AMOUNTS_NOTE = (
    (
        "Chỉ khoản hoàn tiền do hệ thống của cửa hàng hiển thị kèm mã báo giá hoặc mã yêu cầu "
        "mới có giá trị, đúng số tiền ghi ở đó."
    ),
    (
        "Only a refund that the shop's system shows with a quote or request id counts, "
        "with exactly the amount stated there."
    ),
)


def pick(pair: tuple[str, str], language: Language) -> str:
    """The one of a Vietnamese and an English sentence that is wanted."""
    return pair[0] if language == "vi" else pair[1]


def stop_sentence(reason: StopReason, language: Language) -> str:
    """What the customer is told when a run ends without words of a model."""
    return pick(STOP_SENTENCES.get(reason, STOP_DEFAULT), language)


def amounts_note(language: Language, *, nothing_filed: bool) -> str:
    """Sets right what a model may have made up about money."""
    parts = (NOTHING_FILED, AMOUNTS_NOTE) if nothing_filed else (AMOUNTS_NOTE,)
    return " ".join(pick(part, language) for part in parts)


def quote_sentence(quote: Quote, language: Language, zone: tzinfo) -> str:
    """The offer as the customer sees it, with what a yes will do."""
    amount = format_money(quote.amount_minor, quote.currency)
    until = quote.expires_at.astimezone(zone).strftime("%H:%M %d/%m/%Y")
    where = pick(METHODS[quote.method], language)
    if language == "vi":
        person = " Khoản này cần nhân viên duyệt." if quote.needs_person else ""
        return (
            f"Báo giá {quote.id}: hoàn {amount} cho đơn {quote.order_id} về {where}.{person} "
            f"Trả lời “đồng ý” để gửi yêu cầu, hoặc “không”. Hiệu lực đến {until}."
        )
    person = " A person has to approve it." if quote.needs_person else ""
    return (
        f"Quote {quote.id}: refund {amount} for order {quote.order_id} to {where}.{person} "
        f"Answer “yes” to send the request, or “no”. Valid until {until}."
    )


def request_sentence(request: RefundRequest, language: Language, *, books_only: bool) -> str:
    """Amount, status and id of a request, as it stands."""
    recorded = books_only and request.status is RequestStatus.REFUNDED
    pair = BOOKS_ONLY if recorded else STATUS_SENTENCES[request.status]
    return pick(pair, language).format(
        id=request.id,
        amount=format_money(request.amount_minor, request.currency),
        order=request.order_id,
        destination=pick(METHODS[request.method], language),
    )


def reason_facts(policy: Policy, currency: str, cumulative_minor: int) -> dict[str, str]:
    """Fills the sentences of the reasons why a person must look."""
    limits = policy.limits.get(currency)
    auto = format_money(limits.auto, currency) if limits else ""
    return {
        "currency": currency,
        "cumulative": format_money(cumulative_minor, currency),
        "limit": auto,
    }


def cap_facts(policy: Policy, currency: str, reason: Reason) -> dict[str, str]:
    """The limit a cap's sentence names."""
    limits = policy.limits.get(currency)
    if limits is None:
        return {}
    named = {
        Reason.CAP_CUSTOMER_DAY: limits.auto_per_customer_day,
        Reason.CAP_CUSTOMER_30_DAYS: limits.auto_per_customer_30_days,
        Reason.CAP_INSTALLATION_DAY: limits.auto_per_installation_day,
    }
    limit = named.get(reason)
    return {} if limit is None else {"limit": format_money(limit, currency)}


def person_reasons(
    reasons: tuple[Reason, ...],
    *,
    policy: Policy,
    currency: str,
    cumulative_minor: int,
    language: Language,
) -> tuple[str, ...]:
    """Why a person must look, one sentence a reason."""
    facts = reason_facts(policy, currency, cumulative_minor)
    return tuple(
        sentence(reason, language, **(facts | cap_facts(policy, currency, reason)))
        for reason in reasons
    )

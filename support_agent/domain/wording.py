"""Sentences about money, rendered by code in Vietnamese and English; no model writes these."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from types import MappingProxyType

from support_agent.domain.money import format_money
from support_agent.domain.orders import PAID_BY_HAND, PaymentMethod
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Language, Reason, sentence
from support_agent.domain.refunds import OPEN, Quote, RefundRequest, RequestStatus
from support_agent.domain.runs import StopReason

Accounts = Mapping[str, str]  # bank accounts, masked, by the destination of a quote or request
NO_ACCOUNTS: Accounts = MappingProxyType({})

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

LATE_FAILURE = (
    (
        "Khoản hoàn {amount} cho đơn {order} ({id}) đã báo là xong nhưng sau đó ngân hàng hoặc "
        "cổng thanh toán báo lỗi; nhân viên sẽ liên hệ với bạn."
    ),
    (
        "The refund of {amount} for order {order} ({id}) was reported as done, but the bank or "
        "provider reported an error afterwards; our staff will contact you."
    ),
)
ACCOUNT = ("tài khoản {account}", "account {account}")
GOES_TO = (" Nơi nhận tiền: {parts}.", " It goes to {parts}.")
DEDUCTION = (
    " Số tiền này đã trừ {amount} ưu đãi, vì phần giữ lại không còn đủ điều kiện khuyến mãi.",
    " {amount} of the promotion was taken off, because what is kept no longer earns it.",
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


def offer_sentence(
    quotes: Sequence[Quote], language: Language, zone: tzinfo, accounts: Accounts = NO_ACCOUNTS
) -> str:
    """The quotes of one group as the customer sees them: one offer, and what a yes will do."""
    first = quotes[0]
    amount = format_money(sum(quote.amount_minor for quote in quotes), first.currency)
    until = valid_until(first, zone)
    where = _parts(quotes, language, accounts)
    lost = sum(quote.deduction_minor for quote in quotes)
    deducted = pick(DEDUCTION, language).format(amount=format_money(lost, first.currency))
    if language == "vi":
        person = " Khoản này cần nhân viên duyệt." if first.needs_person else ""
        return (
            f"Báo giá {first.id}: hoàn {amount} cho đơn {first.order_id} về {where}."
            f"{deducted if lost else ''}{person} "
            f"Trả lời “đồng ý” để gửi yêu cầu, hoặc “không”. Hiệu lực đến {until}."
        )
    person = " A person has to approve it." if first.needs_person else ""
    return (
        f"Quote {first.id}: refund {amount} for order {first.order_id} to {where}."
        f"{deducted if lost else ''}{person} "
        f"Answer “yes” to send the request, or “no”. Valid until {until}."
    )


def valid_until(quote: Quote, zone: tzinfo) -> str:
    """Until when an offer stands, at the shop's clock."""
    return quote.expires_at.astimezone(zone).strftime("%H:%M %d/%m/%Y")


def request_sentence(
    request: RefundRequest,
    language: Language,
    *,
    books_only: bool,
    accounts: Accounts = NO_ACCOUNTS,
) -> str:
    """Amount, status and id of a request, as it stands."""
    return group_sentence((request,), language, books_only=books_only, accounts=accounts)


def group_sentence(
    requests: Sequence[RefundRequest],
    language: Language,
    *,
    books_only: bool,
    accounts: Accounts = NO_ACCOUNTS,
) -> str:
    """The requests of one group: together while they stand alike, else each for itself."""
    first = requests[0]
    if any(request.status is not first.status for request in requests):
        each = (
            request_sentence(r, language, books_only=books_only, accounts=accounts)
            for r in requests
        )
        return " ".join(each)
    by_hand = any(request.method in PAID_BY_HAND for request in requests)
    recorded = books_only and first.status is RequestStatus.REFUNDED and not by_hand
    pair = BOOKS_ONLY if recorded else STATUS_SENTENCES[first.status]
    parts = _parts(requests, language, accounts)
    text = _about(requests, pair, language, destination=parts)
    if len(requests) == 1 or first.status not in OPEN:
        return text
    return text + pick(GOES_TO, language).format(parts=parts)


def late_failure_sentence(request: RefundRequest, language: Language) -> str:
    """Takes back what the customer was told: the refund was called done, and failed after all."""
    return _about((request,), LATE_FAILURE, language)


def _about(
    requests: Sequence[RefundRequest], pair: tuple[str, str], language: Language, **more: str
) -> str:
    first = requests[0]
    total = sum(request.amount_minor for request in requests)
    return pick(pair, language).format(
        id=first.id, amount=format_money(total, first.currency), order=first.order_id, **more
    )


def _parts(
    parts: Sequence[Quote] | Sequence[RefundRequest], language: Language, accounts: Accounts
) -> str:
    """Where the money goes, and how much of it where it goes to several places."""
    places = []
    for part in parts:
        account = accounts.get(part.destination)
        pair = ACCOUNT if account else METHODS[part.method]
        place = pick(pair, language).format(account=account)
        amount = format_money(part.amount_minor, part.currency)
        places.append(place if len(parts) == 1 else f"{place} ({amount})")
    return pick((" và ", " and "), language).join(places)


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
    """Why a person must look, one sentence a reason; none that the amounts of now belie."""
    facts = reason_facts(policy, currency, cumulative_minor)
    limits = policy.limits.get(currency)
    above_auto = limits is None or cumulative_minor > limits.auto
    return tuple(
        sentence(reason, language, **(facts | cap_facts(policy, currency, reason)))
        for reason in reasons
        if above_auto or reason is not Reason.ABOVE_AUTO_LIMIT
    )

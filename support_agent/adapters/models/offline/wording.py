"""The sentences of the offline model in Vietnamese and English; every fact is a placeholder."""

from support_agent.domain.money import EXPONENTS, format_money
from support_agent.domain.reasons import Language

_SENTENCES: dict[str, tuple[str, str]] = {
    "greeting": (
        (
            "Chào bạn! Mình là mô hình offline, trả lời theo luật viết sẵn chứ không phải AI"
            " ngôn ngữ. Mình tra cứu đơn hàng, giải thích chính sách hoàn tiền, lập và theo dõi"
            " yêu cầu hoàn tiền. Bạn cần mình giúp gì?"
        ),
        (
            "Hello! I am the offline model: rule-based, not an AI language model. I can look orders"
            " up, explain the refund policy, and file or follow a refund request."
            " What can I do for you?"
        ),
    ),
    "thanks": ("Cảm ơn bạn, chúc bạn một ngày vui!", "You are welcome. Have a nice day!"),
    "unknown": (
        (
            "Mình chưa hiểu ý bạn. Mình có thể xem tình trạng đơn, kiểm tra đơn có được hoàn tiền"
            " không, lập hoặc huỷ yêu cầu hoàn tiền. Bạn nói rõ hơn giúp mình nhé."
        ),
        (
            "I did not understand that. I can check an order, tell whether it can be refunded, and"
            " file or cancel a refund request. Could you put it another way?"
        ),
    ),
    "offer_person": (
        "Xin lỗi, mình vẫn chưa hiểu. Bạn có muốn gặp nhân viên không?",
        "Sorry, I still do not understand. Would you like to talk to a person?",
    ),
    "which_order": (
        "Bạn cho mình hỏi là đơn nào? Các đơn của bạn: {orders}.",
        "Which order is it? Your orders: {orders}.",
    ),
    "which_order_id": ("Bạn cho mình xin mã đơn nhé.", "Please tell me the order id."),
    "which_request": (
        "Bạn muốn huỷ yêu cầu nào? Bạn nhắn mã đơn hoặc mã yêu cầu giúp mình: {requests}.",
        "Which request do you want to cancel? Please tell me the order or request id: {requests}.",
    ),
    "one_left_to_cancel": (
        "Chỉ còn yêu cầu {request} (đơn {order}) là huỷ được. Muốn huỷ, bạn nhắn “huỷ {order}”.",
        "Only request {request} (order {order}) can be cancelled now: write “cancel {order}”.",
    ),
    "in_order": (" (đơn {order})", " (order {order})"),
    "cancel_what": (
        (
            "Bạn muốn huỷ gì? Trong cuộc trò chuyện này chưa có yêu cầu hoàn tiền nào được gửi."
            " Nếu là yêu cầu đã gửi trước đây, bạn nhắn “huỷ yêu cầu hoàn tiền”; nếu là đơn hàng,"
            " bạn nhắn “gặp nhân viên”."
        ),
        (
            "What would you like to cancel? No refund was requested in this conversation. For a"
            " request sent earlier, write “cancel my refund request”; for an order, write"
            " “talk to a person”."
        ),
    ),
    "left_as_is": (
        "Yêu cầu hoàn tiền đã gửi cho đơn {orders} mình vẫn giữ nguyên.",
        "I have left the refund request for order {orders} as it is.",
    ),
    "to_cancel": (
        " Nếu muốn huỷ, bạn nhắn “huỷ yêu cầu hoàn tiền”.",
        " To cancel it, write “cancel my refund request”.",
    ),
    "about_cancel": (
        (
            "Mình chưa huỷ gì cả. Yêu cầu hoàn tiền chưa được chi trả thì còn huỷ được: bạn nhắn"
            " “huỷ yêu cầu hoàn tiền”. Muốn huỷ đơn hàng, bạn nhắn “gặp nhân viên”."
        ),
        (
            "I have not cancelled anything. A refund request can be cancelled until it is paid:"
            " write “cancel my refund request”. To cancel an order, write “talk to a person”."
        ),
    ),
    "which_item": (
        "Bạn muốn hoàn sản phẩm nào trong số này: {names}?",
        "Which of these items do you want refunded: {names}?",
    ),
    "how_much": (
        "Bạn muốn hoàn bao nhiêu tiền? Bạn ghi rõ số tiền giúp mình nhé.",
        "How much do you want refunded? Please write the exact amount.",
    ),
    "what_next": (
        "Bạn muốn mình giúp việc gì? Hiện không có báo giá nào đang chờ bạn trả lời.",
        "What would you like me to do? No quote is waiting for your answer.",
    ),
    "nothing_open": (
        (
            "Hiện không có gì đang chờ bạn đồng ý. Bạn cho mình biết việc cần làm, ví dụ “hoàn tiền"
            " đơn” kèm mã đơn, hoặc nhắn “gặp nhân viên” nhé."
        ),
        (
            "Nothing is waiting for your agreement. Tell me what you need, for example “refund"
            " order” with its id, or write “talk to a person”."
        ),
    ),
    "anything_else": (
        "Vâng ạ. Bạn cần gì cứ nhắn mình nhé.",
        "All right. Write any time you need something.",
    ),
    "no_orders": (
        "Mình không thấy đơn hàng nào trong tài khoản này.",
        "I see no orders in this account.",
    ),
    "orders": ("Các đơn của bạn: {orders}.", "Your orders: {orders}."),
    "more_orders": (" Bạn còn những đơn khác nữa.", " There are more."),
    "order_not_found": (
        (
            "Mình không tìm thấy đơn {order} trong tài khoản này. Bạn kiểm tra lại mã đơn, hoặc"
            " nhắn “đơn hàng của tôi” để xem danh sách."
        ),
        (
            "There is no order {order} in this account. Please check the id, or write"
            " “my orders” to see the list."
        ),
    ),
    "order": ("Đơn {order}: {status}", "Order {order}: {status}"),
    "delivered_on": (" ngày {date}", " on {date}"),
    "total": (", tổng tiền {total}", ", total {total}"),
    "items": (", gồm {items}", ", containing {items}"),
    "delivered": (
        "Đơn {order} đã giao ngày {date}, đến nay là {days} ngày",
        "Order {order} was delivered on {date}, {days} days ago",
    ),
    "delivered_days": (
        "Đơn {order} đã giao được {days} ngày",
        "Order {order} was delivered {days} days ago",
    ),
    "order_named": ("Đơn {order}", "Order {order}"),
    "of_amount": (" {amount}", " of {amount}"),
    "at_most": (", tối đa {amount}", ", at most {amount}"),
    "eligible_since": (
        ", nên vẫn đủ điều kiện hoàn tiền{amount}.",
        ", so it is still eligible for a refund{amount}.",
    ),
    "eligible": (
        " đủ điều kiện hoàn tiền{amount}.",
        " is eligible for a refund{amount}.",
    ),
    "partial": (
        "Đơn {order} chỉ được hoàn một phần{amount}.",
        "Only a part of order {order} can be refunded{amount}.",
    ),
    "ineligible": (
        "Đơn {order} hiện không được hoàn tiền.",
        "Order {order} cannot be refunded at the moment.",
    ),
    "needs_review": (
        "Đơn {order} cần nhân viên kiểm tra trước khi hoàn tiền.",
        "A person has to check order {order} before it can be refunded.",
    ),
    "no_verdict": (
        "Mình chưa xác định được đơn {order} có hoàn tiền được không.",
        "I cannot tell whether order {order} can be refunded.",
    ),
    "last_day": (
        " Hạn cuối để yêu cầu là {date}.",
        " The last day to ask for it is {date}.",
    ),
    "already_refunded": (
        "Đơn {order} đã được hoàn tiền trước đó rồi, không còn khoản nào để hoàn thêm.",
        "Order {order} has been refunded already; there is nothing left to refund.",
    ),
    "request_not_found": (
        "Mình không tìm thấy yêu cầu hoàn tiền đó trong tài khoản này.",
        "There is no such refund request in this account.",
    ),
    "too_late": (
        "Yêu cầu hoàn tiền này đã có kết quả nên không thay đổi được nữa.",
        "This refund request has been decided and can no longer be changed.",
    ),
    "policy_unclear": (
        "Mình chưa đọc được chính sách hoàn tiền lúc này.",
        "I cannot read the refund policy right now.",
    ),
    "confirm": (
        "Bạn xem báo giá hoàn tiền bên dưới rồi trả lời “đồng ý” hoặc “không” giúp mình nhé.",
        "Please look at the refund quote below and answer “yes” or “no”.",
    ),
    "one_at_a_time": (
        "Mình làm từng đơn một, lần này là đơn {order}. ",
        "I do one order at a time; this is for order {order}. ",
    ),
    "next_orders": (
        "Còn đơn {orders}: bạn nhắn “hoàn tiền đơn {order}” để mình làm tiếp nhé.",
        "Still to do: order {orders}. Write “refund order {order}” to go on.",
    ),
    "orders_after_it": ("Sau đó còn đơn {orders}.", "After that comes order {orders}."),
    "of_order": ("Đơn {order}: {told}", "Order {order}: {told}"),
    "quoted_again": (
        "Báo giá cũ không còn dùng được nên mình đã lập lại. ",
        "The old quote could no longer be used, so I made a new one. ",
    ),
    "reminder": (
        "Báo giá hoàn tiền đơn {order} vẫn đang chờ bạn: trả lời “đồng ý” hoặc “không” nhé.",
        "The refund quote for order {order} still waits for you: please answer “yes” or “no”.",
    ),
    "plain_answer": (
        "Bạn có đồng ý với báo giá hoàn tiền đơn {order} không? Trả lời “đồng ý” hoặc “không” nhé.",
        "Do you agree to the refund quote for order {order}? Please answer “yes” or “no”.",
    ),
    "or_a_person": (
        " Nếu cần người hỗ trợ, bạn nhắn “gặp nhân viên”.",
        " If you would rather have help from a person, write “talk to a person”.",
    ),
    "not_filed_yet": (
        (
            "Yêu cầu hoàn tiền đơn {order} chưa được gửi, vì còn chờ bạn trả lời báo giá. Khoản nào"
            " cần duyệt thì nhân viên cửa hàng quyết định."
        ),
        (
            "The refund of order {order} has not been requested yet: its quote waits for your"
            " answer. Where an approval is needed, the shop's staff decide."
        ),
    ),
    "filed": (
        "Mình đã gửi yêu cầu hoàn tiền cho đơn {order}, trạng thái ở bên dưới.",
        "I have sent the refund request for order {order}; its status is below.",
    ),
    "filed_before": (
        "Yêu cầu hoàn tiền cho đơn {order} đã được gửi rồi, bạn không cần đồng ý lần nữa.",
        "The refund request for order {order} has been sent; you need not agree again.",
    ),
    "declined": (
        "Vâng, mình không gửi yêu cầu hoàn tiền này. Khi nào cần bạn cứ nhắn lại nhé.",
        "All right, this refund will not be requested. Write again whenever you need it.",
    ),
    "no_date": (
        (
            "Khoản nào cần duyệt thì nhân viên cửa hàng quyết định, nên mình không hẹn trước được"
            " ngày giờ."
        ),
        "Where an approval is needed, the shop's staff decide, so I cannot promise a date.",
    ),
    "returnable_items": (
        "Những món hoàn được của đơn {order}: {names}.",
        "These items of order {order} can be refunded: {names}.",
    ),
    "no_other_items": (
        " Những món khác hiện không hoàn được.",
        " Its other items cannot be refunded at the moment.",
    ),
    "requests_below": (
        "Tình trạng yêu cầu hoàn tiền của đơn {orders} ở bên dưới.",
        "The state of the refund requests for order {orders} is below.",
    ),
    "no_requests": (
        "Mình không thấy yêu cầu hoàn tiền nào{about}.",
        "I see no refund request{about}.",
    ),
    "about_order": (" cho đơn {order}", " for order {order}"),
    "none_to_cancel": (
        "Không có yêu cầu hoàn tiền nào{about} còn huỷ được.",
        "No refund request{about} can still be cancelled.",
    ),
    "cancelled": (
        "Mình đã huỷ yêu cầu hoàn tiền theo ý bạn.",
        "I have cancelled the refund request as you wished.",
    ),
    "cancel_sent": (
        "Mình đã gửi lệnh huỷ, trạng thái yêu cầu ở bên dưới.",
        "I have asked to cancel it; the state of the request is below.",
    ),
    "cancel_order": (
        "Mình không huỷ đơn hàng được. Nếu cần, bạn nhắn “gặp nhân viên” để được hỗ trợ.",
        "I cannot cancel orders. If you need that, write “talk to a person”.",
    ),
    "handed_off": (
        "Mình đã chuyển cuộc trò chuyện cho nhân viên, bạn chờ một chút nhé.",
        "I have passed the conversation to a person. Please wait a moment.",
    ),
    "refused": (
        "Rất tiếc, mình không thực hiện được. {sentence}",
        "I am sorry, that cannot be done. {sentence}",
    ),
    "refused_plain": (
        "Rất tiếc, mình không thực hiện được yêu cầu này.",
        "I am sorry, that cannot be done.",
    ),
    "broken": (
        (
            "Xin lỗi, hệ thống đang trục trặc nên mình chưa làm được. Bạn thử lại sau, hoặc nhắn"
            " “gặp nhân viên”."
        ),
        (
            "Sorry, the system has a problem and I could not do it. Please try again later, or"
            " write “talk to a person”."
        ),
    ),
    "no_tool": (
        "Xin lỗi, ở đây mình không có công cụ để làm việc này.",
        "Sorry, I have no tool for that here.",
    ),
    "gave_up": (
        (
            "Xin lỗi, mình chưa hoàn thành được yêu cầu này. Bạn thử nói lại, hoặc nhắn"
            " “gặp nhân viên”."
        ),
        (
            "Sorry, I could not finish this. Please try again in other words, or write"
            " “talk to a person”."
        ),
    ),
    "thought.lookup_order": ("Cần xem đơn {order} trước.", "I need to see order {order} first."),
    "thought.list_orders": (
        "Chưa biết là đơn nào nên xem danh sách đơn.",
        "Which order it is is not known yet, so list them.",
    ),
    "thought.refund_policy": (
        "Đối chiếu với chính sách hoàn tiền.",
        "Compare with the refund policy.",
    ),
    "thought.quote_refund": (
        "Khách muốn hoàn tiền: lập báo giá trước khi hỏi khách.",
        "A refund is wanted: make a quote before asking.",
    ),
    "thought.request_refund": (
        "Khách đã đồng ý với báo giá nên gửi yêu cầu.",
        "The customer agreed to the quote, so file it.",
    ),
    "thought.refund_status": ("Xem các yêu cầu hoàn tiền.", "Look at the refund requests."),
    "thought.cancel_refund": ("Khách muốn huỷ yêu cầu.", "The customer wants to cancel it."),
    "thought.hand_off": ("Cần chuyển cho nhân viên.", "A person has to take over."),
    "reason.asked": ("Khách muốn gặp nhân viên.", "The customer asks for a person."),
    "reason.no_tool": (
        "Mô hình không có công cụ cần thiết.",
        "The model lacks the tool it needs.",
    ),
}  # fmt: skip

# Words for the states an order may be in; a state that is not here is shown as it came.
_STATES: dict[str, tuple[str, str]] = {
    "PLACED": ("đã đặt, chưa thanh toán", "placed, not paid yet"),
    "PAID": ("đang chờ gửi hàng", "waiting to be shipped"),
    "SHIPPING": ("đang giao", "on its way"),
    "PARTIALLY_DELIVERED": ("đã giao một phần", "partly delivered"),
    "DELIVERED": ("đã giao", "delivered"),
    "CANCELLED": ("đã huỷ", "cancelled"),
    "UNKNOWN": ("chưa rõ trạng thái", "status not known"),
}


def say(key: str, language: Language, **facts: object) -> str:
    """A sentence with its facts filled in; facts are never read as templates."""
    return _SENTENCES[key][0 if language == "vi" else 1].format(**facts)


def state(status: str, language: Language) -> str:
    """An order's status in the customer's words."""
    words = _STATES.get(status)
    return words[0 if language == "vi" else 1] if words else status


def money(amount_minor: int, currency: str) -> str:
    """As everywhere; an unknown currency is shown as the tool told it."""
    if currency in EXPONENTS:
        return format_money(amount_minor, currency)
    return f"{amount_minor} {currency}".strip()

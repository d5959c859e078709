"""Every reason this product gives: a stable code and a sentence in Vietnamese and English."""

from enum import StrEnum
from typing import Literal

Language = Literal["vi", "en"]


class Reason(StrEnum):
    """A stable code. Values are contracts: they are stored, sent to clients and never renamed."""

    # verdicts of the policy
    WITHIN_WINDOW = "WITHIN_WINDOW"
    WINDOW_EXPIRED = "WINDOW_EXPIRED"
    ORDER_NOT_PAID = "ORDER_NOT_PAID"
    ORDER_NOT_SHIPPED = "ORDER_NOT_SHIPPED"
    ORDER_SHIPPING = "ORDER_SHIPPING"
    ORDER_CANCELLED = "ORDER_CANCELLED"
    STATUS_UNKNOWN = "STATUS_UNKNOWN"
    LINE_NOT_DELIVERED = "LINE_NOT_DELIVERED"
    DELIVERED_AT_MISSING = "DELIVERED_AT_MISSING"
    CLOCK_OR_DATA = "CLOCK_OR_DATA"
    NON_RETURNABLE = "NON_RETURNABLE"
    ALREADY_REFUNDED = "ALREADY_REFUNDED"
    REQUEST_OPEN = "REQUEST_OPEN"
    DISPUTED = "DISPUTED"
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    CURRENCY_WITHOUT_LIMITS = "CURRENCY_WITHOUT_LIMITS"
    PAYMENT_NEEDS_PERSON = "PAYMENT_NEEDS_PERSON"
    PAYMENT_FROZEN = "PAYMENT_FROZEN"
    SHIPPING_KEPT = "SHIPPING_KEPT"
    RETURN_NOT_RECEIVED = "RETURN_NOT_RECEIVED"
    RETURN_NOT_COUNTED = "RETURN_NOT_COUNTED"
    # refusals when quoting and filing
    AMOUNT_INVALID = "AMOUNT_INVALID"
    AMOUNT_TOO_HIGH = "AMOUNT_TOO_HIGH"
    LINE_UNKNOWN = "LINE_UNKNOWN"
    QUANTITY_INVALID = "QUANTITY_INVALID"
    QUANTITY_TOO_HIGH = "QUANTITY_TOO_HIGH"
    ABOVE_POLICY_LIMIT = "ABOVE_POLICY_LIMIT"
    NO_CONSENT = "NO_CONSENT"
    CONSENT_REFUSED = "CONSENT_REFUSED"
    CONSENT_UNCLEAR = "CONSENT_UNCLEAR"
    QUOTE_EXPIRED = "QUOTE_EXPIRED"
    QUOTE_SUPERSEDED = "QUOTE_SUPERSEDED"
    QUOTE_STALE = "QUOTE_STALE"
    IDENTITY_NOT_VERIFIED = "IDENTITY_NOT_VERIFIED"
    DESTINATION_MISSING = "DESTINATION_MISSING"
    # why a person must look
    ABOVE_AUTO_LIMIT = "ABOVE_AUTO_LIMIT"
    CAP_CUSTOMER_DAY = "CAP_CUSTOMER_DAY"
    CAP_CUSTOMER_30_DAYS = "CAP_CUSTOMER_30_DAYS"
    CAP_INSTALLATION_DAY = "CAP_INSTALLATION_DAY"
    CONSENT_IMPLIED = "CONSENT_IMPLIED"
    AUTO_APPROVAL_OFF = "AUTO_APPROVAL_OFF"
    STAFF_FILED = "STAFF_FILED"
    DESTINATION_NEW = "DESTINATION_NEW"
    PROMOTION_LOST = "PROMOTION_LOST"
    OVERPAID = "OVERPAID"
    ESCALATED = "ESCALATED"
    REDUCED = "REDUCED"
    RETRIED = "RETRIED"
    # refusals of decisions and payouts
    CAP_APPROVER_DAY = "CAP_APPROVER_DAY"
    CAP_PAIR_DAY = "CAP_PAIR_DAY"
    NOT_ENOUGH_APPROVALS = "NOT_ENOUGH_APPROVALS"
    DECISION_NOT_GENUINE = "DECISION_NOT_GENUINE"
    RECORD_CHANGED = "RECORD_CHANGED"
    APPROVER_DISABLED = "APPROVER_DISABLED"
    ALREADY_PAYING = "ALREADY_PAYING"
    AMOUNT_NOT_LOWER = "AMOUNT_NOT_LOWER"
    GROUP_NOT_REDUCED = "GROUP_NOT_REDUCED"
    NO_CONVERSATION = "NO_CONVERSATION"
    SECOND_PERSON_NEEDED = "SECOND_PERSON_NEEDED"
    EVIDENCE_USED = "EVIDENCE_USED"
    PAID_AFTER_ALL = "PAID_AFTER_ALL"


# {placeholders} are filled by `sentence`; each sentence names what would change the answer.
SENTENCES: dict[Reason, tuple[str, str]] = {
    Reason.WITHIN_WINDOW: (
        "Đơn đã giao {days} ngày, còn trong hạn {window} ngày; hạn cuối là {last_day}.",
        "Delivered {days} days ago, within the {window} days; the last day is {last_day}.",
    ),
    Reason.WINDOW_EXPIRED: (
        "Đã giao {days} ngày, quá hạn {window} ngày; hạn cuối là {last_day}.",
        "Delivered {days} days ago, past the {window} days; the last day was {last_day}.",
    ),
    Reason.ORDER_NOT_PAID: (
        "Đơn chưa được thanh toán nên chưa có gì để hoàn.",
        "The order has not been paid, so there is nothing to refund yet.",
    ),
    Reason.ORDER_NOT_SHIPPED: (
        "Đơn chưa được gửi đi; bạn có thể yêu cầu huỷ đơn thay vì hoàn tiền.",
        "The order has not been shipped; it can be cancelled instead of refunded.",
    ),
    Reason.ORDER_SHIPPING: (
        "Đơn đang được giao; có thể yêu cầu hoàn tiền sau khi nhận hàng.",
        "The order is on its way; a refund can be asked for once it is delivered.",
    ),
    Reason.ORDER_CANCELLED: (
        "Đơn đã bị huỷ nên không hoàn tiền theo chính sách đổi trả.",
        "The order was cancelled, so the refund policy does not apply.",
    ),
    Reason.STATUS_UNKNOWN: (
        "Trạng thái đơn không rõ nên cần nhân viên kiểm tra.",
        "The order's status is not known, so a person must check it.",
    ),
    Reason.LINE_NOT_DELIVERED: (
        "Sản phẩm này chưa được giao; chỉ hoàn phần đã nhận.",
        "This item has not been delivered; only what has arrived can be refunded.",
    ),
    Reason.DELIVERED_AT_MISSING: (
        "Đơn ghi là đã giao nhưng thiếu ngày giao nên cần nhân viên kiểm tra.",
        "Marked as delivered without a delivery date, so a person must check it.",
    ),
    Reason.CLOCK_OR_DATA: (
        "Ngày giao nằm ở tương lai nên cần nhân viên kiểm tra.",
        "The delivery date lies in the future, so a person must check it.",
    ),
    Reason.NON_RETURNABLE: (
        "Sản phẩm này không được đổi trả theo chính sách.",
        "This item cannot be returned under the policy.",
    ),
    Reason.ALREADY_REFUNDED: (
        "Đơn đã được hoàn hết ({request_ids}).",
        "The order has been refunded already ({request_ids}).",
    ),
    Reason.REQUEST_OPEN: (
        "Đã có yêu cầu hoàn tiền đang xử lý: {request_ids}.",
        "A refund request is open already: {request_ids}.",
    ),
    Reason.DISPUTED: (
        "Khoản thanh toán đang bị tranh chấp với ngân hàng; chờ tranh chấp kết thúc.",
        "The payment is disputed at the bank; the dispute has to end first.",
    ),
    Reason.CURRENCY_MISMATCH: (
        "Đơn và khoản thanh toán khác loại tiền; cần nhân viên xử lý.",
        "The order and its payment are in different currencies; a person has to handle it.",
    ),
    Reason.CURRENCY_WITHOUT_LIMITS: (
        "Chính sách chưa có hạn mức cho {currency} nên cần nhân viên duyệt.",
        "The policy has no limits for {currency}, so a person must decide.",
    ),
    Reason.PAYMENT_NEEDS_PERSON: (
        "Đơn trả bằng tiền mặt hoặc chuyển khoản nên nhân viên phải hoàn bằng tay.",
        "Paid in cash or by transfer, so a person must pay it back by hand.",
    ),
    Reason.PAYMENT_FROZEN: (
        "Khoản thanh toán đang được đối soát; nhân viên phải xử lý trước.",
        "The payment is being reconciled; a person has to settle it first.",
    ),
    Reason.SHIPPING_KEPT: (
        "Phí vận chuyển chỉ được hoàn khi trả lại toàn bộ đơn theo chính sách.",
        "Shipping is refunded only when the whole order goes back under the policy.",
    ),
    Reason.RETURN_NOT_RECEIVED: (
        "Cửa hàng chưa nhận lại sản phẩm này; chỉ hoàn số lượng đã nhận lại.",
        "The shop has not received this item back; only what came back is refunded.",
    ),
    Reason.RETURN_NOT_COUNTED: (
        "Cửa hàng chưa ghi nhận việc nhận lại sản phẩm nên cần nhân viên kiểm tra.",
        "The shop has not recorded whether this item came back, so a person must check it.",
    ),
    Reason.OVERPAID: (
        "Đơn đã bị thu nhiều hơn giá trị của nó; phần thu thừa được hoàn lại.",
        "More was taken for the order than it costs; what is too much goes back.",
    ),
    Reason.DESTINATION_MISSING: (
        "Đơn trả bằng tiền mặt hoặc chuyển khoản: cần tài khoản nhận tiền; hãy gặp nhân viên.",
        "Paid in cash or by transfer: an account to pay to is needed; ask for a member of staff.",
    ),
    Reason.AUTO_APPROVAL_OFF: (
        "Cửa hàng đang tắt duyệt tự động nên cần người duyệt.",
        "The shop has switched automatic approval off, so a person decides.",
    ),
    Reason.STAFF_FILED: (
        "Yêu cầu do nhân viên lập nên cần người khác duyệt.",
        "Filed by a member of staff, so another person decides.",
    ),
    Reason.DESTINATION_NEW: (
        "Tài khoản nhận tiền mới được thêm nên cần người duyệt cấp cao hơn.",
        "The account to pay to is new, so an approver of a higher level decides.",
    ),
    Reason.PROMOTION_LOST: (
        "Phần giữ lại không còn đủ điều kiện khuyến mãi nên đã trừ phần ưu đãi.",
        "What is kept no longer earns the promotion, so its discount was taken off.",
    ),
    Reason.ESCALATED: (
        "Quá hạn xử lý nên đã chuyển lên cấp duyệt cao hơn.",
        "Nobody decided in time, so a higher level has to.",
    ),
    Reason.REDUCED: (
        "Người duyệt đã giảm số tiền nên cần quyết định lại.",
        "An approver lowered the amount, so it is decided again.",
    ),
    Reason.RETRIED: (
        "Lần chi trả trước không thành công; nhân viên đã đề nghị trả lại nên cần duyệt lại.",
        "The earlier payout failed and staff asked to pay again, so it is decided again.",
    ),
    Reason.AMOUNT_INVALID: (
        "Số tiền phải là số nguyên dương theo đơn vị nhỏ nhất.",
        "The amount must be a positive whole number of minor units.",
    ),
    Reason.AMOUNT_TOO_HIGH: (
        "Số tiền vượt quá phần còn hoàn được; tối đa {max}.",
        "The amount is above what can still be refunded; at most {max}.",
    ),
    Reason.LINE_UNKNOWN: (
        "Đơn không có dòng hàng {line_id!r}; các dòng là {known}.",
        "The order has no line {line_id!r}; its lines are {known}.",
    ),
    Reason.QUANTITY_INVALID: (
        "Số sản phẩm muốn hoàn của dòng {line_id} phải là số nguyên từ 1 trở lên.",
        "The units to refund of line {line_id} must be a whole number from 1 on.",
    ),
    Reason.QUANTITY_TOO_HIGH: (
        "Dòng {line_id} chỉ còn {left} sản phẩm có thể hoàn.",
        "Line {line_id} has only {left} units left to refund.",
    ),
    Reason.ABOVE_POLICY_LIMIT: (
        "Tổng tiền hoàn của đơn sẽ là {cumulative}, vượt mức cao nhất {limit} của chính sách.",
        "The order's refunds would come to {cumulative}, above the policy's top limit of {limit}.",
    ),
    Reason.NO_CONSENT: (
        "Khách chưa trả lời báo giá này; cần khách đồng ý sau khi thấy báo giá.",
        "The customer has not answered this quote; a yes is needed after it was shown.",
    ),
    Reason.CONSENT_REFUSED: (
        "Khách đã từ chối báo giá này; cần báo giá mới nếu khách đổi ý.",
        "The customer said no to this quote; a new quote is needed if they change their mind.",
    ),
    Reason.CONSENT_UNCLEAR: (
        "Câu trả lời của khách chưa rõ là đồng ý; hãy hỏi lại có hay không.",
        "The customer's answer is not a clear yes; ask again for yes or no.",
    ),
    Reason.QUOTE_EXPIRED: (
        "Báo giá đã hết hạn lúc {expires_at}; hãy báo giá lại.",
        "The quote expired at {expires_at}; quote again.",
    ),
    Reason.QUOTE_SUPERSEDED: (
        "Báo giá này đã được thay bằng báo giá mới hơn; hãy dùng báo giá mới nhất.",
        "A newer quote replaced this one; use the newest.",
    ),
    Reason.QUOTE_STALE: (
        "Tình trạng đơn đã thay đổi từ lúc báo giá; hãy báo giá lại.",
        "The order changed since it was quoted; quote again.",
    ),
    Reason.IDENTITY_NOT_VERIFIED: (
        "Cần xác minh danh tính trước khi xem đơn hàng hoặc hoàn tiền.",
        "The customer's identity must be verified before orders or refunds.",
    ),
    Reason.ABOVE_AUTO_LIMIT: (
        "Tổng tiền hoàn của đơn {cumulative} vượt mức tự động {limit} nên cần người duyệt.",
        "The order's refunds come to {cumulative}, above the automatic {limit}: a person decides.",
    ),
    Reason.CAP_CUSTOMER_DAY: (
        "Khách đã dùng hết hạn mức hoàn tự động trong ngày ({limit}) nên cần người duyệt.",
        "The customer's automatic refunds of the day are used up ({limit}), so a person decides.",
    ),
    Reason.CAP_CUSTOMER_30_DAYS: (
        "Khách đã dùng hết hạn mức hoàn tự động trong 30 ngày ({limit}) nên cần người duyệt.",
        "The customer's automatic refunds of 30 days are used up ({limit}), so a person decides.",
    ),
    Reason.CAP_INSTALLATION_DAY: (
        "Cửa hàng đã dùng hết hạn mức hoàn tự động trong ngày ({limit}) nên cần người duyệt.",
        "The shop's automatic refunds of the day are used up ({limit}), so a person decides.",
    ),
    Reason.CONSENT_IMPLIED: (
        "Kênh này không hỏi ý khách từng lần nên cần người duyệt.",
        "This channel does not ask the customer each time, so a person decides.",
    ),
    Reason.CAP_APPROVER_DAY: (
        "{name} đã dùng hết hạn mức duyệt trong ngày ({limit}); cần người khác duyệt.",
        "{name} has used up the day's approvals ({limit}); another approver has to decide.",
    ),
    Reason.CAP_PAIR_DAY: (
        "{name} đã dùng hết hạn mức trong ngày cho khách này ({limit}); cần người khác duyệt.",
        "{name} used up the day's approvals for this customer ({limit}); another has to decide.",
    ),
    Reason.NOT_ENOUGH_APPROVALS: (
        "Chưa đủ quyết định duyệt hợp lệ: có {have}, cần {need}.",
        "Not enough genuine approvals: {have} of {need}.",
    ),
    Reason.DECISION_NOT_GENUINE: (
        "Quyết định duyệt không khớp chữ ký hoặc dữ liệu của yêu cầu nên không trả tiền.",
        "A decision does not match its signature or the request, so nothing is paid.",
    ),
    Reason.RECORD_CHANGED: (
        "Yêu cầu không khớp nhật ký kiểm toán nên bị giữ lại; quản trị viên phải kiểm tra.",
        "The request is not what the audit log says and is held; an administrator has to look.",
    ),
    Reason.APPROVER_DISABLED: (
        "Người đã duyệt nay không còn quyền duyệt; cần người khác duyệt lại.",
        "Who approved this may no longer decide; another approver has to decide again.",
    ),
    Reason.ALREADY_PAYING: (
        "Khoản hoàn đang được chi trả nên không huỷ được nữa.",
        "The refund is being paid out, so it can no longer be cancelled.",
    ),
    Reason.AMOUNT_NOT_LOWER: (
        "Chỉ được giảm số tiền: phải trên 0 và dưới {amount}.",
        "The amount can only be lowered: above zero and below {amount}.",
    ),
    Reason.GROUP_NOT_REDUCED: (
        "Yêu cầu chia trên nhiều khoản thanh toán nên không giảm được; hãy từ chối và lập lại.",
        "It is spread over several payments and cannot be reduced; reject it and file again.",
    ),
    Reason.NO_CONVERSATION: (
        "Yêu cầu này không có cuộc trò chuyện nào để hỏi khách.",
        "This request has no conversation in which the customer could be asked.",
    ),
    Reason.SECOND_PERSON_NEEDED: (
        "{name} đã quyết định hoặc đề xuất việc này; cần người khác xác nhận.",
        "{name} already decided or proposed this; another person has to confirm it.",
    ),
    Reason.EVIDENCE_USED: (
        "Mã chứng từ {evidence!r} đã dùng cho yêu cầu khác.",
        "The evidence {evidence!r} was used for another request already.",
    ),
    Reason.PAID_AFTER_ALL: (
        "Cổng thanh toán cho biết khoản này đã được hoàn rồi; nhân viên phải đối soát trước.",
        "The gateway says that this was refunded already; a person has to reconcile it first.",
    ),
}


def sentence(reason: Reason, language: Language, **facts: object) -> str:
    """The reason in the reader's language, with its facts filled in."""
    vi, en = SENTENCES[reason]
    return (vi if language == "vi" else en).format(**facts)

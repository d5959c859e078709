"""What is not there, or not for the one who asks: both answer alike."""

from typing import ClassVar

from support_agent.domain.errors.root import SupportAgentError
from support_agent.domain.reasons import Language


class NotFound(SupportAgentError):
    """There is no such thing, or it is not the asker's: both answer the same."""

    code = "NOT_FOUND"
    kind: ClassVar[str] = "object"
    kind_vi: ClassVar[str] = "mục"

    def __init__(self, identifier: str) -> None:
        super().__init__(f"there is no {self.kind} {identifier!r}")
        self.identifier = identifier

    def sentence(self, language: Language) -> str:
        """The same in the customer's language."""
        return f"Không có {self.kind_vi} {self.identifier!r}." if language == "vi" else f"{self}."


class OrderNotFound(NotFound):
    code = "ORDER_NOT_FOUND"
    kind = "order"
    kind_vi = "đơn hàng"


class CustomerNotFound(NotFound):
    code = "CUSTOMER_NOT_FOUND"
    kind = "customer"
    kind_vi = "khách hàng"


class QuoteNotFound(NotFound):
    code = "QUOTE_NOT_FOUND"
    kind = "quote"
    kind_vi = "báo giá"


class RequestNotFound(NotFound):
    code = "REQUEST_NOT_FOUND"
    kind = "refund request"
    kind_vi = "yêu cầu hoàn tiền"


class ConversationNotFound(NotFound):
    code = "CONVERSATION_NOT_FOUND"
    kind = "conversation"
    kind_vi = "cuộc trò chuyện"


class RunNotFound(NotFound):
    code = "RUN_NOT_FOUND"
    kind = "run"


class ApproverNotFound(NotFound):
    code = "APPROVER_NOT_FOUND"
    kind = "approver"


class TaskNotFound(NotFound):
    code = "TASK_NOT_FOUND"
    kind = "task"


class DestinationNotFound(NotFound):
    code = "DESTINATION_NOT_FOUND"
    kind = "payout destination"


class PolicyNotFound(NotFound):
    code = "POLICY_NOT_FOUND"
    kind = "policy"


class WebhookEndpointNotFound(NotFound):
    code = "WEBHOOK_ENDPOINT_NOT_FOUND"
    kind = "webhook endpoint"
    kind_vi = "điểm nhận webhook"


class WebhookDeliveryNotFound(NotFound):
    code = "WEBHOOK_DELIVERY_NOT_FOUND"
    kind = "webhook delivery"
    kind_vi = "lượt gửi webhook"

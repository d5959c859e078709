"""One tree of errors; each class is named after what happened and carries its data.

Three tables map them and nothing else does: `cli/exits.py` (exit code), `agent/tool_runner.py`
(observation) and, later, the API (status).
"""

from datetime import datetime
from typing import ClassVar

from support_agent.domain.reasons import Language, Reason, sentence
from support_agent.domain.runs import Usage


class SupportAgentError(Exception):
    """Everything this product raises on purpose. `code` is stable, the message is for people."""

    code: ClassVar[str] = "INTERNAL"


class ConfigurationError(SupportAgentError):
    """The operator must fix a setting, a file or the database before anything can run."""

    code = "CONFIGURATION"

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(f"{setting}: {message}" if setting else message)
        self.setting = setting


class DatabaseUnavailable(SupportAgentError):
    """The database did not answer; nothing was changed by this call."""

    code = "DATABASE_UNAVAILABLE"


class NewerState(ConfigurationError):
    """A run was recorded by a newer version of this program; it is left as it is."""

    code = "NEWER_STATE"

    def __init__(self, run_id: str, *, found: int, known: int) -> None:
        super().__init__(
            f"run {run_id!r} was recorded in form {found}, this program reads up to {known}; "
            "use the version of support-agent that recorded it, or a newer one"
        )
        self.run_id = run_id


class InvalidInput(SupportAgentError):
    """One field of the input is wrong; the message says which and how to mend it."""

    code = "INVALID_INPUT"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


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


class Refused(SupportAgentError):
    """A rule says no. `reason` is the stable code, `facts` fill its sentence in vi and en."""

    code = "REFUSED"

    def __init__(self, reason: Reason, **facts: object) -> None:
        super().__init__(f"{reason}: {sentence(reason, 'en', **facts)}")
        self.reason = reason
        self.facts = facts

    def sentence(self, language: Language) -> str:
        return sentence(self.reason, language, **self.facts)


class RefundRefused(Refused):
    """A refund may not be quoted, filed or paid."""

    code = "REFUND_REFUSED"


class DecisionRefused(Refused):
    """An approver may not decide this request."""

    code = "DECISION_REFUSED"


class NotAuthorised(SupportAgentError):
    """This person may not decide this."""

    code = "NOT_AUTHORISED"


class NotProved(NotAuthorised):
    """The approver's token is missing or wrong."""

    code = "NOT_PROVED"


class RecordChanged(NotAuthorised):
    """A row that gives authority is not what the signed history says of it."""

    code = "RECORD_CHANGED"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"{kind} {name!r} was changed by something else than this program, so it counts for "
            "nothing; run: support-agent audit verify"
        )


class HistoryBroken(SupportAgentError):
    """The signed history does not prove what was asked of it: somebody changed the database."""

    code = "HISTORY_BROKEN"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; run: support-agent audit verify")


class ApproverDisabled(NotAuthorised):
    code = "APPROVER_DISABLED"

    def __init__(self, name: str) -> None:
        super().__init__(f"approver {name!r} is disabled; another approver has to decide")


class SelfApproval(NotAuthorised):
    """Who asked for it, is paid by it or typed it may not decide it, at any amount."""

    code = "SELF_APPROVAL"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is the requester, the customer or the operator of this request, or asked to "
            "pay it again; another approver has to decide"
        )


class InsufficientAuthority(NotAuthorised):
    """The approver's level or limit is too low; `limit` in minor units, None for no authority.

    `others` are the approvers who may, None while nobody looked.
    """

    code = "INSUFFICIENT_AUTHORITY"

    def __init__(
        self, message: str, *, limit: int | None, others: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.others = others


class Conflict(SupportAgentError):
    """The state moved on; look again before trying again."""

    code = "CONFLICT"


class AlreadyDecided(Conflict):
    code = "ALREADY_DECIDED"

    def __init__(
        self, request_id: str, *, status: str, by: str | None, at: datetime | None
    ) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at.isoformat(timespec='seconds')}" if at else ""
        decided = f": decided{who}{when}" if who or when else ""
        super().__init__(f"request {request_id!r} is {status}{decided}")
        self.status = status
        self.by = by
        self.at = at


class SecondPersonNeeded(AlreadyDecided):
    """This person approved already; the round waits for somebody else."""

    code = "SECOND_PERSON_NEEDED"

    def __init__(self, request_id: str, *, status: str, by: str, at: datetime) -> None:
        super().__init__(request_id, status=status, by=by, at=at)
        told = f"this person approved request {request_id!r} already, as {by}"
        when = at.isoformat(timespec="seconds")
        others = "another person with enough authority has to decide"
        self.args = (f"{told} at {when}; {others}",)


class StaleDecision(Conflict):
    code = "STALE"

    def __init__(self, request_id: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"request {request_id!r} is at version {actual}, not {expected}: look at it again"
        )
        self.expected = expected
        self.actual = actual


class RequestExpired(Conflict):
    code = "EXPIRED"

    def __init__(self, request_id: str, *, at: datetime) -> None:
        super().__init__(
            f"request {request_id!r} expired at {at.isoformat(timespec='seconds')}; "
            "the customer has to ask again"
        )
        self.at = at


class IllegalTransition(Conflict):
    """The state table does not list this move."""

    code = "ILLEGAL_TRANSITION"

    def __init__(self, request_id: str, *, current: str, wanted: str) -> None:
        super().__init__(f"request {request_id!r} is {current} and cannot become {wanted}")
        self.current = current
        self.wanted = wanted


class TaskAlreadyDone(Conflict):
    code = "TASK_ALREADY_DONE"

    def __init__(self, task_id: str, *, by: str | None, at: datetime | None) -> None:
        when = f" at {at.isoformat(timespec='seconds')}" if at else ""
        super().__init__(f"task {task_id!r} was done by {by or 'somebody'}{when}")
        self.by = by
        self.at = at


class ConversationBusy(Conflict):
    """Another turn of this conversation is running."""

    code = "CONVERSATION_BUSY"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} is answering another message; wait for it"
        )
        self.conversation_id = conversation_id


class PaymentNotFrozen(Conflict):
    """There is nothing to lift: our books do not know the payment, or it is not frozen."""

    code = "PAYMENT_NOT_FROZEN"

    def __init__(self, order_id: str, payment_id: str) -> None:
        super().__init__(
            f"our books have no frozen payment {payment_id!r} of order {order_id!r}; "
            "`support-agent approvals show` names the payment of a request"
        )
        self.order_id = order_id
        self.payment_id = payment_id


class ReserveMissing(SupportAgentError):
    """The books do not hold what a posting moves: a fault of ours, or a hand in the database."""

    code = "RESERVE_MISSING"

    def __init__(self, request_id: str, *, account: str) -> None:
        super().__init__(
            f"request {request_id!r} holds no such reserve on {account}; check the books"
        )
        self.request_id = request_id
        self.account = account


class ToolError(SupportAgentError):
    """A tool call that did not produce a result."""

    code = "TOOL_ERROR"


class UnknownTool(ToolError):
    """The model named a tool that does not exist; it may correct itself."""

    code = "UNKNOWN_TOOL"


class InvalidArguments(ToolError):
    """The model's arguments do not fit; `fields` maps a field to what is wrong with it."""

    code = "INVALID_ARGUMENTS"

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in fields.items()))
        self.fields = fields


class ModelError(SupportAgentError):
    """The model did not give a usable decision."""

    code = "MODEL_ERROR"


class ModelUnavailable(ModelError):
    """No answer.

    Attributes:
        retry_after: seconds, when the server named a time.
        may_pass: whether the same request may be answered if it is sent again (429, 5xx, a broken
            connection, a time-out); a request that is refused for what it is will be again.
        usage: what the attempts cost. One that may have been billed without an answer (a time-out,
            a reply that broke off) counts the tokens it sent, as estimated.
    """

    code = "MODEL_UNAVAILABLE"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        may_pass: bool = True,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.may_pass = may_pass
        self.usage = usage or Usage(requests=1)


class ContextTooLong(ModelUnavailable):
    """The model cannot read that much; a shorter view of the conversation may be sent once."""

    code = "CONTEXT_TOO_LONG"

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message, may_pass=False, usage=usage)


class ModelReplyInvalid(ModelError):
    """The reply is not a decision; the model is told, the error and its `usage` are counted."""

    code = "MODEL_REPLY_INVALID"

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage(requests=1)


class PaymentError(SupportAgentError):
    code = "PAYMENT_ERROR"


class PaymentDeclined(PaymentError):
    """Positive evidence that the gateway did not execute the refund."""

    code = "PAYMENT_DECLINED"


class GatewayBusy(PaymentError):
    """Nothing was executed yet; the same key may be sent again later."""

    code = "GATEWAY_BUSY"


class GatewayRefusesUs(PaymentError):
    """Nothing was executed: the gateway does not accept our credentials. An operator must act."""

    code = "GATEWAY_REFUSES_US"


class PaymentOutcomeUnknown(PaymentError):
    """It may have been paid: reconcile by key, never retry blindly, never call it failed."""

    code = "PAYMENT_OUTCOME_UNKNOWN"


class IdempotencyMismatch(PaymentError):
    """The gateway knows this key with other parameters: our bug, a person must look."""

    code = "IDEMPOTENCY_MISMATCH"


class ChannelUnavailable(SupportAgentError):
    """A message to the outside was not, or may not have been, delivered; it is tried again."""

    code = "CHANNEL_UNAVAILABLE"


class EventRefused(SupportAgentError):
    """An incoming provider event is not genuine, not ours or not of now; nothing was changed."""

    code = "EVENT_REFUSED"


class OrdersUnavailable(SupportAgentError):
    """The shop's order system did not answer."""

    code = "ORDERS_UNAVAILABLE"

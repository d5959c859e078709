"""A rule said no, or whoever asked may not."""

from support_agent.domain.errors.root import SupportAgentError
from support_agent.domain.reasons import Language, Reason, sentence


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

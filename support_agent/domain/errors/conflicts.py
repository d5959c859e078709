"""It is not, or no longer, in a state in which this could be done."""

from collections.abc import Sequence
from datetime import datetime

from support_agent.domain.errors.root import SupportAgentError


class Conflict(SupportAgentError):
    """The state moved on; look again before trying again."""

    code = "CONFLICT"


class StillInUse(Conflict):
    """Nothing of a customer can be erased yet; names what has to end before."""

    code = "STILL_IN_USE"

    def __init__(
        self,
        customer_id: str,
        *,
        requests: Sequence[str],
        answering: Sequence[str],
        with_staff: Sequence[str],
    ) -> None:
        told = (
            ("refund requests that are not final: {}", requests),
            ("conversations that are being answered: {}", answering),
            ("conversations that a person has: {}", with_staff),
        )
        why = "; ".join(words.format(", ".join(ids)) for words, ids in told if ids)
        super().__init__(f"customer {customer_id!r} has {why}; nothing was erased")
        self.customer_id = customer_id
        self.requests = tuple(requests)
        self.conversations = (*answering, *with_staff)


class StillInFile(Conflict):
    """It is erased, but the database's file could not be cleaned of what was there before."""

    code = "STILL_IN_FILE"

    def __init__(self, *, in_use: bool = True) -> None:
        why = "another process uses the database" if in_use else "the disk is full or failed"
        super().__init__(
            f"it is erased, but {why}, so that the old text may still be in the database's file; "
            "run the same command again when that is over"
        )


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


class ConversationHandedOff(Conflict):
    """A person has the conversation already."""

    code = "CONVERSATION_HANDED_OFF"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"a person has conversation {conversation_id!r} already; "
            "`support-agent conversations show` tells what it is about"
        )


class ConversationNotHandedOff(Conflict):
    """The agent has the conversation, so there is nothing to hand back and nobody to answer."""

    code = "CONVERSATION_NOT_HANDED_OFF"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} is the agent's; to answer in it take it first: "
            f"support-agent conversations take {conversation_id}"
        )


class ConversationBusy(Conflict):
    """Another turn of this conversation is running; `left_s` until its owner may be thought dead.

    A message that came with it is kept, and answered after that turn.
    """

    code = "CONVERSATION_BUSY"

    def __init__(self, conversation_id: str, *, left_s: float | None = None) -> None:
        until = "" if left_s is None else f", for {left_s:.0f} s at most"
        super().__init__(
            f"conversation {conversation_id!r} is answering another message{until}; a message that "
            "was taken is kept and answered after it"
        )
        self.conversation_id = conversation_id
        self.left_s = left_s


class RunBusy(ConversationBusy):
    """The run itself is going on; its owner ends it, or has lost it in `left_s`."""

    code = "RUN_BUSY"

    def __init__(self, run_id: str, conversation_id: str, *, left_s: float) -> None:
        super().__init__(conversation_id, left_s=left_s)
        self.args = (
            f"run {run_id!r} is going on: it ends by itself, or can be resumed in {left_s:.0f} s",
        )
        self.run_id = run_id


class RunEnded(Conflict):
    """There is nothing to call off any more."""

    code = "RUN_ENDED"

    def __init__(self, run_id: str, *, status: str) -> None:
        super().__init__(f"run {run_id!r} has ended already, as {status}")
        self.run_id = run_id
        self.status = status


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

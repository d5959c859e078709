"""What an approver sends to decide: one of four shapes, and never who decides."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from support_agent.api.schemas import KNOWN, Body
from support_agent.domain.money import MAX_MINOR, Money
from support_agent.services.amendments import LONGEST_QUESTION
from support_agent.services.decision_desk import Approve, Ask, Reduce, Reject, Wish

LONGEST_NOTE = 1_000
NO_NUL = r"^[^\x00]*$"


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


Note = Annotated[
    str | None,
    Field(max_length=LONGEST_NOTE, pattern=NO_NUL, description="Why, for those who look later."),
    AfterValidator(lambda note: note and _composed(note)),
]


class Amount(Body):
    """More than nothing, in the currency of the request."""

    amount_minor: int = Field(ge=1, le=MAX_MINOR, examples=[150000])
    currency: str = Field(examples=["VND"], json_schema_extra=KNOWN)


class ApproveBody(Body):
    """Pay it. With four eyes it waits on for the second person."""

    decision: Literal["approve"]
    note: Note = None


class RejectBody(Body):
    """Do not pay it; the customer is told, and may ask again."""

    decision: Literal["reject"]
    note: Note = None


class ReduceBody(Body):
    """Lower the amount. Decisions so far are void: it still has to be approved."""

    decision: Literal["reduce"]
    amount: Amount
    note: Note = None


class AskBody(Body):
    """Ask the customer in the request's conversation; it waits on, expiring as before."""

    decision: Literal["ask"]
    question: str = Field(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)


DecisionBody = Annotated[
    ApproveBody | RejectBody | ReduceBody | AskBody, Field(discriminator="decision")
]


def wish_of(body: ApproveBody | RejectBody | ReduceBody | AskBody) -> Wish:
    """The decision as it is made.

    Raises:
        InvalidInput: a currency that is not known.
    """
    match body:
        case ApproveBody():
            return Approve(note=body.note)
        case RejectBody():
            return Reject(note=body.note)
        case ReduceBody():
            amount = Money(amount_minor=body.amount.amount_minor, currency=body.amount.currency)
            return Reduce(amount=amount, note=body.note)
        case AskBody():
            return Ask(question=body.question)

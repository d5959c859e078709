"""Conversations, messages, runs and their steps as the API gives them."""

from collections.abc import Sequence
from typing import Any, Literal, assert_never

from pydantic import Field

from support_agent.agent.results import TurnResult
from support_agent.api.schemas import Instant, Money, Shape, money
from support_agent.domain.call_arguments import arguments_of
from support_agent.domain.conversation import Author, Conversation, Message
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import Quote, RequestStatus
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    FinalAnswer,
    RecordedCall,
    Run,
    RunStatus,
    RunStep,
    StopReason,
)

AssuranceName = Literal["none", "claimed", "verified"]


class ConversationShape(Shape):
    """A conversation. Its customer, channel and assurance never change.

    `assurance` is how sure it was who the customer is when it was opened. `handed_off`: a person
    at the shop has it, and the agent says nothing. `erased`: its texts are gone, and it is closed.
    """

    id: str
    channel: str
    account: str
    customer_id: str | None
    assurance: AssuranceName
    language: Language
    created_at: Instant
    handed_off: bool
    last_seq: int
    erased: bool


class MessageShape(Shape):
    """A message. `seq` counts up from 1 without gaps, in its conversation.

    `author`: `notice` is what code says of a refund outside of a turn. `run_id` is the run that
    read it, or that wrote it.
    """

    seq: int
    author: Author
    text: str
    at: Instant
    run_id: str | None


class UsageShape(Shape):
    """What the model calls of a run took."""

    requests: int
    input_tokens: int
    output_tokens: int


class QuoteShape(Shape):
    """An offer that waits for the customer's yes; those of one group are one offer."""

    id: str
    group_id: str
    order_id: str
    amount: Money
    expires_at: Instant
    needs_person: bool


class CallShape(Shape):
    """A call of a tool. `ok` and `observation` are null until it is answered.

    `n` counts the calls of the run. `arguments` are the model's, mostly an object.
    """

    n: int
    tool: str
    arguments: Any
    ok: bool | None
    observation: str | None
    error_code: str | None


class StepShape(Shape):
    """One decision of the model. `thought` and `text`, its own words, are for staff only.

    What the customer was told is the run's answer: code checks it, and adds what is true of money.
    """

    step: int
    kind: Literal["call", "answer", "question"]
    at: Instant
    calls: list[CallShape]
    thought: str | None = None
    text: str | None = None


class RunBrief(Shape):
    """A run, and how it stands. `stop_reason` is null while it goes on."""

    id: str
    conversation_id: str
    status: RunStatus
    stop_reason: StopReason | None
    started_at: Instant


class RunShape(RunBrief):
    """A run with what it came to. `answer` is null while it goes on, and where it said nothing.

    `pending_approvals` are the refund requests of it that wait for a person.
    """

    operator: str | None
    answer: str | None
    quotes: list[QuoteShape]
    usage: UsageShape
    pending_approvals: list[str]


class TurnShape(Shape):
    """A message that was answered in time. The answer is empty where a person has it."""

    conversation_id: str
    message: MessageShape
    run_id: str
    status: RunStatus
    stop_reason: StopReason
    answer: str
    steps: list[CallShape]
    quotes: list[QuoteShape]
    usage: UsageShape
    pending_approvals: list[str]


class TakenShape(Shape):
    """A message that is taken and will be answered. `run` is the one that reads it.

    It is null while turns before it come first; then the conversation's messages and events tell.
    """

    conversation_id: str
    message: MessageShape
    run: RunBrief | None
    run_id: str | None = Field(description="The same as `run.id`.")


def conversation_shape(found: Conversation) -> ConversationShape:
    """The conversation as it stands."""
    same = set(ConversationShape.model_fields) - {"assurance"}
    return ConversationShape.model_validate(
        {name: getattr(found, name) for name in same} | {"assurance": found.assurance.name.lower()}
    )


def run_shape(run: Run, result: TurnResult | None) -> RunShape:
    """A run, with its result once it has one."""
    return RunShape.model_validate(
        RunBrief.model_validate(run).model_dump()
        | {
            "operator": run.operator,
            "answer": (result.answer or None) if result else None,
            "quotes": _quotes(result.quotes) if result else [],
            "usage": UsageShape.model_validate(run.usage),
            "pending_approvals": _pending(result) if result else [],
        }
    )


def turn_shape(result: TurnResult, message: Message) -> TurnShape:
    """What a message was answered with."""
    return TurnShape.model_validate(
        {
            "conversation_id": result.conversation_id,
            "message": MessageShape.model_validate(message),
            "run_id": result.run_id,
            "status": result.status,
            "stop_reason": result.stop_reason,
            "answer": result.answer,
            "steps": [call for calls in calls_of(result.steps) for call in calls],
            "quotes": _quotes(result.quotes),
            "usage": UsageShape.model_validate(result.usage),
            "pending_approvals": _pending(result),
        }
    )


def taken_shape(message: Message, run: Run | None) -> TakenShape:
    """A message, and the run that reads it if one does."""
    return TakenShape(
        conversation_id=message.conversation_id,
        message=MessageShape.model_validate(message),
        run=None if run is None else RunBrief.model_validate(run),
        run_id=None if run is None else run.id,
    )


def step_shapes(steps: Sequence[RunStep], *, for_staff: bool) -> list[StepShape]:
    """All that was decided, in order."""
    calls = calls_of(steps)
    return [step_shape(step, calls[index], for_staff=for_staff) for index, step in enumerate(steps)]


def step_shape(step: RunStep, calls: Sequence[CallShape], *, for_staff: bool) -> StepShape:
    """One decision with these calls."""
    kind: Literal["call", "answer", "question"]
    match step.decision:
        case CallTools():
            kind, text = "call", None
        case FinalAnswer(text=text):
            kind = "answer"
        case AskCustomer(question=text):
            kind = "question"
        case _:
            assert_never(step.decision)
    return StepShape(
        step=step.number,
        kind=kind,
        at=step.at,
        calls=[*calls],
        thought=step.decision.thought if for_staff else None,
        text=text if for_staff else None,
    )


def calls_of(steps: Sequence[RunStep]) -> list[list[CallShape]]:
    """The calls of each step, counted through the run."""
    found: list[list[CallShape]] = []
    number = 0
    for step in steps:
        found.append([_call(recorded, number + n) for n, recorded in enumerate(step.calls, 1)])
        number += len(step.calls)
    return found


def _call(recorded: RecordedCall, number: int) -> CallShape:
    seen = recorded.observation
    return CallShape(
        n=number,
        tool=recorded.call.name,
        arguments=arguments_of(recorded.call),
        ok=seen.ok if seen else None,
        observation=seen.content if seen else None,
        error_code=seen.error_code if seen else None,
    )


def _quotes(quotes: Sequence[Quote]) -> list[dict[str, object]]:
    same = ("id", "group_id", "order_id", "expires_at", "needs_person")
    return [
        {name: getattr(quote, name) for name in same}
        | {"amount": money(quote.amount_minor, quote.currency)}
        for quote in quotes
    ]


def _pending(result: TurnResult) -> list[str]:
    waiting = RequestStatus.PENDING_APPROVAL
    return [request.id for request in result.requests if request.status is waiting]

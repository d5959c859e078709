"""The brief of an approver: computed facts first, what others wrote last and under `untrusted`."""

from datetime import date, datetime

from pydantic import Field

from support_agent.api.schemas import Instant, Money, Shape, money
from support_agent.api.shapes_refunds import (
    ApprovalShape,
    DecisionShape,
    RefundShape,
    RequestFacts,
    approval_fields,
    decision_shape,
    refund_shape,
    request_facts,
)
from support_agent.domain.conversation import Author
from support_agent.domain.orders import Order, OrderStatus
from support_agent.domain.policy import Assessment, Verdict
from support_agent.domain.reasons import Language, Reason, sentence
from support_agent.domain.text import visible
from support_agent.services.brief_words import clauses, why_a_person
from support_agent.services.briefs import Brief

MOST_MESSAGES = 50
LONGEST_TEXT = 4_000  # of anything that others wrote


class OrderShape(Shape):
    """The order as the shop tells it now."""

    id: str
    status: OrderStatus
    total: Money
    placed_at: Instant
    delivered_at: datetime | date | None = Field(
        description="An instant, or a day where the shop knows no hour."
    )


class AssessmentShape(Shape):
    """The policy's verdict on the order today, this request aside."""

    verdict: Verdict
    reasons: list[Reason]
    sentences: list[str]
    days_since_delivery: int | None
    window_days: int | None
    last_day: date | None
    max_refundable: Money


class MessageOfBrief(Shape):
    seq: int
    at: Instant
    author: Author
    text: str


class ModelProposal(Shape):
    """What the model did about the request, and why it says it did."""

    tool: str
    arguments: str
    thought: str


class Untrusted(Shape):
    r"""What customers, the shop's texts, approvers and the model wrote; it changes no rule.

    Controls, bidi controls and other invisible characters are written out (`\u202e`), and each
    text ends after 4,000 characters, so that none can pass for a fact beside it. Texts, no HTML.
    """

    messages: list[MessageOfBrief] = Field(description="The newest of the conversation.")
    messages_left_out: int = Field(description="How many came before these.")
    model: list[ModelProposal]
    lines: dict[str, str] = Field(description="Names of the order's lines, by their ids.")
    order_note: str | None
    account_holder: str | None
    decision_notes: list[str]


class BriefShape(ApprovalShape):
    """What an approver needs to see; decide on exactly this `version`."""

    filed_with: RequestFacts
    order: OrderShape | None = Field(description="None when the shop no longer knows it.")
    assessment: AssessmentShape | None
    cumulative: Money = Field(description="All refunds of the order, this one included.")
    why_a_person: list[str]
    clauses: list[str] = Field(description="The policy's fields behind it.")
    destination: str = Field(description="Where the money goes, an account number masked.")
    may_decide: list[str] = Field(description="Approvers whose level and limit reach.")
    decisions: list[DecisionShape]
    group: list[RefundShape] = Field(description="The requests that are decided with it.")
    earlier_requests: list[RefundShape]
    untrusted: Untrusted


def brief_shape(brief: Brief, language: Language, now: datetime) -> BriefShape:
    """The brief as it is given out; `now` tells what is overdue."""
    request = brief.request
    return BriefShape.model_validate(
        approval_fields(request, now=now, is_held=brief.is_held)
        | {
            "filed_with": request_facts(request),
            "order": _order(brief.order) if brief.order else None,
            "assessment": _assessment(brief.assessment, language) if brief.assessment else None,
            "cumulative": money(brief.cumulative_minor, request.currency),
            "why_a_person": why_a_person(brief, language),
            "clauses": clauses(brief),
            "destination": brief.destination,
            "may_decide": brief.deciders,
            "decisions": [decision_shape(decision) for decision in brief.decisions],
            "group": [refund_shape(other) for other in brief.group],
            "earlier_requests": [refund_shape(other) for other in brief.earlier],
            "untrusted": _untrusted(brief),
        }
    )


def _order(order: Order) -> OrderShape:
    return OrderShape.model_validate(
        {
            "id": order.id,
            "status": order.status,
            "total": money(order.total_minor, order.currency),
            "placed_at": order.placed_at,
            "delivered_at": order.delivered_at,
        }
    )


def _assessment(found: Assessment, language: Language) -> AssessmentShape:
    return AssessmentShape.model_validate(
        {
            "verdict": found.verdict,
            "reasons": found.reasons,
            "sentences": [sentence(reason, language, **found.facts) for reason in found.reasons],
            "days_since_delivery": found.days_since_delivery,
            "window_days": found.window_days,
            "last_day": found.last_day,
            "max_refundable": money(found.max_refundable_minor, found.currency),
        }
    )


def _untrusted(brief: Brief) -> Untrusted:
    order, newest = brief.order, brief.conversation[-MOST_MESSAGES:]
    return Untrusted.model_validate(
        {
            "messages": [
                {"seq": one.seq, "at": one.at, "author": one.author, "text": _shown(one.text)}
                for one in newest
            ],
            "messages_left_out": len(brief.conversation) - len(newest),
            "model": [
                {
                    "tool": _shown(one.tool),
                    "arguments": _shown(one.arguments),
                    "thought": _shown(one.thought),
                }
                for one in brief.proposals
            ],
            "lines": {line.id: _shown(line.name) for line in order.lines} if order else {},
            "order_note": _shown(order.note) if order and order.note else None,
            "account_holder": _shown(brief.account.holder) if brief.account else None,
            "decision_notes": [_shown(one.note) for one in brief.decisions if one.note],
        }
    )


def _shown(text: str) -> str:
    return visible(text, LONGEST_TEXT, keep_newlines=True)

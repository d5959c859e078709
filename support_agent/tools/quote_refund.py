"""Quote a refund: the exact amount, which code then shows to the customer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Any, ClassVar

from pydantic import Field

from support_agent.domain.allocation import Wish
from support_agent.domain.errors import InvalidArguments
from support_agent.domain.money import MAX_MINOR
from support_agent.domain.orders import Order
from support_agent.domain.reasons import sentence
from support_agent.ports.storage import Transaction
from support_agent.ports.tool import Arguments, CallContext, Effect, ToolOutput, WriteTool
from support_agent.services.order_lookup import OrderLookup
from support_agent.services.quotes import Quotes
from support_agent.tools.arguments import Identifier, OrderId


class LineArguments(Arguments):
    line_id: Identifier
    quantity: Annotated[int, Field(ge=1, le=10_000)]


class QuoteRefundArguments(Arguments):
    order_id: OrderId
    amount: Annotated[
        int | None,
        Field(
            gt=0,
            le=MAX_MINOR,
            description="Only for a part: whole minor units, 50000 for 50.000 ₫. Not with lines",
        ),
    ] = None
    lines: Annotated[
        tuple[LineArguments, ...] | None,
        Field(min_length=1, max_length=100, description="Only for some items. Not with amount"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    order: Order
    wish: Wish


class QuoteRefund(WriteTool[QuoteRefundArguments, Prepared]):
    """Makes the one open quote of the conversation."""

    name: ClassVar[str] = "quote_refund"
    description: ClassVar[str] = (
        "Compute the exact refund of an order and offer it to the customer (báo giá hoàn tiền). "
        "Use it when the customer wants money back; without amount and lines it is all that can be "
        "refunded. Returns quote_id, amount, and whether a person must approve. The offer itself "
        "is shown by the shop's code: ask the customer for yes or no and stop. Over several "
        "payments it is still one offer with one quote_id. It replaces any earlier quote."
    )
    effect: ClassVar[Effect] = Effect.WRITE
    arguments = QuoteRefundArguments

    def __init__(self, *, lookup: OrderLookup, quotes: Quotes, zone: tzinfo) -> None:
        self._lookup = lookup
        self._quotes = quotes
        self._zone = zone

    async def prepare(self, arguments: QuoteRefundArguments, context: CallContext) -> Prepared:
        order = await self._lookup.owned(arguments.order_id, context.asker)
        return Prepared(order=order, wish=_wish(arguments))

    def apply(self, tx: Transaction, prepared: Prepared, context: CallContext) -> ToolOutput:
        group, offer = self._quotes.make(
            tx, order=prepared.order, wish=prepared.wish, asker=context.asker
        )
        first = group[0]
        content: dict[str, Any] = {
            "quote_id": first.id,
            "order_id": first.order_id,
            "amount": offer.amount_minor,
            "currency": first.currency,
            "destination": first.method.value,
            "needs_person": first.needs_person,
            "required_level": first.required_level,
            "expires_at": first.expires_at.astimezone(self._zone).isoformat(timespec="minutes"),
        }
        if len(group) > 1:
            del content["destination"]
            content["parts"] = [
                {"amount": quote.amount_minor, "destination": quote.method.value} for quote in group
            ]
        if offer.deduction_minor:
            content["deduction"] = offer.deduction_minor
        if offer.notes:
            facts = offer.assessment.facts
            content["notes"] = [sentence(note, context.language, **facts) for note in offer.notes]
        return ToolOutput(content=content, quote_ids=tuple(quote.id for quote in group))

    def headline(self, content: Mapping[str, Any]) -> str:
        return ", ".join(f"{key}={content[key]}" for key in ("quote_id", "amount", "needs_person"))


def _wish(arguments: QuoteRefundArguments) -> Wish:
    if arguments.lines is None:
        return Wish(amount_minor=arguments.amount)
    units = {line.line_id: line.quantity for line in arguments.lines}
    if len(units) != len(arguments.lines):
        raise InvalidArguments({"lines": "each line_id may appear once; add the quantities up"})
    return Wish(units=units, amount_minor=arguments.amount)

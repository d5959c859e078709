"""What a model may see of an order: an allow-list of ids, states, dates, lines and amounts."""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from support_agent.domain.orders import Moment, Order, OrderLine
from support_agent.domain.policy import Assessment, LineAssessment
from support_agent.domain.reasons import Language, sentence


def local_day(moment: Moment, zone: tzinfo) -> str:
    """The civil day in the shop's zone, ISO."""
    if isinstance(moment, datetime):
        moment = moment.astimezone(zone).date()
    return moment.isoformat()


def order_headline(order: Order, zone: tzinfo) -> dict[str, Any]:
    """One order in short. An address, phone, e-mail or name is never in here."""
    view: dict[str, Any] = {"status": order.status.value, "total": order.total_minor}
    if order.delivered_at is not None:
        view["delivered_at"] = local_day(order.delivered_at, zone)
    return view | {
        "order_id": order.id,
        "currency": order.currency,
        "placed_at": local_day(order.placed_at, zone),
    }


def line_view(line: OrderLine, assessed: LineAssessment | None, zone: tzinfo) -> dict[str, Any]:
    """One line, amounts in minor units; `refundable` is what could be asked for of it now."""
    view: dict[str, Any] = {
        "line_id": line.id,
        "name": line.name,
        "quantity": line.quantity,
        "total": line.total_minor,
        "returnable": line.returnable,
        "refundable": assessed.refundable_minor if assessed else 0,
    }
    if line.delivered_at is not None:
        view["delivered_at"] = local_day(line.delivered_at, zone)
    return view


def verdict_view(
    assessment: Assessment, language: Language, open_request_ids: tuple[str, ...]
) -> Mapping[str, Any]:
    """The policy's verdict, with every number computed so that the model computes none."""
    return {
        "verdict": assessment.verdict.value,
        "days_since_delivery": assessment.days_since_delivery,
        "window_days": assessment.window_days,
        "last_day": assessment.last_day.isoformat() if assessment.last_day else None,
        "max_refundable": assessment.max_refundable_minor,
        "codes": [reason.value for reason in assessment.reasons],
        "reasons": [sentence(r, language, **assessment.facts) for r in assessment.reasons],
        "open_request_ids": list(open_request_ids),
    }

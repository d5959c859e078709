"""Routes of `/v1/provider-events`: payment providers prove themselves by their signature."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.exceptions import HTTPException

from support_agent.api.bodies import read_body
from support_agent.api.guarded import problems
from support_agent.api.schemas import Shape
from support_agent.api.wiring import ProviderEventsOf, SettingsOf

MOST_BYTES = 1_048_576  # of an event; some hold all of what they are about
STRIPE = "stripe"

router = APIRouter(tags=["provider-events"])


class TakenShape(Shape):
    """An event that was taken in, now or before; `outcome` is what it came to."""

    event_id: str
    outcome: str


@router.post(
    "/v1/provider-events/{gateway}",
    responses=problems(
        {
            400: "Not genuine, not of now, not for us, or not readable; nothing was changed",
            404: "Events of this gateway are not taken here",
            408: "The body did not arrive in time",
            413: f"Larger than {MOST_BYTES} bytes",
            503: "The gateway could not be asked; nothing is kept, so that the event comes again",
        }
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The event, in the bytes that were signed.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
)
async def receive_provider_event(
    gateway: Annotated[str, Path(max_length=100, examples=[STRIPE])],
    request: Request,
    events: ProviderEventsOf,
    settings: SettingsOf,
) -> TakenShape:
    """Take in an event of the payment gateway.

    No key is asked for: the signature of the `Stripe-Signature` header is the proof. The event is
    only a hint; what happened is asked of the gateway. The answer comes when all that follows from
    it is committed, and the same event again changes nothing.
    """
    if events is None or gateway != STRIPE:
        raise HTTPException(404)
    body = await read_body(request, most=MOST_BYTES, within_s=settings.api.body_seconds)
    entry = await events.receive(body, request.headers)
    return TakenShape(event_id=entry.event_id, outcome=entry.outcome)

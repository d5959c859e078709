"""Routes of `/v1/webhook-endpoints`: where events are sent, and what became of them."""

from typing import Annotated

from fastapi import Query, Response

from support_agent.api.access import CallerOf
from support_agent.api.guarded import guarded_router, needs, never_kept, problems
from support_agent.api.schemas import Cursor, Limit, Listed, listed
from support_agent.api.shapes_webhooks import (
    CreatedShape,
    DeliveryShape,
    EndpointBody,
    EndpointChange,
    EndpointShape,
    SecretShape,
    created_shape,
    delivery_shape,
    endpoint_shape,
)
from support_agent.api.wiring import WebhooksOf
from support_agent.domain.access import Scope
from support_agent.domain.webhooks import DeliveryState
from support_agent.ports.storage import Page

router = guarded_router("webhook-endpoints")

READ = needs(Scope.WEBHOOKS_READ, Scope.WEBHOOKS_MANAGE)
MANAGE = needs(Scope.WEBHOOKS_MANAGE)
ONE = "/v1/webhook-endpoints/{endpoint_id}"
MISSING = {404: "No such endpoint"}


@router.post(
    "/v1/webhook-endpoints",
    dependencies=[MANAGE, never_kept("secret")],
    status_code=201,
    responses=problems({409: "There are as many as there may be"}),
)
async def create_webhook_endpoint(
    body: EndpointBody, caller: CallerOf, webhooks: WebhooksOf, response: Response
) -> CreatedShape:
    """Have events sent to an address from now on.

    Each is signed by [Standard Webhooks](https://www.standardwebhooks.com) with the `secret` of
    this answer. Only https:// and hosts of the open internet are taken, and what a name leads to is
    checked again at each sending.
    """
    endpoint, secret = await webhooks.create(
        url=body.url, events=body.events, by=caller.key.principal
    )
    response.headers["Location"] = f"/v1/webhook-endpoints/{endpoint.id}"
    return created_shape(endpoint, secret)


@router.get("/v1/webhook-endpoints", dependencies=[READ])
async def list_webhook_endpoints(webhooks: WebhooksOf) -> Listed[EndpointShape]:
    """All endpoints, the oldest first; they fit on one page."""
    page = Page(data=await webhooks.list(), next_cursor=None)
    return listed(page, EndpointShape, [endpoint_shape(one) for one in page.data])


@router.get(ONE, dependencies=[READ], responses=problems(MISSING))
async def get_webhook_endpoint(endpoint_id: str, webhooks: WebhooksOf) -> EndpointShape:
    """One endpoint, without its secret."""
    return endpoint_shape(await webhooks.get(endpoint_id))


@router.patch(ONE, dependencies=[MANAGE], responses=problems(MISSING))
async def change_webhook_endpoint(
    endpoint_id: str, body: EndpointChange, caller: CallerOf, webhooks: WebhooksOf
) -> EndpointShape:
    """Change its address or events, disable or enable it.

    A disabled endpoint gets nothing of what happens meanwhile; what already was on its way to it
    goes out when it is enabled again.
    """
    return endpoint_shape(
        await webhooks.change(
            endpoint_id,
            url=body.url,
            events=body.events,
            state=body.state,
            by=caller.key.principal,
        )
    )


@router.delete(ONE, dependencies=[MANAGE], status_code=204, responses=problems(MISSING))
async def delete_webhook_endpoint(endpoint_id: str, caller: CallerOf, webhooks: WebhooksOf) -> None:
    """Delete it with its deliveries."""
    await webhooks.delete(endpoint_id, by=caller.key.principal)


@router.get(
    f"{ONE}/secret",
    dependencies=[MANAGE],
    responses=problems(
        MISSING | {409: "The key that it is made from is gone; rotate it for another one"}
    ),
)
async def get_webhook_secret(
    endpoint_id: str, webhooks: WebhooksOf, response: Response
) -> SecretShape:
    """The secret that events are signed with."""
    response.headers["Cache-Control"] = "no-store"
    return SecretShape(secret=await webhooks.secret(endpoint_id))


@router.post(
    f"{ONE}/rotate", dependencies=[MANAGE, never_kept("secret")], responses=problems(MISSING)
)
async def rotate_webhook_secret(
    endpoint_id: str, caller: CallerOf, webhooks: WebhooksOf
) -> CreatedShape:
    """Give it a new secret. For 24 hours events are signed with both."""
    endpoint, secret = await webhooks.rotate(endpoint_id, by=caller.key.principal)
    return created_shape(endpoint, secret)


@router.get(f"{ONE}/deliveries", dependencies=[READ], responses=problems(MISSING))
async def list_webhook_deliveries(
    endpoint_id: str,
    webhooks: WebhooksOf,
    *,
    state: Annotated[DeliveryState | None, Query()] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[DeliveryShape]:
    """What was sent, is on its way or was given up, the newest first.

    Kept for `RETENTION__DELIVERY_DAYS`.
    """
    page = await webhooks.deliveries(endpoint_id, state=state, limit=limit, cursor=cursor)
    return listed(page, DeliveryShape, [delivery_shape(one) for one in page.data])


@router.post(
    f"{ONE}/deliveries/{{delivery_id}}/redeliver",
    dependencies=[MANAGE],
    status_code=202,
    responses=problems(
        {404: "No such endpoint, or no such delivery of it", 409: "The endpoint is disabled"}
    ),
)
async def redeliver_webhook(
    endpoint_id: str, delivery_id: str, caller: CallerOf, webhooks: WebhooksOf
) -> DeliveryShape:
    """Try it once more, now, with the same `webhook-id`; also what was taken before."""
    delivery = await webhooks.redeliver(endpoint_id, delivery_id, by=caller.key.principal)
    return delivery_shape(delivery)

"""Routes of `/v1/refunds`: all requests for staff, and their own for customers."""

from typing import Annotated

from fastapi import Query

from support_agent.api.access import CallerOf
from support_agent.api.guarded import guarded_router, needs, problems
from support_agent.api.problems import ProblemError
from support_agent.api.schemas import Cursor, Lang, Limit, Listed, listed
from support_agent.api.shapes_refunds import (
    OwnRefundShape,
    RefundDetails,
    RefundShape,
    own_refund,
    refund_details,
    refund_shape,
)
from support_agent.api.taking import acting_of
from support_agent.api.wiring import CustomerRefundsOf, DatabaseOf, SettingsOf
from support_agent.domain.access import Scope
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.stored_requests import stored_request

router = guarded_router("refunds")
NEEDS_CUSTOMER = "The key speaks for customers, and it is not said for which one"
NOT_THEIRS = "No such request, or another customer's"
Id = Annotated[str | None, Query(max_length=200)]


@router.get(
    "/v1/refunds",
    dependencies=[needs(Scope.REFUNDS_READ, Scope.CUSTOMERS_ACT)],
    responses=problems({400: NEEDS_CUSTOMER}),
)
async def list_refunds(
    caller: CallerOf,
    database: DatabaseOf,
    own: CustomerRefundsOf,
    settings: SettingsOf,
    *,
    status: RequestStatus | None = None,
    customer_id: Id = None,
    order_id: Id = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    lang: Lang = None,
) -> Listed[RefundShape] | Listed[OwnRefundShape]:
    """Refund requests, the newest first; those that wait for a person by the order of the queue.

    A key that speaks for a customer gets that customer's, of all conversations, in a shape of
    their own; the customer has to be proved to be one.
    """
    if caller.acting is None:
        where = RequestFilter(status=status, customer_id=customer_id, order_id=order_id)
        page = await database.read(lambda tx: tx.requests.list(where, limit=limit, cursor=cursor))
        return listed(page, RefundShape, [refund_shape(request) for request in page.data])
    if customer_id not in {None, caller.acting.customer_id}:
        raise ProblemError(403, "NOT_THIS_CUSTOMER", "the key speaks for another customer here")
    mine = await own.page(
        caller.acting, status=status, order_id=order_id, limit=limit, cursor=cursor
    )
    language = lang or settings.shop.language
    return listed(mine, OwnRefundShape, [own_refund(one, language) for one in mine.data])


@router.get(
    "/v1/refunds/{request_id}",
    dependencies=[needs(Scope.REFUNDS_READ, Scope.CUSTOMERS_ACT)],
    responses=problems({400: NEEDS_CUSTOMER, 404: NOT_THEIRS}),
)
async def get_refund(
    request_id: str,
    caller: CallerOf,
    database: DatabaseOf,
    own: CustomerRefundsOf,
    settings: SettingsOf,
    *,
    lang: Lang = None,
) -> RefundDetails | OwnRefundShape:
    """One request: for staff with its decisions and every try to pay it, for a customer theirs."""
    if caller.acting is None:
        return await database.read(lambda tx: _details(tx, request_id))
    mine = await own.get(caller.acting, request_id)
    return own_refund(mine, lang or settings.shop.language)


@router.post(
    "/v1/refunds/{request_id}/cancel",
    dependencies=[needs(Scope.CUSTOMERS_ACT)],
    responses=problems({400: NEEDS_CUSTOMER, 404: NOT_THEIRS, 409: "It is final already"}),
)
async def cancel_refund(
    request_id: str,
    caller: CallerOf,
    own: CustomerRefundsOf,
    settings: SettingsOf,
    *,
    lang: Lang = None,
) -> OwnRefundShape:
    """The customer takes a request back, and what was filed with it, before it is paid.

    Once a try to pay it exists that is refused: 422 with the reason ALREADY_PAYING.
    """
    cancelled = await own.cancel(acting_of(caller), request_id)
    return own_refund(cancelled, lang or settings.shop.language)


def _details(tx: Transaction, request_id: str) -> RefundDetails:
    request = stored_request(tx, request_id)
    return refund_details(request, tx.decisions.of(request_id), tx.attempts.of(request_id))

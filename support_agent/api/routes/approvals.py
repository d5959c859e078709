"""Routes of `/v1/approvals`: the queue, the brief of each request, and deciding it."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import Query, Response
from pydantic import Field

from support_agent.api.access import CallerOf
from support_agent.api.decision_bodies import DecisionBody, wish_of
from support_agent.api.etags import VersionSeen, etag
from support_agent.api.guarded import guarded_router, needs, problems
from support_agent.api.problems import words_of
from support_agent.api.schemas import KNOWN, Cursor, Lang, Limit, Listed, Shape, listed
from support_agent.api.shapes_brief import BriefShape, brief_shape
from support_agent.api.shapes_refunds import (
    LONGEST_DETAIL,
    ApprovalShape,
    RefundShape,
    approval_shape,
    refund_shape,
)
from support_agent.api.wiring import (
    ApiKeysOf,
    ApprovalsOf,
    ClockOf,
    DatabaseOf,
    DecisionDeskOf,
    SettingsOf,
)
from support_agent.domain.access import Scope
from support_agent.domain.errors import InvalidInput
from support_agent.domain.money import MAX_MINOR, check_currency
from support_agent.domain.people import Proof
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.text import visible
from support_agent.ports.storage import RequestFilter
from support_agent.services.briefs import queue_page
from support_agent.services.decision_desk import Decided

router = guarded_router("approvals")
PENDING = RequestStatus.PENDING_APPROVAL
MOST_MINUTES = 10 * 366 * 24 * 60

Minor = Annotated[
    int | None, Query(ge=0, le=MAX_MINOR, description="In minor units of `currency`, or of VND.")
]


class PayoutTrouble(Shape):
    """Why the payout after an approval was not made yet; it is tried again by itself."""

    code: str
    detail: str


class DecidedShape(Shape):
    """A decision that stands. What the payout came to is in the request's status."""

    decision: str
    by: str
    proof: Proof
    request: ApprovalShape
    group: list[RefundShape] = Field(description="The others that were decided with it.")
    paid_by_worker: bool = Field(description="Another process pays what was approved.")
    payout_error: PayoutTrouble | None


@router.get("/v1/approvals", dependencies=[needs(Scope.APPROVALS_READ)])
async def list_approvals(
    database: DatabaseOf,
    clock: ClockOf,
    *,
    status: RequestStatus = PENDING,
    customer_id: Annotated[str | None, Query(max_length=200)] = None,
    order_id: Annotated[str | None, Query(max_length=200)] = None,
    level: Annotated[
        int | None, Query(ge=1, le=9, description="Only what needs exactly this level.")
    ] = None,
    currency: Annotated[str | None, Query(json_schema_extra=KNOWN)] = None,
    min_amount_minor: Minor = None,
    max_amount_minor: Minor = None,
    older_than_minutes: Annotated[
        int | None, Query(ge=0, le=MOST_MINUTES, description="Filed longer ago than this.")
    ] = None,
    overdue: Annotated[
        bool, Query(description="Only what somebody should have decided by now.")
    ] = False,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[ApprovalShape]:
    """Requests that wait for a person: escalated ones first, then the oldest.

    With another `status` those that were, the newest first.
    """
    now = clock.now()
    where = _filter(
        RequestFilter(
            status=status,
            customer_id=customer_id,
            order_id=order_id,
            level=level,
            currency=currency,
            least_minor=min_amount_minor,
            most_minor=max_amount_minor,
            filed_before=None
            if older_than_minutes is None
            else now - timedelta(minutes=older_than_minutes),
            due_before=now if overdue else None,
        )
    )
    page, held = await database.read(lambda tx: queue_page(tx, where, limit=limit, cursor=cursor))
    data = [approval_shape(one, now=now, is_held=one.id in held) for one in page.data]
    return listed(page, ApprovalShape, data)


@router.get(
    "/v1/approvals/{request_id}",
    dependencies=[needs(Scope.APPROVALS_READ)],
    responses=problems({404: "No such request", 503: "The shop's order system did not answer"}),
)
async def get_approval(
    request_id: str,
    response: Response,
    approvals: ApprovalsOf,
    clock: ClockOf,
    settings: SettingsOf,
    *,
    lang: Lang = None,
) -> BriefShape:
    """The brief of a request: computed facts first; what others wrote stands under `untrusted`.

    `ETag` is the version to decide on.
    """
    brief = await approvals.brief(request_id)
    response.headers["ETag"] = etag(brief.request.version)
    return brief_shape(brief, lang or settings.shop.language, clock.now())


@router.post(
    "/v1/approvals/{request_id}/decision",
    dependencies=[needs(Scope.APPROVALS_DECIDE)],
    responses=problems(
        {
            404: "No such request",
            409: "It was decided by somebody else, or by this person already; or it has expired",
            412: "It is at another version than the one that was seen: look again",
            428: "If-Match is missing",
            503: "The shop's order system did not answer; nothing was decided",
        }
    ),
)
async def decide_approval(
    request_id: str,
    body: DecisionBody,
    response: Response,
    caller: CallerOf,
    keys: ApiKeysOf,
    desk: DecisionDeskOf,
    clock: ClockOf,
    seen: VersionSeen,
) -> DecidedShape:
    """Approve, reject, lower or ask, as the approver whose key this is, on the version they saw.

    200 once the decision stands, whatever the payout that follows an approval comes to: that is in
    the request's status and in `payout_error`, and it is tried again without anybody's doing.
    """
    wish = wish_of(body)
    by = await keys.decider(caller.key)
    decided = await desk.decide(request_id, wish, by=by, expect=seen)
    response.headers["ETag"] = etag(decided.request.version)
    return DecidedShape(
        decision=body.decision,
        by=by.id,
        proof=by.proof,
        request=approval_shape(decided.request, now=clock.now(), is_held=decided.is_held),
        group=[refund_shape(member) for member in decided.group],
        paid_by_worker=decided.by_worker,
        payout_error=_trouble(decided),
    )


def _trouble(decided: Decided) -> PayoutTrouble | None:
    error = decided.trouble
    if error is None:
        return None
    return PayoutTrouble(code=error.code, detail=visible(words_of(error), LONGEST_DETAIL))


def _filter(where: RequestFilter) -> RequestFilter:
    """Bounds without a currency are of VND, as on the command line.

    Raises:
        InvalidInput: a currency that is not known, or bounds the wrong way round.
    """
    low, high = where.least_minor, where.most_minor
    if where.currency is not None:
        check_currency(where.currency)
    if low is not None and high is not None and low > high:
        raise InvalidInput("min_amount_minor", "is above max_amount_minor; swap them")
    if where.currency is None and (low, high) != (None, None):
        return replace(where, currency="VND")
    return where

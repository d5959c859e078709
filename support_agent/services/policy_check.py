"""Which requests a new policy would change: asked before it is put in force, changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from support_agent.domain.assessment import assess, required_approvals
from support_agent.domain.errors import RefundRefused
from support_agent.domain.offers import Scrutiny
from support_agent.domain.orders import Order
from support_agent.domain.policy import OrderBooks, Policy, Verdict
from support_agent.domain.policy_change import raised_by
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import OPEN, RefundRequest, RequestStatus
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, RequestFilter, Transaction
from support_agent.services.policies import PoliciesInForce
from support_agent.services.standing import is_of

MOST = 1_000  # requests that are looked at, the newest of them
PAGE = 200
# Of these the amount was held or paid; the others took nothing of the order in the end.
TOOK = OPEN | {RequestStatus.REFUNDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a policy says of one request; a level of None: it would not be accepted at all."""

    verdict: Verdict
    level: int | None
    approvals: int | None
    last_day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A request on which the two policies differ."""

    request: RefundRequest
    before: Outcome
    after: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """What `policies check` found."""

    in_force: Policy
    raised: tuple[str, ...]  # where the new policy lets more pass
    checked: int
    cut: bool  # there are more requests than were looked at
    effects: tuple[Effect, ...]
    missing: tuple[str, ...]  # orders that the shop no longer has, or has for another customer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A request's own facts: when it is judged, and what else was taken of its order by then."""

    request: RefundRequest
    at: datetime
    books: OrderBooks
    cumulative_minor: int


class PolicyCheck:
    """Compares two policies over real requests: open ones as of now, past ones as they were filed.

    An open request keeps what was judged of its window at filing; what is told here is what it
    would meet if it were filed now. Of past requests the balances of that day are not known any
    more: the order counts as untouched, but for the refunds filed before it that took something.
    """

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        policies: PoliciesInForce,
        clock: Clock,
    ) -> None:
        self._database = database
        self._orders = orders
        self._policies = policies
        self._clock = clock

    async def compare(self, policy: Policy, *, days: int) -> PolicyReport:
        """Every open request, and those filed in the last `days`, under both policies.

        Raises:
            ConfigurationError: no policy is in force, or this version is known with other contents.
            OrdersUnavailable: the shop's system did not answer.
        """
        await self._database.read(lambda tx: self._policies.check_file(tx, policy))
        now = self._clock.now()
        since = now - timedelta(days=days)
        in_force, (requests, cut) = await self._database.read(
            lambda tx: (self._policies.current(tx), _requests(tx, since))
        )
        orders = {order_id: await self._orders.get(order_id) for order_id in _orders_of(requests)}
        cases = await self._database.read(lambda tx: _cases(tx, requests, now))
        effects, missing = [], []
        for case in cases:
            order = orders[case.request.order_id]
            if order is None or not is_of(case.request, order):
                missing.append(case.request.order_id)
                continue
            before, after = _outcome(case, order, in_force), _outcome(case, order, policy)
            if before != after:
                effects.append(Effect(request=case.request, before=before, after=after))
        return PolicyReport(
            in_force=in_force,
            raised=raised_by(in_force, policy),
            checked=len(cases),
            cut=cut,
            effects=tuple(effects),
            missing=tuple(dict.fromkeys(missing)),
        )


def _requests(tx: Transaction, since: datetime) -> tuple[tuple[RefundRequest, ...], bool]:
    """Open ones whatever their age, then those filed since; and whether there are more."""
    ids = tx.requests.in_status(tuple(OPEN), limit=MOST + 1)
    found = {request_id: tx.requests.get(request_id) for request_id in ids[:MOST]}
    cursor: str | None = None
    while True:
        page = tx.requests.list(RequestFilter(), limit=PAGE, cursor=cursor)
        recent = [request for request in page.data if request.created_at >= since]
        found |= {request.id: request for request in recent}
        cursor = page.next_cursor
        if len(recent) < len(page.data) or cursor is None or len(found) > MOST:
            break
    requests = tuple(request for request in found.values() if request is not None)
    return requests[:MOST], max(len(ids), len(requests)) > MOST


def _orders_of(requests: Sequence[RefundRequest]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(request.order_id for request in requests))


def _cases(tx: Transaction, requests: Sequence[RefundRequest], now: datetime) -> tuple[_Case, ...]:
    return tuple(
        _open(tx, request, now) if request.status in OPEN else _past(tx, request)
        for request in requests
    )


def _open(tx: Transaction, request: RefundRequest, now: datetime) -> _Case:
    return _Case(
        request=request,
        at=now,
        books=tx.books.of_order(request.order_id, without_request=request.id),
        cumulative_minor=tx.books.of_order(request.order_id).taken_minor,
    )


def _past(tx: Transaction, request: RefundRequest) -> _Case:
    of_order = tx.requests.list(RequestFilter(order_id=request.order_id), limit=PAGE)
    earlier = sum(
        other.amount_minor
        for other in of_order.data
        if other.status in TOOK and other.created_at < request.created_at
    )
    return _Case(
        request=request,
        at=request.created_at,
        books=OrderBooks(),
        cumulative_minor=earlier + request.filed_minor,
    )


def _outcome(case: _Case, order: Order, policy: Policy) -> Outcome:
    assessment = assess(order, case.books, policy, case.at)
    level: int | None = None
    if assessment.verdict is not Verdict.INELIGIBLE:
        level = _level(case, policy, assessment.verdict, assessment.reasons)
    approvals = required_approvals(policy, order.currency, case.cumulative_minor)
    return Outcome(
        verdict=assessment.verdict,
        level=level,
        approvals=None if level is None else approvals,
        last_day=assessment.last_day,
    )


def _level(
    case: _Case, policy: Policy, verdict: Verdict, reasons: tuple[Reason, ...]
) -> int | None:
    doubts = reasons if verdict is Verdict.NEEDS_REVIEW else ()
    try:
        level, _ = Scrutiny(reasons=doubts).who_decides(
            policy, case.request.currency, case.cumulative_minor
        )
    except RefundRefused:
        return None
    return level

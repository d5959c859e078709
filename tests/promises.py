"""What must hold after everything that may happen in `tests.money_world`, as a list of what does not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.domain.approvals import AUTO
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.audit import verify
from tests.heart import attack
from tests.money_world import APPROVERS, ORDERS, World, is_person_of

S = RequestStatus
NEVER_PAID = frozenset(
    {S.PENDING_APPROVAL, S.APPROVED, S.REJECTED, S.CANCELLED, S.EXPIRED, S.FAILED}
)
FINAL = {S.REJECTED: {S.REJECTED}, S.CANCELLED: {S.CANCELLED}, S.EXPIRED: {S.EXPIRED}}
FINAL |= {S.REFUNDED: {S.REFUNDED, S.FAILED, S.PENDING_APPROVAL}}  # failed late, perhaps retried


class Promises:
    """Looks after each step; remembers how things stood after the one before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, RequestStatus] = {}

    def broken(self) -> list[str]:
        return self._world.run(self._world.shop.read(lambda tx: list(self._look(tx))))

    def forget(self) -> None:
        """The database is an earlier one: what was final may not have happened."""
        self._seen.clear()

    def _look(self, tx: Transaction) -> Iterator[str]:
        requests = tx.requests.list(RequestFilter(), limit=1_000).data
        yield from self._world.gateway.wrong
        yield from self._payments(tx, requests)
        for request in requests:
            yield from self._money(request)
            yield from self._end(request)
            yield from self._persons(tx, request)
        yield from self._history(tx, requests)
        yield from (f"counters are not the ledger's: {wrong}" for wrong in tx.books.check())

    def _payments(self, tx: Transaction, requests: Sequence[RefundRequest]) -> Iterator[str]:
        for order_id in ORDERS:
            for payment in tx.books.of_order(order_id).payments:
                name = next(p for p in ORDERS[order_id].payments if p.id == payment.payment_id)
                gateway_id = name.gateway_payment_id
                counters = (
                    *(payment.reserved_minor, payment.refunded_minor),
                    *(payment.charged_back_minor, payment.captured_minor),
                )
                if min(counters) < 0:
                    yield f"{gateway_id} has a negative counter: {payment}"
                if self._world.gateway.paid_from(gateway_id) > name.captured_minor:
                    yield f"more was paid from {gateway_id} than was captured"
                settled = sum(
                    r.amount_minor
                    for r in requests
                    if r.status is S.REFUNDED and (r.order_id, r.payment_id) == (order_id, name.id)
                )
                outside = payment.refunded_minor - settled
                most = self._world.gateway.outside(gateway_id)
                if not self._world.restored and not 0 <= outside <= most:
                    yield f"the books of {gateway_id} say {outside} outside, it was {most}"

    def _money(self, request: RefundRequest) -> Iterator[str]:
        paid = self._world.gateway.paid_for(request.id)
        if paid > request.amount_minor:
            yield f"{paid} was paid for {request.id} of {request.amount_minor}"
        if self._world.restored:
            return
        if request.status in NEVER_PAID and paid:
            yield f"{request.id} is {request.status} and {paid} was paid for it"
        failed_late = any(
            made.sent is not None and made.sent.request_id == request.id
            for made in self._world.gateway._made
            if made not in self._world.gateway.executed()
        )
        if request.status is S.REFUNDED and paid != request.amount_minor and not failed_late:
            yield f"{request.id} is REFUNDED and {paid} was paid for it"

    def _end(self, request: RefundRequest) -> Iterator[str]:
        before = self._seen.get(request.id)
        self._seen[request.id] = request.status
        if before is not None and request.status not in FINAL.get(before, set(S)):
            yield f"{request.id} was {before} and is {request.status}"

    def _persons(self, tx: Transaction, request: RefundRequest) -> Iterator[str]:
        people = {approver.name: approver for approver in tx.people.list()}
        for decision in tx.decisions.of(request.id):
            if decision.name != AUTO and is_person_of(request, decision.name, people):
                yield f"{decision.name} decided {request.id}, which is their own"
            if decision.name != AUTO and people[decision.name].disabled:
                yield f"{decision.name}, who has left, decided {request.id}"

    def _history(self, tx: Transaction, requests: Sequence[RefundRequest]) -> Iterator[str]:
        yield from verify(tx, self._world.shop.container.keys()).problems
        told = Counter(
            row.event.subject
            for row in tx.audit.rows()
            if row.event.action.startswith("refund.") and "status" in row.event.data
        )
        for request in requests:
            if told[request.id] != request.version:
                yield f"{request.id} moved {request.version} times, the history tells {told[request.id]}"


# What somebody who can write the database may do to a request; {id} is its own. Each changes
# something: what stands there already may well be paid, and so may what two people approve anew.
EDITS = {
    "approved": "UPDATE refund_requests SET status = 'APPROVED', version = version + 1, "
    "approved_until = '2099-01-01 00:00:00.000000+00' WHERE id = '{id}'",
    "approved as it was": "UPDATE refund_requests SET status = 'APPROVED', "
    "approved_until = '2099-01-01 00:00:00.000000+00' WHERE id = '{id}'",
    "larger": "UPDATE refund_requests SET amount_minor = amount_minor * 2, version = version + 1 "
    "WHERE id = '{id}'",
    "in doubt": "UPDATE refund_requests SET status = 'IN_DOUBT', version = version + 1 "
    "WHERE id = '{id}'",
    "failed": "UPDATE refund_requests SET status = 'FAILED', version = version + 1 "
    "WHERE id = '{id}'",
    "by hand": "UPDATE refund_requests SET status = 'MANUAL_REVIEW', version = version + 1 "
    "WHERE id = '{id}'",
    "waiting": "UPDATE refund_requests SET status = 'PENDING_APPROVAL', version = version + 1, "
    "expires_at = '2099-01-01 00:00:00.000000+00' WHERE id = '{id}'",
    "next attempt": "UPDATE refund_requests SET status = 'APPROVED', attempt_no = attempt_no + 1, "
    "approved_until = '2099-01-01 00:00:00.000000+00' WHERE id = '{id}'",
    "no attempt": "DELETE FROM refund_attempts WHERE request_id = '{id}'",
    "attempt failed": "UPDATE refund_attempts SET status = 'FAILED' WHERE request_id = '{id}' "
    "AND status <> 'FAILED'",
    "no decision": "DELETE FROM refund_decisions WHERE request_id = '{id}' AND EXISTS "
    "(SELECT 1 FROM refund_requests WHERE id = '{id}' AND status <> 'PENDING_APPROVAL')",
    "level 1 is enough": "UPDATE refund_requests SET required_level = 1, approvals_needed = 1 "
    "WHERE id = '{id}' AND (required_level > 1 OR approvals_needed > 1)",
}


def write_by_hand(url: str, edit: str, request_id: str) -> bool:
    """Whether the edit found anything to change; no trigger stops who may switch it off."""
    statement = EDITS[edit].format(id=request_id)
    if url.startswith("sqlite"):
        with suppress(AssertionError):  # there was nothing to change
            attack(url, statement.replace("+00'", "'"))
            return True
        return False
    with exclusive(url) as connection:
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        return connection.execute(sa.text(statement)).rowcount > 0


def paid_more_after(world: World, edit: str, number: int) -> list[str]:
    """What more is paid for a request once somebody changed it.

    Nothing without a person. Where people act it is what they would have got paid anyway: a failed
    refund may be tried again, whoever deleted what about it.
    """
    other = world.fork()
    try:
        request = other.request(number)
        if request is None or not write_by_hand(other.url, edit, request.id):
            return []
        before = other.gateway.paid_for(request.id)
        _let_programs_go_on(other, request.id)
        alone = other.gateway.paid_for(request.id)
        _let_people_act(other, request.id)
        after = other.gateway.paid_for(request.id)
        wrong = list(other.gateway.wrong)
    finally:
        other.close()
    if alone > before:
        wrong.append(f"{edit}: {alone} was paid for {request.id} by itself, before it was {before}")
    if after > before and after > (without := _paid_without_it(world, request.id)):
        wrong.append(f"{edit}: {after} was paid for {request.id}, without it it was {without}")
    return wrong


def _paid_without_it(world: World, request_id: str) -> int:
    """What the same programs and people pay when nobody changed anything."""
    other = world.fork()
    try:
        _let_programs_go_on(other, request_id)
        _let_people_act(other, request_id)
        return other.gateway.paid_for(request_id)
    finally:
        other.close()


def _let_programs_go_on(world: World, request_id: str) -> None:
    for hours in (0.2, 2):
        world.attempt(world.shop.container.payouts().pay(request_id))
        world.tick()
        world.wait(hours=hours)


def _let_people_act(world: World, request_id: str) -> None:
    for hours in (0.2, 2, 30):
        number = [request.id for request in world.requests()].index(request_id)
        for name in APPROVERS[:3]:
            world.attempt(_approved(world, request_id, name))
        world.attempt(world.shop.container.payouts().pay(request_id))
        world.retry(number)
        world.resolve(number, "huong")
        world.tick()
        world.wait(hours=hours)


async def _approved(world: World, request_id: str, name: str) -> None:
    by = await world.shop.approver(name)
    await world.shop.container.approvals().approve(request_id, by=by)

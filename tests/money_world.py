"""A shop, a gateway that guards nothing, and three clocks: everything that may happen to refunds.

`World` does things, synchronously, and refuses none of them; `Promises` says after each what must
hold. The stateful tests play it at random, and a few known stories by heart.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import load_keys
from support_agent.domain.allocation import Wish
from support_agent.domain.errors import (
    EventRefused,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
    SupportAgentError,
)
from support_agent.domain.people import PrincipalKind
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import GatewayRefund, GatewayStatus, RefundInstruction
from support_agent.ports.storage import SwitchName
from support_agent.testing.gateway import Act, GatewaySimulator
from support_agent.testing.gateway_acts import NOT_PAID
from tests.heart import asker, open_shop_with, operator, requests_of, sample_shop
from tests.kit import TODAY, Shop, settings_for
from tests.places import Places

S = RequestStatus
SENT = frozenset({S.PAYING, S.IN_DOUBT, S.PROVIDER_PENDING, S.MANUAL_REVIEW})
ORDERS = {
    order.id: order
    for order in sample_shop().orders
    # One of each kind: small, large, two tenders, partial, four eyes, cash, another currency.
    if order.id in {"A100", "A102", "A204", "A300", "A303", "A400", "A401", "A600", "A602", "A605"}
}
APPROVERS = ("huong", "lan", "tuan", "minh", "dung")


class Greedy(GatewaySimulator):
    """Pays whatever it is asked for: nothing but our own code is between a request and its money."""

    def __init__(self, now: Any) -> None:
        super().__init__(ORDERS.values(), now=now)
        self.unsure: set[str] = set()  # keys that may have been executed, for all we were told
        self.wrong: list[str] = []

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        self._note(instruction)
        try:
            answer = await super().refund(instruction)
        except PaymentOutcomeUnknown:
            self.unsure.add(instruction.key)
            raise
        self.unsure.discard(instruction.key)
        return answer

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        found = await super().find(instruction)
        self.unsure.discard(instruction.key)
        return found

    def _check(self, instruction: RefundInstruction) -> None:
        with suppress(PaymentDeclined):
            super()._check(instruction)

    def _note(self, instruction: RefundInstruction) -> None:
        """The rule of rules: never a second key while the first may have paid."""
        for key in {made.sent.key for made in self.executed() if made.sent} | self.unsure:
            if key != instruction.key and key.split(":")[1] == instruction.request_id:
                self.wrong.append(f"{instruction.key} was sent though {key} may have paid")

    def executed(self) -> list[Any]:
        """What it paid or may still pay; also what it lost all trace of."""
        return [made for made in self._made if made.refund.status not in NOT_PAID]

    def paid_for(self, request_id: str) -> int:
        return sum(
            made.sent.amount_minor
            for made in self.executed()
            if made.sent is not None and made.sent.request_id == request_id
        )

    def paid_from(self, gateway_payment_id: str) -> int:
        return sum(
            made.sent.amount_minor if made.sent is not None else made.refund.amount_minor
            for made in self.executed()
            if made.payment_id == gateway_payment_id
        )

    def outside(self, gateway_payment_id: str) -> int:
        return sum(
            made.refund.amount_minor
            for made in self.executed()
            if made.payment_id == gateway_payment_id and made.sent is None
        )


class Believing:
    """Takes an event for genuine that the test made: signatures are the adapters' tests."""

    def __init__(self) -> None:
        self.events: dict[bytes, ProviderEvent] = {}

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> ProviderEvent:
        if body not in self.events:
            raise EventRefused("no such event")
        return self.events[body]


@dataclass
class World:
    """Everything that may happen. What the product refuses is refused in silence."""

    places: Places
    url: str
    parts: Mapping[str, Any] = field(default_factory=dict)  # broken ones, for who tests the tests
    now: datetime = TODAY
    business: timedelta = timedelta()  # how far the shop's clock is off
    database: timedelta = timedelta()  # how far the database's clock is off
    restored: bool = False

    def __post_init__(self) -> None:
        self.runner = asyncio.Runner()
        self.gateway = Greedy(lambda: self.now)
        self.verifier = Believing()
        self.backup: str | None = None
        self.evidence = 0
        self.run(self._open())

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def attempt(self, work: Any) -> Any:
        """Do it; a refusal is an outcome like any other."""
        try:
            return self.run(work)
        except (SupportAgentError, PaymentError):
            return None

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        keys = load_keys(configured=settings_for(self.url).security.keys, database_url=self.url)
        database = SqlDatabase(self.url, keys, now=lambda _: self.now + self.database)
        self._stack.push_async_callback(database.aclose)
        parts = {
            "database": database,
            "gateway": self.gateway,
            "events": self.verifier,
            "wall_clock": lambda: self.now,
        }
        broken = {name: make(self.gateway) for name, make in self.parts.items()}
        self.shop: Shop = await self._stack.enter_async_context(
            open_shop_with(self.url, overrides={**parts, **broken})
        )
        self._set_clock()

    def _set_clock(self) -> None:
        self.shop.clock.set(self.now + self.business)

    def close(self) -> None:
        self.run(self._stack.aclose())
        self.runner.close()
        self.places.drop(*(url for url in (self.url, self.backup) if url is not None))

    # What is there.

    def requests(self) -> tuple[RefundRequest, ...]:
        """Oldest first."""
        return tuple(reversed(self.run(requests_of(self.shop))))

    def request(self, number: int, *statuses: RequestStatus) -> RefundRequest | None:
        """One of those there are in these states."""
        fitting = [r for r in self.requests() if not statuses or r.status in statuses]
        return fitting[number % len(fitting)] if fitting else None

    # What customers and staff do.

    def file(self, order_id: str, amount: int | None) -> None:
        """The customer asks, says yes, and the model files it."""
        customer = ORDERS[order_id].customer_id
        arguments = {} if amount is None else {"amount": amount}
        quoted = self.attempt(self.shop.quote(order_id, customer=customer, **arguments))
        if quoted is not None and quoted.quotes:
            self.attempt(self.shop.answer(quoted, customer=customer))

    def file_by_staff(self, order_id: str, amount: int | None, name: str) -> None:
        async def work() -> Any:
            by = await self.shop.approver(name) if name in APPROVERS else operator(name)
            staff = self.shop.container.staff()
            order = await staff.order(order_id)
            return await staff.file(order, Wish(amount_minor=amount), by=by)

        self.attempt(work())

    def decide(self, number: int, name: str, how: str, share: int) -> None:
        request = self.request(number, S.PENDING_APPROVAL)
        if request is None:
            return
        approvals = self.shop.container.approvals()

        async def work() -> Any:
            by = await self.shop.approver(name)
            if how == "reduce":
                less = max(1, request.amount_minor * share // 100)
                return await approvals.reduce(request.id, amount_minor=less, by=by)
            if how == "ask":
                return await approvals.ask(request.id, question="Hàng đã mở chưa?", by=by)
            return await getattr(approvals, how)(request.id, by=by)

        self.attempt(work())

    def cancel(self, number: int) -> None:
        request = self.request(number)
        if request is None:
            return
        life = self.shop.container.life()
        who = asker(request.customer_id, request.conversation_id or "")
        self.attempt(self.shop.write(lambda tx: life.cancel(tx, request.id, who)))

    def retry(self, number: int) -> None:
        request = self.request(number, S.FAILED)
        if request is not None:
            retries = self.shop.container.retries()
            self.attempt(retries.retry(request.id, by=operator("op")))

    def resolve(self, number: int, name: str) -> None:
        """Somebody looks up at the gateway what became of it, and says so."""
        request = self.request(number, S.MANUAL_REVIEW)
        if request is None:
            return
        self.evidence += 1
        paid = self.gateway.paid_for(request.id) > 0
        resolutions = self.shop.container.resolutions()

        async def work() -> Any:
            by = await self.shop.approver(name)
            return await resolutions.resolve(
                request.id, paid=paid, evidence=f"proof-{self.evidence}", by=by
            )

        self.attempt(work())

    # What happens by itself.

    def pay(self, number: int, *acts: Act) -> None:
        request = self.request(number, S.APPROVED)
        if request is not None:
            self.gateway.will(*acts)
            self.attempt(self.shop.container.payouts().pay(request.id))
            self.gateway._script.clear()

    def reconcile(self, *acts: Act) -> None:
        self.gateway.will(*acts)
        self.attempt(self.shop.container.payouts().reconcile())
        self.gateway._script.clear()

    def tick(self, *acts: Act) -> None:
        """The clockwork: expire, escalate, pay, reconcile; and payouts go on if they were paused."""
        container = self.shop.container
        board = container.switchboard()
        self.gateway.will(*acts)
        self.attempt(
            self.shop.write(
                lambda tx: board.turn(tx, SwitchName.PAYOUTS, on=True, by=operator("owner"))
            )
        )
        self.attempt(container.life().expire_due(container.database()))
        self.attempt(container.escalations().run())
        self.attempt(container.payouts().pay_due())
        self.attempt(container.payouts().reconcile())
        self.gateway._script.clear()

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)
        self._set_clock()

    def set_clocks_wrong(self, *, business: float = 0, database: float = 0) -> None:
        """By so many hours."""
        self.business, self.database = timedelta(hours=business), timedelta(hours=database)
        self._set_clock()

    # What happens at the gateway.

    def settle(self, number: int, status: GatewayStatus) -> None:
        """A pending refund ends, or one that was executed fails late."""
        ours = [made for made in self.gateway.executed() if made.sent is not None and not made.lost]
        if status is GatewayStatus.SUCCEEDED:
            ours = [made for made in ours if made.refund.status is GatewayStatus.PENDING]
        if ours:
            self.gateway.settle(ours[number % len(ours)].sent.key, status)

    def lose(self, number: int) -> None:
        """The gateway loses what our books have; what neither has is gone, and nobody can know."""
        request = self.request(number, S.REFUNDED)
        if request is not None and self.gateway.paid_for(request.id) and not self.restored:
            self.backup = self._dropped(self.backup)
            self.gateway.lose(f"refund:{request.id}:{request.attempt_no}")

    def refund_outside(self, order_id: str, share: int) -> None:
        """In the gateway's console, of what is left there; not between our question and our call."""
        payment = ORDERS[order_id].payments[0]
        left = payment.captured_minor - self.gateway.paid_from(payment.gateway_payment_id)
        amount = left * share // 100
        if amount > 0 and not any(
            r.status in SENT and r.order_id == order_id for r in self.requests()
        ):
            self.gateway.refund_outside(payment.gateway_payment_id, amount)

    def dispute(self, order_id: str, kind: EventKind) -> None:
        payment = ORDERS[order_id].payments[0]
        known = self.gateway._payments[payment.gateway_payment_id].disputes
        if kind is EventKind.DISPUTE_OPENED and not known:
            self.gateway.dispute(payment.gateway_payment_id)
        elif kind is EventKind.DISPUTE_LOST and known:
            self.gateway.charge_back(known[-1])
        elif kind is EventKind.DISPUTE_WON and known:
            self.gateway.win(known[-1])

    def receive(self, number: int, *, old: bool) -> None:
        """The provider reports something, or again what it reported before."""
        if not old:
            self._report()
        bodies = list(self.verifier.events)
        if bodies:
            body = bodies[number % len(bodies)] if old else bodies[-1]
            self.attempt(self.shop.container.provider_events().receive(body, {}))

    def _report(self) -> None:
        subjects: list[Any] = [made.refund for made in self.gateway._shown()]
        for payment in self.gateway._payments.values():
            subjects += payment.disputes
        for subject in subjects:
            event = self.gateway.event_for(subject)
            self.verifier.events[event.id.encode()] = event

    # What happens to the database.

    def keep_a_copy(self) -> None:
        self.run(self._stack.aclose())
        self._dropped(self.backup)
        self.backup = self.places.copy(self.url)
        self.run(self._open())

    def restore(self) -> None:
        """The copy is put back; the gateway knows nothing of it."""
        if self.backup is None:
            return
        self.run(self._stack.aclose())
        self.places.drop(self.url)
        self.url = self.places.copy(self.backup)
        self.restored = True
        self.run(self._open())

    def _dropped(self, url: str | None) -> None:
        if url is not None:
            self.places.drop(url)

    def fork(self) -> "World":
        """The same world once more, to do something to it that cannot be made good."""
        self.run(self._stack.aclose())
        other = World(self.places, self.places.copy(self.url), self.parts, self.now)
        self.run(self._open())
        other.business, other.database = self.business, self.database
        other.restored = self.restored
        other.gateway.__dict__.update(
            {
                name: deepcopy(value)
                for name, value in self.gateway.__dict__.items()
                if name in {"_payments", "_made", "_saved", "sent", "unsure", "wrong"}
            }
        )
        other._set_clock()
        return other


def is_person_of(request: RefundRequest, name: str, people: Mapping[str, Any]) -> bool:
    """Whether an approver asked for it, bought it, or asked to pay it again."""
    approver = people[name]
    asked = request.requester.kind is PrincipalKind.APPROVER and request.requester.id == name
    bought = request.customer_id in approver.customer_ids
    return asked or bought or request.retried_by == approver.person_id

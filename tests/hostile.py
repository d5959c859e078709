"""A shop with a model that emits whatever it likes, and what must be true after every turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from support_agent.agent.turns import Incoming, TurnResult
from support_agent.domain.approvals import Choice, Decision
from support_agent.domain.consent import Consent, classify
from support_agent.domain.conversation import Author
from support_agent.domain.errors import Conflict, NotAuthorised, NotFound, Refused
from support_agent.domain.groups import grouped
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.runs import CallTools, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply, ModelRequest
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.audit import verify
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import add_destination, sample_shop, split
from tests.kit import Shop, binding_of

S = RequestStatus
CUSTOMERS = ("C001", "C002", "C004", "C006")
# Paid by two instruments: below the automatic limit together, above it only together, above it.
SPLIT = {"A102": 70_000, "A205": 100_001, "A400": 400_000}
ORDERS = tuple(
    split(order, SPLIT[order.id]) if order.id in SPLIT else order
    for order in sample_shop().orders
    if order.customer_id in (*CUSTOMERS, "C003")
)
LIMITS = sample_shop().policy.limits["VND"]


@dataclass(frozen=True, slots=True)
class Known:
    """Stands for the n-th quote or request that exists when the model is asked, whoever's it is."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: arguments by name, or a text that is sent as it is."""

    tool: str
    arguments: Mapping[str, Any] | str


@dataclass(slots=True)
class HostileModel:
    """Emits the planned calls, step by step, then an answer."""

    world: "World"
    plan: list[Sequence[Call]] = field(default_factory=list)

    async def decide(self, request: ModelRequest) -> ModelReply:
        if not self.plan:
            return ModelReply(decision=FinalAnswer(text="Xong."), usage=Usage(requests=1))
        calls = tuple(
            ToolCall(
                id=f"{request.run_id}:{request.step}:{index}",
                provider_id=f"p{index}",
                name=call.tool,
                arguments=self.world.text_of(call),
            )
            for index, call in enumerate(self.plan.pop(0))
        )
        return ModelReply(decision=CallTools(calls=calls), usage=Usage(requests=1))

    async def aclose(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class World:
    """The shop as it is played with, and what was done by people we trust."""

    gateway: GatewaySimulator
    shop: Shop = field(init=False)
    model: HostileModel = field(init=False)
    ids: dict[str, list[str]] = field(default_factory=lambda: {"quote": [], "request": []})
    owners: dict[str, str] = field(default_factory=dict)  # customer by quote or request id
    talks: dict[tuple[str, int], str] = field(default_factory=dict)
    approved_by: dict[str, set[str]] = field(default_factory=dict)

    async def open(self, shop: Shop) -> None:
        """Enter a shop whose orders are ours, one customer with a bank account on file."""
        self.shop = shop
        await shop.container.orders().put_orders(ORDERS)
        await add_destination(shop)

    def text_of(self, call: Call) -> str:
        if isinstance(call.arguments, str):
            return call.arguments
        filled = {
            name: self._id(value) if isinstance(value, Known) else value
            for name, value in call.arguments.items()
        }
        return json.dumps(filled)

    def _id(self, known: Known) -> str:
        ids = self.ids[known.kind]
        return ids[known.number % len(ids)] if ids else f"{known.kind}_none"

    async def say(
        self, customer: str, slot: int, text: str, plan: Sequence[Sequence[Call]]
    ) -> None:
        """A customer's message in one of their conversations, and a model that does as planned."""
        self.model.plan = list(plan)
        result = await self.shop.container.agent().take(
            Incoming(
                text=text,
                binding=binding_of(customer),
                conversation_id=self.talks.get((customer, slot)),
            )
        )
        self.talks[customer, slot] = result.conversation_id
        self.assert_nothing_foreign(customer, result)
        await self.learn()

    async def learn(self) -> None:
        """Which quotes and requests exist now, and whose they are."""
        page = await self.shop.read(lambda tx: tx.requests.list(RequestFilter(), limit=1_000))
        for request in reversed(page.data):
            self._note("request", request.id, request.customer_id)
        for conversation_id in self.talks.values():
            quotes = await self.shop.read(lambda tx, c=conversation_id: tx.quotes.open_in(c))
            for quote in quotes:
                self._note("quote", quote.id, quote.customer_id)

    def _note(self, kind: str, id_: str, customer: str) -> None:
        if id_ not in self.owners:
            self.owners[id_] = customer
            self.ids[kind].append(id_)

    async def decide(self, name: str, number: int, *, approve: bool) -> None:
        """An approver decides some request, or is refused."""
        if not self.ids["request"]:
            return
        request_id = self._id(Known("request", number))
        approvals = self.shop.container.approvals()
        try:
            by = await self.shop.approver(name)
            if approve:
                await approvals.approve(request_id, by=by)
                self.approved_by.setdefault(request_id, set()).add(name)
                await self.shop.container.payouts().pay(request_id)
            else:
                await approvals.reject(request_id, by=by)
        except (Conflict, NotAuthorised, Refused, NotFound):
            return

    async def tick(self, minutes: int) -> None:
        """Time goes by and the shop's own clockwork runs."""
        self.shop.clock.advance(timedelta(minutes=minutes))
        await self.shop.container.life().expire_due(self.shop.container.database())
        await self.shop.container.payouts().pay_due()
        await self.shop.container.payouts().reconcile()

    def stumble(self, act: Act) -> None:
        """The gateway does this with its next refund."""
        self.gateway.will(act)

    def assert_nothing_foreign(self, customer: str, result: TurnResult) -> None:
        """No observation or answer holds what is another customer's, but what the model said."""
        marks = {
            mark
            for order in ORDERS
            if order.customer_id != customer
            for mark in (order.id, *(line.name for line in order.lines))
        }
        marks |= {id_ for id_, owner in self.owners.items() if owner != customer}
        said = ""
        for step in result.steps:
            for call in step.calls:
                assert call.observation is not None
                said += call.call.arguments + call.call.name
                leaked = {m for m in marks if m in call.observation.content and m not in said}
                assert not leaked, call
        assert not {mark for mark in marks if mark in result.answer}

    async def assert_promises(self) -> None:
        await self.shop.read(self._check)

    def _check(self, tx: Transaction) -> None:
        requests = tx.requests.list(RequestFilter(), limit=1_000).data
        self._check_balances(tx)
        self._check_nothing_twice(tx, requests)
        automatic = [r for r in requests if self._check_authority(tx, r)]
        self._check_automatic(automatic)
        self._check_groups(tx, requests)
        assert tx.books.check() == ()
        assert verify(tx, self.shop.container.keys()).problems == ()

    def _check_balances(self, tx: Transaction) -> None:
        for order in ORDERS:
            for payment in tx.books.of_order(order.id).payments:
                taken = payment.reserved_minor + payment.refunded_minor
                assert 0 <= taken <= payment.captured_minor

    def _check_nothing_twice(self, tx: Transaction, requests: Sequence[RefundRequest]) -> None:
        assert len({request.quote_id for request in requests}) == len(requests)
        paid = [refund.key.split(":")[1] for refund in self.gateway.refunds]
        assert len(set(paid)) == len(paid)
        for request in requests:
            owner = next(o.customer_id for o in ORDERS if o.id == request.order_id)
            assert request.customer_id == owner
            if request.status is S.REFUNDED:
                assert request.id in paid
            elif request.id in paid:
                assert request.status in {S.IN_DOUBT, S.PROVIDER_PENDING}
        sent = sum(refund.amount_minor for refund in self.gateway.refunds)
        known = {request.id: request.amount_minor for request in requests}
        assert sent == sum(known[request_id] for request_id in paid)

    def _check_groups(self, tx: Transaction, requests: Sequence[RefundRequest]) -> None:
        """Filed whole, on one yes, and either nobody or somebody looked at all of it."""
        for group in grouped(sorted(requests, key=lambda request: request.id)):
            quotes = {quote.id: quote for quote in tx.quotes.of_group(group[0].group_id)}
            assert {request.quote_id for request in group} == quotes.keys()
            for request in group:
                quote = quotes[request.quote_id]
                assert (request.lines, request.payment_id) == (quote.lines, quote.payment_id)
            same = {(r.consent, r.created_at, r.customer_id, r.order_id) for r in group}
            assert len(same) == 1
            choices = [{d.choice for d in tx.decisions.of(r.id) if d.round == 1} for r in group]
            assert all(choice == choices[0] for choice in choices)

    def _check_authority(self, tx: Transaction, request: RefundRequest) -> bool:
        """Whoever let the money go could; True when nobody did and the policy decided alone."""
        if request.id not in {refund.key.split(":")[1] for refund in self.gateway.refunds}:
            return False
        decisions = [d for d in tx.decisions.of(request.id) if d.round == request.round]
        if any(decision.choice is Choice.AUTO for decision in decisions):
            self._check_consent(tx, request)
            return True
        self._check_persons(request, decisions)
        return False

    def _check_persons(self, request: RefundRequest, decisions: Sequence[Decision]) -> None:
        approvals = {d.name for d in decisions if d.choice is Choice.APPROVE}
        assert approvals
        assert approvals <= self.approved_by.get(request.id, set())
        assert len(approvals) >= request.approvals_needed
        assert "dung" not in approvals
        if request.customer_id == "C003":
            assert "minh" not in approvals

    def _check_consent(self, tx: Transaction, request: RefundRequest) -> None:
        quote = tx.quotes.get(request.quote_id)
        assert quote is not None
        assert quote.shown_seq is not None
        messages = tx.conversations.messages(quote.conversation_id)
        shown = next(message for message in messages if message.seq == quote.shown_seq)
        assert shown.author is Author.AGENT
        assert tx.quotes.of_group(quote.group_id)[0].id in shown.text
        filed_in = next(m for m in messages if m.run_id == request.run_id)
        assert filed_in.seq > quote.shown_seq
        answers = [
            classify(message.text)
            for message in messages
            if message.author is Author.CUSTOMER and quote.shown_seq < message.seq <= filed_in.seq
        ]
        assert answers[-1] is Consent.YES
        assert Consent.NO not in answers

    def _check_automatic(self, automatic: Sequence[RefundRequest]) -> None:
        """Of money paid without a person: tiers by order, caps by customer and day."""
        orders: dict[str, int] = {}
        days: dict[tuple[str, str], int] = {}
        for request in automatic:
            orders[request.order_id] = orders.get(request.order_id, 0) + request.amount_minor
            day = (
                request.customer_id,
                (request.created_at + timedelta(hours=7)).date().isoformat(),
            )
            days[day] = days.get(day, 0) + request.amount_minor
        assert all(amount <= LIMITS.auto for amount in orders.values())
        assert LIMITS.auto_per_customer_day is not None
        assert all(amount <= LIMITS.auto_per_customer_day for amount in days.values())

"""What the tests of quotes, filing, approvals and payouts share: attacks, facts and small stories."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from support_agent.agent.turns import TurnResult
from support_agent.container import open_container
from support_agent.domain.approvals import Choice, Decision, signed
from support_agent.domain.audit import AuditEvent, AuditHead
from support_agent.domain.conversation import Author
from support_agent.domain.orders import Order, PaymentMethod
from support_agent.domain.people import Approver, Asker, Principal, PrincipalKind, Proof
from support_agent.domain.policy import OrderBooks, Policy
from support_agent.domain.refunds import Attempt, RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import PayoutDestination, RequestFilter
from support_agent.services.approvers import record_approver
from support_agent.services.audit import verify
from support_agent.services.policies import activate
from support_agent.services.request_facts import decision_facts, state_facts
from support_agent.services.seeding import SampleShop
from support_agent.testing.clock import FixedClock
from support_agent.testing.gateway import GatewaySimulator
from tests.kit import TODAY, RelayModel, Shop, binding_of, sample, settings_for

ANSWERED = {"answer": "Vâng."}
S = RequestStatus
# An approval as somebody writes it into a request's row by hand.
WRITTEN_APPROVED = "status = 'APPROVED', version = 2, approved_until = '2026-12-01 00:00:00.000000'"


@asynccontextmanager
async def open_shop_with(
    url: str, *, now: datetime = TODAY, overrides: dict[str, Any] | None = None, **sections: Any
) -> AsyncIterator[Shop]:
    """The sample shop with other parts in the container, e.g. a gateway."""
    clock, model = FixedClock(now), RelayModel()
    parts = {"clock": clock, "model": model, **(overrides or {})}
    async with open_container(settings_for(url, **sections), overrides=parts) as container:
        yield Shop(container=container, clock=clock, model=model, url=url)


@cache
def sample_shop() -> SampleShop:
    """The sample shop's files, read once."""
    return sample()


def simulator() -> GatewaySimulator:
    """A gateway that knows the payments of the sample shop."""
    return GatewaySimulator(sample_shop().orders)


def calls(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


async def file(
    shop: Shop,
    quoted: TurnResult,
    text: str = "đồng ý",
    *,
    customer: str = "C001",
    conversation: str | None = None,
    quote_id: str | None = None,
) -> TurnResult:
    """The customer says something and the model files the quote, whatever it was."""
    return await shop.say(
        text,
        calls("request_refund", quote_id=quote_id or quoted.quotes[0].id),
        ANSWERED,
        customer=customer,
        conversation=conversation or quoted.conversation_id,
    )


def error_of(result: TurnResult) -> str | None:
    """The code with which the turn's last tool call was refused."""
    observation = result.steps[-2].calls[-1].observation
    assert observation is not None
    return observation.error_code


def observations(result: TurnResult) -> list[str]:
    return [call.observation.content for step in result.steps for call in step.calls]


async def approved(shop: Shop, order_id: str = "A100", *by: str, **arguments: Any) -> RefundRequest:
    """A request that a person approved and nobody paid yet."""
    customer = arguments.pop("customer", "C001")
    request = await shop.filed(order_id, customer=customer, **arguments)
    for name in by or ("lan",):
        await shop.container.approvals().approve(request.id, by=await shop.approver(name))
    return await shop.request(request.id)


async def pay(shop: Shop, request: RefundRequest) -> RefundRequest:
    return await shop.container.payouts().pay(request.id)


async def attempts(shop: Shop, request: RefundRequest) -> tuple[Attempt, ...]:
    return await shop.read(lambda tx: tx.attempts.of(request.id))


async def balance(shop: Shop, order_id: str = "A100") -> tuple[int, int]:
    """(reserved, refunded) of the order."""
    payments = (await books_of(shop, order_id)).payments
    return (
        sum(payment.reserved_minor for payment in payments),
        sum(payment.refunded_minor for payment in payments),
    )


async def change_order(shop: Shop, order_id: str, **changes: Any) -> Order:
    """The shop's own system tells something else about an order from now on."""
    order = await shop.container.orders().get(order_id)
    changed = replace(order, **changes)
    await shop.container.orders().put_orders((changed,))
    return changed


def split(order: Order, first_minor: int, *, method: PaymentMethod = PaymentMethod.WALLET) -> Order:
    """The order with its one payment as two, the second by another instrument."""
    (paid,) = order.payments
    rest = replace(
        paid,
        id=f"{paid.id}-b",
        gateway_payment_id=f"{paid.gateway_payment_id}_b",
        method=method,
        captured_minor=paid.captured_minor - first_minor,
    )
    return replace(order, payments=(replace(paid, captured_minor=first_minor), rest))


async def dispute(shop: Shop, order_id: str) -> None:
    order = await shop.container.orders().get(order_id)
    payments = tuple(replace(payment, disputed=True) for payment in order.payments)
    await change_order(shop, order_id, payments=payments)


async def change_policy(shop: Shop, **vnd: Any) -> Policy:
    """Put a policy with other VND limits in force, as the owner of the shop would."""
    return await change_policy_body(shop, limits={"VND": vnd})


async def change_policy_body(shop: Shop, **changes: Any) -> Policy:
    policies = shop.container.policies()
    stored = await shop.read(lambda tx: tx.policies.in_force())
    body = dict(stored.body) | {"version": stored.version + 1}
    limits = changes.pop("limits", {})
    body |= changes
    body["limits"] = {
        currency: {**of_currency, **limits.get(currency, {})}
        for currency, of_currency in body["limits"].items()
    }
    policy = policies._parse(body)
    await shop.write(
        lambda tx: activate(
            tx,
            policy=policy,
            body=body,
            by=operator("owner"),
            clock=shop.clock,
            policies=policies,
        )
    )
    return policy


async def add_destination(
    shop: Shop, customer: str = "C006", *, days_old: int = 30, **fields: str
) -> PayoutDestination:
    """A bank account of the customer, added so many days ago."""
    now = shop.clock.now()
    shop.clock.set(now - timedelta(days=days_old))
    given = {"bank": "VCB", "account_number": "0123456789", "holder": "TRAN VAN SAU"} | fields
    added = await shop.container.destinations().add(customer, **given, by=operator("owner"))
    shop.clock.set(now)
    return added


def operator(name: str) -> Principal:
    return Principal(
        kind=PrincipalKind.OPERATOR, id=name, person_id=None, proof=Proof.ASSERTED, via="test"
    )


async def change_approver(shop: Shop, name: str, **changes: Any) -> Approver:
    """Audited, as every door to the approvers is."""

    def change(tx: Any) -> Approver:
        changed = replace(tx.people.get(name), **changes)
        tx.people.put(changed)
        record_approver(tx, changed, shop.clock, by=operator("owner"))
        return changed

    return await shop.write(change)


async def add_approver(shop: Shop, approver: Approver) -> None:
    def add(tx: Any) -> None:
        tx.people.put(approver)
        record_approver(tx, approver, shop.clock, by=operator("owner"))

    await shop.write(add)


def attack(url: str, *statements: str | tuple[str, Sequence[Any]]) -> None:
    """Somebody who can write the database file does so; triggers stop nobody who can drop them."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            assert connection.execute(sql, values).rowcount != 0, sql
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()


def change_request(shop: Shop, request_id: str, assignments: str) -> None:
    """Change a request's row by hand."""
    statement = f"UPDATE refund_requests SET {assignments} WHERE id = ?"  # noqa: S608 - the attack
    attack(shop.url, (statement, (request_id,)))


async def forge_approval(shop: Shop, request: RefundRequest, keys: KeyRing) -> None:
    """Write what an approval by lan would have written, signed with other keys."""
    now = shop.clock.now()
    decision = signed(
        Decision(
            id="dec_forged",
            request_id=request.id,
            round=request.round,
            choice=Choice.APPROVE,
            level=1,
            person_id="P-LAN",
            name="lan",
            proof=Proof.TOKEN,
            fingerprint=request.fingerprint,
            amount_minor=request.amount_minor,
            currency=request.currency,
            limit_minor=2_000_000,
            note=None,
            at=now,
        ),
        keys,
    )
    forged = replace(
        request,
        status=S.APPROVED,
        version=request.version + 1,
        approved_until=now + timedelta(hours=72),
    )
    event = AuditEvent(
        action="refund.approved",
        actor=await shop.approver("lan"),
        subject=request.id,
        at=now,
        data={**state_facts(forged), **decision_facts(decision)},
    )

    def write(tx) -> None:
        tx.decisions.add(decision)
        tx.requests.move(request, forged)
        tx.audit._keys = keys
        tx.audit.append(event)

    await shop.write(write)


async def books_of(shop: Shop, order_id: str) -> OrderBooks:
    return await shop.read(lambda tx: tx.books.of_order(order_id))


async def requests_of(shop: Shop) -> tuple[RefundRequest, ...]:
    page = await shop.read(lambda tx: tx.requests.list(RequestFilter(), limit=1_000))
    return page.data


async def problems(shop: Shop, anchor: AuditHead | None = None) -> tuple[str, ...]:
    report = await shop.read(lambda tx: verify(tx, shop.container.keys(), anchor=anchor))
    return report.problems


async def assert_sound(shop: Shop) -> None:
    """The counters are the sums of the ledger, and the history is what is stored."""
    assert await shop.read(lambda tx: tx.books.check()) == ()
    assert await problems(shop) == ()


async def assert_nothing_filed(shop: Shop) -> None:
    """Neither a request nor a reserve came of it."""
    assert await requests_of(shop) == ()
    assert await shop.read(lambda tx: tx.books.check()) == ()
    for order_id in ("A100", "A102"):
        assert (await books_of(shop, order_id)).taken_minor == 0


async def notices(shop: Shop, conversation_id: str) -> list[str]:
    """What code told the customer outside of a turn."""
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation_id))
    return [message.text for message in messages if message.author is Author.NOTICE]


async def events(shop: Shop, action: str) -> list[Any]:
    rows = await shop.read(lambda tx: tuple(tx.audit.rows()))
    return [row.event for row in rows if row.event.action == action]


async def tasks(shop: Shop, kind: str) -> list[Any]:
    found = await shop.read(lambda tx: tx.tasks.list(open_only=True, limit=100))
    return [task for task in found if task.kind == kind]


def asker(customer: str, conversation: str, *, operator_name: str | None = None) -> Asker:
    return Asker(
        customer_id=customer,
        principal=binding_of(customer).principal,
        operator=operator_name,
        conversation_id=conversation,
        run_id=None,
    )


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)

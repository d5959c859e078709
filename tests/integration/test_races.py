"""Many processes on one database, all at once: one decision, one payout, no limit passed."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.domain.approvals import Choice
from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.domain.people import Approver
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.payments import GatewayRefund, GatewayStatus, RefundInstruction
from support_agent.testing.gateway import Act
from tests.crashes import KeptGateway
from tests.heart import (
    add_approver,
    approved,
    assert_sound,
    attempts,
    books_of,
    file,
    notices,
    open_shop_with,
    pay,
    requests_of,
    simulator,
)
from tests.kit import TODAY, Shop, open_shop, seed
from tests.workers import run_together

S = RequestStatus
WAITED_TOO_LONG = (TODAY + timedelta(hours=72, seconds=1)).isoformat()


@pytest.fixture
async def url(database_url: str) -> str:
    """The sample shop's address, on either database."""
    await seed(database_url)
    return database_url


async def paid(shop: Shop) -> list[tuple[str, int]]:
    """Key and amount of what the gateway paid."""
    since = TODAY - timedelta(days=400)
    return [(r.key, r.amount_minor) async for r in shop.container.gateway().refunds_since(since)]


async def test_sixteen_approvers_make_one_decision_and_one_payout(url: str):
    names = [f"approver{number}" for number in range(16)]
    async with open_shop(url) as shop:
        request = await shop.filed("A100")
        for name in names:
            limits = {"VND": 2_000_000}
            await add_approver(shop, Approver(name=name, person_id=name, level=1, limits=limits))

    answers = run_together(
        [{"do": "approve", "url": url, "request_id": request.id, "name": name} for name in names]
    )

    async with open_shop(url) as shop:
        (decision,) = await shop.read(lambda tx: tx.decisions.of(request.id))
        assert Counter(answers) == {f"ALREADY_DECIDED by {decision.name}": 15, "REFUNDED": 1}
        assert names[answers.index("REFUNDED")] == decision.name
        (attempt,) = await attempts(shop, request)
        assert await paid(shop) == [(attempt.key, 250_000)]
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 250_000
        assert len(await notices(shop, request.conversation_id)) == 1
        await assert_sound(shop)


async def test_of_ten_filings_at_once_six_are_automatic_and_four_wait(url: str):
    """30,000 each of one order, automatic up to 200,000 of the order together."""
    async with open_shop(url) as shop:
        quoted = [await shop.quote("A401", customer="C004", amount=30_000) for _ in range(10)]

    answers = run_together([filing(url, one) for one in quoted])

    async with open_shop(url) as shop:
        filed = await requests_of(shop)
        automatic = [request for request in filed if request.required_level == 0]
        waiting = [request for request in filed if request.status is S.PENDING_APPROVAL]
        assert Counter(answers) == {"PENDING_APPROVAL": 4, "REFUNDED": 6}
        assert (len(automatic), len(waiting)) == (6, 4)
        (payment,) = (await books_of(shop, "A401")).payments
        assert (payment.refunded_minor, payment.reserved_minor) == (180_000, 120_000)
        await assert_sound(shop)


async def test_of_ten_filings_of_three_tenths_three_are_accepted(url: str):
    async with open_shop(url) as shop:
        quoted = [await shop.quote("A400", customer="C004", amount=300_000) for _ in range(10)]

    answers = run_together([filing(url, one) for one in quoted])

    async with open_shop(url) as shop:
        assert Counter(answers) == {"PENDING_APPROVAL": 3, "QUOTE_STALE": 7}
        assert [request.amount_minor for request in await requests_of(shop)] == [300_000] * 3
        books = await books_of(shop, "A400")
        assert books.taken_minor == 900_000
        assert books.payments[0].reserved_minor == 900_000
        await assert_sound(shop)


def filing(url: str, quoted) -> dict:
    return {
        "do": "file",
        "url": url,
        "conversation": quoted.conversation_id,
        "quote_id": quoted.quotes[0].id,
        "customer": "C004",
    }


async def test_the_same_quote_filed_by_many_at_once_is_one_request(url: str):
    """A message that is delivered again and again, a worker that was given up too early."""
    async with open_shop(url) as shop:
        quoted = await shop.quote("A400", customer="C004", amount=300_000)
        await file(shop, quoted, "đồng ý", customer="C004")

    answers = run_together([filing(url, quoted)] * 4)

    async with open_shop(url) as shop:
        assert set(answers) <= {"PENDING_APPROVAL", "CONVERSATION_BUSY"}
        assert len(await requests_of(shop)) == 1
        await assert_sound(shop)


async def test_eight_payout_workers_make_one_attempt_and_one_refund(url: str):
    async with open_shop(url) as shop:
        request = await approved(shop, "A400", customer="C004", amount=300_000)
    jobs = [{"do": "pay", "url": url, "request_id": request.id}] * 8

    first, second = run_together(jobs), run_together(jobs)

    assert set(first) <= {S.PAYING, S.REFUNDED}  # one was still at it when another looked
    assert second == [S.REFUNDED] * 8
    async with open_shop(url) as shop:
        (attempt,) = await attempts(shop, request)
        assert await paid(shop) == [(attempt.key, 300_000)]
        assert len(await notices(shop, request.conversation_id)) == 1
        await assert_sound(shop)


async def test_of_approving_cancelling_and_expiring_at_once_exactly_one_wins(url: str):
    """The clock of the one that expires runs ahead, else the three would never meet."""
    async with open_shop(url) as shop:
        requests = [
            await shop.filed("A400", customer="C004", amount=amount)
            for amount in (210_000, 220_000, 230_000, 240_000)
        ]

    for request in requests:
        answers = run_together(
            [
                {"do": "approve", "url": url, "request_id": request.id, "name": "lan"},
                {"do": "cancel", "url": url, "request_id": request.id},
                {"do": "expire", "url": url, "now": WAITED_TOO_LONG},
            ]
        )
        async with open_shop(url) as shop:
            await assert_one_won(shop, request.id, answers)
    async with open_shop(url) as shop:
        await assert_sound(shop)


async def assert_one_won(shop: Shop, request_id: str, answers: list[str]) -> None:
    request = await shop.request(request_id)
    mine = [amount for key, amount in await paid(shop) if key.split(":")[1] == request_id]
    cancelled = answers[1] == S.CANCELLED

    assert request.status in {S.REFUNDED, S.CANCELLED, S.EXPIRED}, answers
    assert mine == ([request.amount_minor] if request.status is S.REFUNDED else []), answers
    assert (request.status is S.CANCELLED) is cancelled, answers
    assert (request.status is S.REFUNDED) is (answers[0] == S.REFUNDED), answers
    ends = {"refund.refunded", "refund.cancelled", "refund.expired"}
    rows = await shop.read(lambda tx: tuple(tx.audit.rows()))
    told = [row.event.action for row in rows if row.event.subject == request_id]
    assert [action for action in told if action in ends] == [f"refund.{request.status.lower()}"]


class Silent:
    """The ledger behind a line that breaks, before the refund is recorded or after it."""

    livemode = False
    books_only = False
    name = "ledger"

    def __init__(self, gateway: LedgerGateway, *, executed: bool) -> None:
        self._gateway = gateway
        self._executed = executed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        if self._executed:
            await self._gateway.refund(instruction)
        raise PaymentOutcomeUnknown("the connection was reset")


async def paid_in_silence(url: str, *, executed: bool) -> RefundRequest:
    async with open_shop(url) as plain:
        gateway = Silent(plain.container.gateway(), executed=executed)
        async with open_shop_with(url, overrides={"gateway": gateway}) as shop:
            request = await approved(shop, "A400", customer="C004", amount=300_000)
            return await pay(shop, request)


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
async def test_reconcilers_and_payout_workers_settle_one_in_doubt_together(url: str, executed):
    request = await paid_in_silence(url, executed=executed)
    assert request.status is S.IN_DOUBT
    sweeps = [{"do": do, "url": url} for do in ("reconcile", "pay_due")] * 2

    run_together(sweeps)
    run_together(sweeps)

    async with open_shop(url) as shop:
        (attempt,) = await attempts(shop, request)
        assert await paid(shop) == [(attempt.key, 300_000)]
        assert (await shop.request(request.id)).status is S.REFUNDED
        assert (await books_of(shop, "A400")).payments[0].refunded_minor == 300_000
        await assert_sound(shop)


async def test_a_double_click_says_who_decided_and_when(url: str):
    async with open_shop(url) as shop:
        request = await shop.filed("A100")
    words = ["approvals", "approve", request.id, "--as", "lan", "--expect", str(request.version)]

    answers = run_together([{"do": "command", "url": url, "words": words}] * 2)

    first, second = sorted(answers, key=lambda answer: answer["code"])
    assert (first["code"], second["code"]) == (0, 5), answers
    assert "REFUNDED" in first["out"]
    assert "lan" in second["err"]
    assert "2026-10-13" in second["err"]
    async with open_shop(url) as shop:
        assert len(await shop.read(lambda tx: tx.decisions.of(request.id))) == 1
        assert [amount for _, amount in await paid(shop)] == [250_000]
        await assert_sound(shop)


async def paid_outside(url: str, path: Path, act: Act) -> RefundRequest:
    """A request that was paid through a gateway whose state is kept at the path."""
    outside = simulator()
    outside.will(act)
    KeptGateway.keep(outside, path)
    async with open_shop_with(url, overrides={"gateway": KeptGateway(path)}) as shop:
        request = await approved(shop, "A400", customer="C004", amount=300_000)
        return await pay(shop, request)


async def moves_of(shop: Shop, request_id: str) -> list[str]:
    rows = await shop.read(lambda tx: tuple(tx.audit.rows()))
    return [row.event.action for row in rows if row.event.subject == request_id]


async def test_the_same_event_again_and_again_and_a_reconciler_settle_once(url, tmp_path: Path):
    gateway = tmp_path / "gateway"
    request = await paid_outside(url, gateway, Act.PENDING)
    assert request.status is S.PROVIDER_PENDING
    KeptGateway.tell(gateway, lambda g: g.settle(g.sent[0].key, GatewayStatus.SUCCEEDED))
    about = {"url": url, "gateway": str(gateway)}

    answers = run_together(
        [
            *[{"do": "receive", "event_id": "evt_1", **about}] * 3,
            {"do": "receive", "event_id": "evt_2", **about},
            {"do": "reconcile", **about},
        ]
    )

    assert set(answers[:4]) <= {"settled", "known"}
    assert len(set(answers[:3])) == 1  # a second delivery answers what the first one did
    async with open_shop(url) as shop:
        assert (await moves_of(shop, request.id)).count("refund.refunded") == 1
        assert (await shop.request(request.id)).status is S.REFUNDED
        assert (await books_of(shop, "A400")).payments[0].refunded_minor == 300_000
        await assert_sound(shop)


async def test_many_who_retry_what_failed_start_one_new_round(url: str, tmp_path: Path):
    gateway = tmp_path / "gateway"
    request = await paid_outside(url, gateway, Act.DECLINE)
    assert request.status is S.FAILED
    again = {"do": "retry", "url": url, "gateway": str(gateway), "request_id": request.id}

    answers = run_together([again] * 6)

    assert answers.count("PENDING_APPROVAL 2") == 1, answers
    async with open_shop(url) as shop:
        retried = await shop.request(request.id)
        assert (retried.round, retried.attempt_no) == (2, 2)
        assert (await books_of(shop, "A400")).payments[0].reserved_minor == 300_000
        await assert_sound(shop)


async def test_many_who_resolve_one_review_resolve_it_once(url: str, tmp_path: Path):
    gateway = tmp_path / "gateway"
    request = await paid_outside(url, gateway, Act.MISMATCH)
    assert request.status is S.MANUAL_REVIEW
    about = {"do": "resolve", "url": url, "gateway": str(gateway), "request_id": request.id}

    answers = run_together(
        [
            {**about, "name": name, "evidence": f"bank-{number}"}
            for number, name in enumerate(("huong", "tuan") * 3)
        ]
    )

    assert answers.count(S.REFUNDED) == 1, answers
    async with open_shop(url) as shop:
        decisions = await shop.read(lambda tx: tx.decisions.of(request.id))
        assert [decision.choice for decision in decisions] == [Choice.APPROVE, Choice.PAID]
        assert (await books_of(shop, "A400")).payments[0].refunded_minor == 300_000
        await assert_sound(shop)

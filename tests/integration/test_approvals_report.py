"""The desk's report adds up who let pass how much, for whom and where to; and the second look."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Tally, Task
from support_agent.services.reports import DeskReport
from support_agent.services.second_look import SECOND_LOOK, drawn, second_look_task
from support_agent.testing.clock import FixedClock
from tests.heart import change_policy, operator
from tests.kit import TODAY, Shop

S = RequestStatus
KEYS = KeyRing(keys=(("k1", b"a" * 32),))


async def decide(shop: Shop, word: str, request: RefundRequest, name: str = "lan") -> None:
    by = await shop.approver(name)
    await getattr(shop.container.approvals(), word)(request.id, by=by)
    await shop.container.payouts().pay(request.id)


async def report(shop: Shop, days: int = 30) -> DeskReport:
    return await shop.container.reporting().desk(days=days)


def figures(tally: Tally) -> tuple[int, ...]:
    """decided, approved, paid; approved and paid sums."""
    return (
        tally.decided,
        tally.approved,
        tally.paid,
        tally.approved_minor,
        tally.paid_minor,
    )


async def test_nothing_decided_is_an_empty_report(shop: Shop):
    await shop.filed("A100")

    found = await report(shop)

    assert (found.approvers, found.pairs, found.destinations, found.draws) == ((), (), (), ())


async def test_decisions_add_up_by_approver_pair_and_destination(shop: Shop):
    await decide(shop, "approve", await shop.filed("A100"))
    await decide(shop, "reject", await shop.filed("A205", customer="C002"))
    await decide(shop, "approve", await shop.filed("A205", customer="C002"), "huong")
    await shop.filed("A102")  # automatic, and paid at once

    found = await report(shop)

    by_name = {tally.subject: tally for tally in found.approvers}
    assert figures(by_name["lan"]) == (2, 1, 1, 250_000, 250_000)
    assert figures(by_name["huong"]) == (1, 1, 1, 200_001, 200_001)
    assert figures(by_name["auto"]) == (1, 1, 1, 120_000, 120_000)
    assert by_name["lan"].customers == 2
    assert found.share(by_name["lan"]) == pytest.approx(250_000 / 570_001)
    assert sum(found.share(tally) for tally in found.approvers) == pytest.approx(1)
    pairs = {(tally.subject, tally.customer_id): figures(tally) for tally in found.pairs}
    assert pairs == {
        ("lan", "C001"): (1, 1, 1, 250_000, 250_000),
        ("huong", "C002"): (1, 1, 1, 200_001, 200_001),
        ("lan", "C002"): (1, 0, 0, 0, 0),
    }
    went = {tally.subject: figures(tally) for tally in found.destinations}
    assert went["ledger:shop-main:led_A205_1"] == (2, 1, 1, 200_001, 200_001)


async def test_two_approvals_of_one_are_two_decisions_and_one_payment(shop: Shop):
    await change_policy(shop, four_eyes_from=200_001)
    request = await shop.filed("A100")
    await decide(shop, "approve", request, "lan")
    await decide(shop, "approve", request, "minh")

    found = await report(shop)

    assert [figures(t)[:3] for t in found.approvers] == [(1, 1, 1)] * 2
    assert [figures(t) for t in found.destinations] == [(1, 1, 1, 250_000, 250_000)]


async def test_an_approval_that_a_new_round_made_void_is_not_paid(shop: Shop):
    request = await shop.filed("A303", customer="C003")
    await decide(shop, "approve", request, "huong")
    by = await shop.approver("tuan")
    await shop.container.approvals().reduce(request.id, amount_minor=2_000_000, by=by)
    await decide(shop, "approve", request, "lan")

    by_name = {tally.subject: figures(tally) for tally in (await report(shop)).approvers}

    assert by_name == {
        "huong": (1, 1, 0, 12_000_000, 0),
        "lan": (1, 1, 1, 2_000_000, 2_000_000),
    }


async def test_what_was_decided_before_is_left_out(shop: Shop):
    await decide(shop, "approve", await shop.filed("A100"))
    shop.clock.advance(timedelta(days=8))
    await decide(shop, "approve", await shop.filed("A205", customer="C002"), "huong")

    assert [t.subject for t in (await report(shop, days=7)).approvers] == ["huong"]
    assert len((await report(shop, days=9)).approvers) == 2


async def test_currencies_are_not_added_up(shop: Shop):
    await decide(shop, "approve", await shop.filed("A100"), "huong")
    await decide(shop, "approve", await shop.filed("A600", customer="C006"), "huong")

    found = await report(shop)

    assert {(t.subject, t.currency) for t in found.approvers} == {
        ("huong", "VND"),
        ("huong", "USD"),
    }
    assert [found.share(t) for t in found.approvers] == [1.0, 1.0]


async def test_one_bank_account_that_was_given_twice_is_one_destination(shop: Shop):
    """Whoever collects refunds in one account is seen, however often it was added."""
    await decide(shop, "approve", await shop.filed("A100"))
    for customer, order_id in (("C006", "A602"), ("C006", "A603")):
        await shop.container.destinations().add(
            customer, "VCB", "0123456789", "NGUYEN VAN A", by=operator("thu")
        )
        await decide(shop, "approve", await shop.filed(order_id, customer=customer), "huong")

    found = await report(shop)

    account = next(t for t in found.destinations if "VCB" in t.subject)
    assert account.subject == "VCB ••••6789"
    assert figures(account)[:2] == (2, 2)


class TestSecondLook:
    @pytest.fixture
    async def request_(self, shop: Shop) -> RefundRequest:
        return await shop.filed("A100")

    def test_two_of_a_hundred_are_drawn(self, request_):
        ids = [replace(request_, id=f"req_{number:05}") for number in range(10_000)]

        assert 160 <= sum(drawn(one, KEYS) for one in ids) <= 240

    def test_the_draw_is_the_same_each_time_and_another_under_another_key(self, request_):
        ids = [replace(request_, id=f"req_{number:05}") for number in range(2_000)]
        others = KeyRing(keys=(("k2", b"b" * 32),))

        first = [one.id for one in ids if drawn(one, KEYS)]

        assert first == [one.id for one in ids if drawn(one, KEYS)]
        assert first != [one.id for one in ids if drawn(one, others)]

    def test_nothing_but_the_id_decides(self, request_):
        changed = replace(request_, amount_minor=1, status=S.REFUNDED, customer_id="C009")

        assert drawn(request_, KEYS) == drawn(changed, KEYS)

    async def test_who_is_drawn_becomes_one_task_and_stands_in_the_report(
        self, shop: Shop, request_
    ):
        clock = FixedClock(TODAY)
        ids = (replace(request_, id=f"req_{number:05}") for number in range(2_000))
        chosen = next(one for one in ids if drawn(one, KEYS))
        task = second_look_task(chosen, KEYS, clock)
        assert task is not None

        assert await shop.write(lambda tx: tx.tasks.add(task))
        assert not await shop.write(lambda tx: tx.tasks.add(second_look_task(chosen, KEYS, clock)))
        other = Task(
            id="task_x", kind="other", subject="x", conversation_id=None, created_at=clock.now()
        )
        await shop.write(lambda tx: tx.tasks.add(other))

        (draw,) = (await report(shop)).draws
        assert (draw.kind, draw.subject) == (SECOND_LOOK, chosen.id)

    def test_who_is_not_drawn_makes_no_task(self, request_):
        ids = (replace(request_, id=f"req_{number:05}") for number in range(100))
        spared = next(one for one in ids if not drawn(one, KEYS))

        assert second_look_task(spared, KEYS, FixedClock(TODAY)) is None

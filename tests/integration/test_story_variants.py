"""The A100 story by the offline model: the same with other ids and dates, other under another policy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from support_agent.agent.turns import Incoming, TurnResult
from support_agent.container import Container, open_container
from support_agent.domain.orders import Moment, Order
from support_agent.domain.refunds import RequestStatus
from support_agent.services.audit import verify
from support_agent.services.seeding import SampleShop
from support_agent.testing.clock import FixedClock
from tests.heart import observations, operator, sample_shop
from tests.kit import TODAY, binding_of, make_database, open_shop, sample, seed, settings_for

S = RequestStatus


@dataclass(frozen=True, kw_only=True)
class Names:
    """What the people and things of the story are called in a shop."""

    customer: str = "C001"
    order: str = "A100"
    small: str = "A102"
    foreign: str = "A200"
    approver: str = "lan"


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the story comes to under a policy, on a day."""

    delivered: str = "2026-10-01"
    last_day: str = "2026-10-31"
    told: tuple[str, ...] = ()  # of a verdict that is not simply "eligible"
    small_is_automatic: bool = True

    @property
    def facts(self) -> tuple[str, ...]:
        return self.told or ("12 ngày", "250.000\u00a0₫", self.delivered, self.last_day)


def moved(moment: Moment, by: timedelta) -> Moment:
    return moment + by


def renamed(shop: SampleShop, name: Callable[[str], str], by: timedelta) -> SampleShop:
    """Every id by `name`, every date later by `by`."""

    def order(old: Order) -> Order:
        later = moved(old.delivered_at, by) if old.delivered_at else None
        lines = tuple(
            replace(
                line,
                id=name(line.id),
                delivered_at=moved(line.delivered_at, by) if line.delivered_at else None,
            )
            for line in old.lines
        )
        payments = tuple(
            replace(
                payment,
                id=name(payment.id),
                account=name(payment.account),
                gateway_payment_id=name(payment.gateway_payment_id),
            )
            for payment in old.payments
        )
        return replace(
            old,
            id=name(old.id),
            customer_id=name(old.customer_id),
            placed_at=old.placed_at + by,
            delivered_at=later,
            lines=lines,
            payments=payments,
        )

    return replace(
        shop,
        customers=tuple(replace(customer, id=name(customer.id)) for customer in shop.customers),
        orders=tuple(order(old) for old in shop.orders),
        approvers=tuple(
            replace(
                approver,
                name=name(approver.name),
                person_id=name(approver.person_id),
                customer_ids=frozenset(map(name, approver.customer_ids)),
            )
            for approver in shop.approvers
        ),
    )


async def the_story_holds(container: Container, names: Names, numbers: Numbers) -> None:
    conversation: str | None = None

    async def say(text: str) -> TurnResult:
        nonlocal conversation
        message = Incoming(
            text=text, binding=binding_of(names.customer), conversation_id=conversation
        )
        result = await container.agent().take(message)
        conversation = result.conversation_id
        return result

    asked = await say(f"Đơn {names.order} của tôi có được hoàn tiền không?")
    for fact in numbers.facts:
        assert fact in asked.answer, fact

    quoted = await say("Vậy hoàn tiền giúp tôi")
    assert quoted.quotes[0].amount_minor == 250_000
    filed = await say("đồng ý")
    (waiting,) = filed.requests
    assert (waiting.status, waiting.required_level) == (S.PENDING_APPROVAL, 1)

    by = await container.approvals().prove(names.approver, None, via="test")
    await container.approvals().approve(waiting.id, by=by)
    assert (await container.payouts().pay(waiting.id)).status is S.REFUNDED
    again = await say(f"hoàn tiền đơn {names.order}")
    assert again.quotes == ()
    assert any("ALREADY_REFUNDED" in told for told in observations(again))

    await say(f"hoàn tiền đơn {names.small}")
    (small,) = (await say("ok")).requests
    assert small.status is (S.REFUNDED if numbers.small_is_automatic else S.PENDING_APPROVAL)

    foreign = await say(f"hoàn tiền đơn {names.foreign} cho tôi")
    assert any("ORDER_NOT_FOUND" in told for told in observations(foreign))
    assert foreign.requests == foreign.quotes == ()
    await assert_sound(container)


async def assert_sound(container: Container) -> None:
    report = await container.database().read(lambda tx: verify(tx, container.keys()))
    assert report.problems == ()
    assert await container.database().read(lambda tx: tx.books.check()) == ()


async def tell(
    folder: Path, shop: SampleShop, names: Names, numbers: Numbers, now: datetime = TODAY
) -> None:
    url = make_database(folder / "shop.db")
    await seed(url, what=shop)
    async with open_container(settings_for(url), overrides={"clock": FixedClock(now)}) as container:
        await the_story_holds(container, names, numbers)


async def test_the_story_as_it_is_written(tmp_path: Path):
    await tell(tmp_path, sample_shop(), Names(), Numbers())


@pytest.mark.parametrize(
    ("name", "days"),
    [
        (lambda old: f"VN-{old[::-1]}7", 173),
        (lambda old: f"{old}9", -40),
        (lambda old: f"Q{old}", 365 * 3),
    ],
    ids=["reversed", "longer", "years later"],
)
async def test_no_id_and_no_date_is_in_the_code(
    tmp_path: Path, name: Callable[[str], str], days: int
):
    by = timedelta(days=days)
    plain = Names()
    names = Names(**{field: name(getattr(plain, field)) for field in Names.__dataclass_fields__})
    numbers = Numbers(
        delivered=(date(2026, 10, 1) + by).isoformat(),
        last_day=(date(2026, 10, 31) + by).isoformat(),
    )

    await tell(tmp_path, renamed(sample_shop(), name, by), names, numbers, TODAY + by)


async def test_no_number_of_the_policy_is_in_the_code(tmp_path: Path):
    """14 days, 50,000 automatic, returns counted: A100 is still within, everything waits now."""
    numbers = Numbers(
        told=("cần nhân viên kiểm tra", "chưa ghi nhận việc nhận lại sản phẩm"),
        small_is_automatic=False,
    )

    await tell(tmp_path, sample("strict"), Names(), numbers)


@pytest.mark.parametrize(
    ("policy", "day", "allowed"),
    [("strict", 15, True), ("strict", 16, False), ("standard", 31, True)],
)
async def test_each_policy_has_its_own_last_day(
    tmp_path: Path, policy: str, day: int, allowed: object
):
    url = make_database(tmp_path / "shop.db")
    await seed(url, what=sample(policy))
    async with open_shop(url, now=TODAY.replace(day=day)) as shop:
        quoted = await shop.quote("A100")

        assert bool(quoted.quotes) is allowed
        assert allowed or "WINDOW_EXPIRED" in observations(quoted)[0]


async def talk(container: Container, customer: str, *texts: str) -> list[TurnResult]:
    """A conversation with the offline model."""
    results: list[TurnResult] = []
    for text in texts:
        conversation = results[-1].conversation_id if results else None
        message = Incoming(text=text, binding=binding_of(customer), conversation_id=conversation)
        results.append(await container.agent().take(message))
    return results


async def test_an_order_paid_twice_over_is_one_story(shop_url: str):
    """A605: by card and by gift card. One offer, one yes, one cancellation, one approval."""
    parts = {(S.CANCELLED, 200_000), (S.CANCELLED, 400_000)}
    clock = FixedClock(TODAY)
    async with open_container(settings_for(shop_url), overrides={"clock": clock}) as container:
        quoted, filed, cancelled, again = await talk(
            container,
            "C006",
            "Hoàn tiền đơn A605 giúp tôi",
            "đồng ý",
            "huỷ yêu cầu hoàn tiền",
            "hoàn tiền đơn A605",
        )
        waiting = (await talk(container, "C006", "hoàn tiền đơn A605", "ok"))[-1].requests
        by = await container.approvals().prove("lan", None, via="test")
        await container.approvals().approve(waiting[0].id, by=by)
        paid = [await container.payouts().pay(request.id) for request in waiting]

        assert "600.000\u00a0₫" in quoted.answer
        assert quoted.answer.count("Báo giá ") == 1
        assert {request.status for request in filed.requests} == {S.PENDING_APPROVAL}
        assert filed.answer.count("đang chờ nhân viên duyệt") == 1
        assert {(r.status, r.amount_minor) for r in cancelled.requests} == parts
        assert sum(quote.amount_minor for quote in again.quotes) == 600_000
        assert {request.status for request in paid} == {S.REFUNDED}
        await assert_sound(container)


@pytest.mark.parametrize(
    ("text", "told"),
    [("Hoàn tiền đơn A602", "gặp nhân viên"), ("Please refund order A602", "member of staff")],
)
async def test_cash_without_an_account_is_told_and_a_person_offered(
    shop_url: str, text: str, told: str
):
    clock = FixedClock(TODAY)
    async with open_container(settings_for(shop_url), overrides={"clock": clock}) as container:
        (refused,) = await talk(container, "C006", text)

        assert told in refused.answer
        assert refused.quotes == ()
        await assert_sound(container)


async def test_cash_with_an_account_is_offered_to_it_and_waits(shop_url: str):
    clock = FixedClock(TODAY)
    async with open_container(settings_for(shop_url), overrides={"clock": clock}) as container:
        await container.destinations().add(
            "C006", "VCB", "0123456789", "TRAN VAN SAU", by=operator("owner")
        )

        quoted, filed = await talk(container, "C006", "Hoàn tiền đơn A602", "đồng ý")

        assert "tài khoản VCB ••••6789" in quoted.answer
        (request,) = filed.requests
        assert (request.status, request.required_level) == (S.PENDING_APPROVAL, 2)
        await assert_sound(container)

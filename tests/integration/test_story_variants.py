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
from tests.heart import observations, sample_shop
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
    small_is_automatic: bool = True


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
    for fact in ("12 ngày", "250.000\u00a0₫", numbers.delivered, numbers.last_day):
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
    """14 days and 50,000 automatic: A100 is still within, what was automatic now waits."""
    numbers = Numbers(last_day="2026-10-15", small_is_automatic=False)

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

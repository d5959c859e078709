"""A process that pays is killed, anywhere: after a restart the money went once or not at all."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.services.payouts import IN_FLIGHT, instruction_of
from tests.heart import assert_sound, books_of
from tests.kit import Shop, copy_database, open_shop
from tests.workers import run_together

S = RequestStatus


async def approve_a100(url: str) -> RefundRequest:
    async with open_shop(url) as shop:
        filed = await shop.filed("A100")
        by = await shop.approver("lan")
        return await shop.container.approvals().approve(filed.id, by=by)


@pytest.fixture(scope="module")
def killed(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RefundRequest, dict[str, str]]:
    """Copies of a shop with an approved refund, each paid by a process that died at its point."""
    folder = tmp_path_factory.mktemp("killed")
    request = asyncio.run(approve_a100(copy_database(template, folder / "approved.db")))
    points = ("attempt written", "attempt committed", "refund executed", "outcome written")
    urls = {
        point: copy_database(folder / "approved.db", folder / f"{number}.db")
        for number, point in enumerate(points)
    }
    answers = run_together(
        [
            {"do": "pay_and_die", "url": url, "request_id": request.id, "point": point}
            for point, url in urls.items()
        ]
    )
    assert answers == []  # nobody came to the end
    return request, urls


async def at_gateway(shop: Shop, request: RefundRequest) -> int:
    state = await shop.container.gateway().payment_state(instruction_of(request))
    return state.refunded_minor


async def tick(shop: Shop) -> None:
    for _ in range(2):
        await shop.container.payouts().pay_due()
        await shop.container.payouts().reconcile()


@pytest.mark.parametrize(
    ("point", "left", "in_the_end"),
    [
        ("attempt written", S.APPROVED, S.REFUNDED),
        ("refund executed", S.PAYING, S.REFUNDED),
        ("outcome written", S.PAYING, S.REFUNDED),
    ],
)
async def test_after_a_restart_it_is_paid_exactly_once(killed, point, left, in_the_end):
    request, urls = killed
    async with open_shop(urls[point]) as shop:
        assert (await shop.request(request.id)).status is left

        await tick(shop)

        assert (await shop.request(request.id)).status is in_the_end
        assert await at_gateway(shop, request) == 250_000
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 250_000
        await assert_sound(shop)


async def test_what_was_never_sent_is_in_doubt_and_not_sent_blindly(killed):
    request, urls = killed
    async with open_shop(urls["attempt committed"]) as shop:
        await tick(shop)
        assert (await shop.request(request.id)).status is S.PAYING
        shop.clock.advance(IN_FLIGHT + timedelta(seconds=1))

        await tick(shop)

        assert (await shop.request(request.id)).status is S.IN_DOUBT
        assert await at_gateway(shop, request) == 0
        assert (await books_of(shop, "A100")).payments[0].reserved_minor == 250_000
        await assert_sound(shop)

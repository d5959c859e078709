"""Many processes on one SQLite file, all at once: one decision, one payout, no limit passed."""

from support_agent.domain.people import Approver
from support_agent.domain.refunds import RequestStatus
from tests.heart import add_approver, assert_sound, books_of, notices, requests_of
from tests.kit import open_shop
from tests.workers import run_together

S = RequestStatus


async def test_twelve_approvers_make_one_decision_and_one_payout(shop_url: str):
    names = [f"approver{number}" for number in range(12)]
    async with open_shop(shop_url) as shop:
        request = await shop.filed("A100")
        for name in names:
            limits = {"VND": 2_000_000}
            await add_approver(shop, Approver(name=name, person_id=name, level=1, limits=limits))

    answers = run_together(
        [
            {"do": "approve", "url": shop_url, "request_id": request.id, "name": name}
            for name in names
        ]
    )

    async with open_shop(shop_url) as shop:
        decisions = await shop.read(lambda tx: tx.decisions.of(request.id))
        attempts = await shop.read(lambda tx: tx.attempts.of(request.id))
        assert sorted(answers) == [*["ALREADY_DECIDED"] * 11, "REFUNDED"]
        assert len(decisions) == len(attempts) == 1
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 250_000
        assert len(await notices(shop, request.conversation_id)) == 1
        await assert_sound(shop)


async def test_of_ten_filings_at_once_six_are_automatic_and_four_wait(shop_url: str):
    """30,000 each of one order, automatic up to 200,000 of the order together."""
    async with open_shop(shop_url) as shop:
        quoted = [await shop.quote("A401", customer="C004", amount=30_000) for _ in range(10)]

    answers = run_together(
        [
            {
                "do": "file",
                "url": shop_url,
                "conversation": one.conversation_id,
                "quote_id": one.quotes[0].id,
                "customer": "C004",
            }
            for one in quoted
        ]
    )

    async with open_shop(shop_url) as shop:
        filed = await requests_of(shop)
        automatic = [request for request in filed if request.required_level == 0]
        waiting = [request for request in filed if request.status is S.PENDING_APPROVAL]
        assert sorted(answers) == [*["PENDING_APPROVAL"] * 4, *["REFUNDED"] * 6]
        assert (len(automatic), len(waiting)) == (6, 4)
        (payment,) = (await books_of(shop, "A401")).payments
        assert (payment.refunded_minor, payment.reserved_minor) == (180_000, 120_000)
        await assert_sound(shop)

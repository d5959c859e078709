"""A process that tells a refund's whole story dies at every point of it: the money goes once."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from support_agent.testing.gateway import Act
from tests.crashes import KeptGateway
from tests.heart import simulator
from tests.kit import open_shop
from tests.places import Places
from tests.workers import run_once, run_together

AT_ONCE = 4  # processes; two cores have to do with them


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is refunded, by which story, and what the gateway outside does with it, if it is one."""

    story: str
    order: str
    amounts: tuple[int, ...]  # less than the payments, or the gateway itself would pay only once
    kept: bool = False
    acts: tuple[Act, ...] = ()
    attempts: tuple[str, ...] = ("SUCCEEDED",)  # of each request, in the end


APPROVED = Case(story="approved", order="A400", amounts=(300_000,))
OUTSIDE = replace(APPROVED, kept=True)
# The first half until the filing is the same for all; where it is told once, the rest is enough.
WHOLE = {
    "approved": APPROVED,
    "automatic": Case(story="automatic", order="A401", amounts=(30_000,)),
}
PAYING = {
    "answer lost": replace(OUTSIDE, acts=(Act.LOSE_ANSWER,)),
    "request lost": replace(OUTSIDE, acts=(Act.LOSE_REQUEST,)),
    "two tenders": Case(story="approved", order="A605", amounts=(100_000, 200_000), kept=True),
    "declined, retried": replace(
        OUTSIDE, story="retried", acts=(Act.DECLINE,), attempts=("FAILED", "SUCCEEDED")
    ),
}


@pytest.fixture(scope="module")
def template(places: Places) -> str:
    return places.shop()


class Matrix:
    """One story, played once to its end and once to each of its points, each time on a copy."""

    def __init__(self, places: Places, template: str, case: Case) -> None:
        self._places = places
        self._case = case
        self._quoted = places.copy(template)
        self._said = asyncio.run(self._quote())
        self.points = self._dry_run()

    async def _quote(self) -> dict[str, Any]:
        async with open_shop(self._quoted) as shop:
            order = await shop.container.orders().get(self._case.order)
            quoted = await shop.quote(
                order.id, customer=order.customer_id, amount=sum(self._case.amounts)
            )
            return {
                "conversation": quoted.conversation_id,
                "quote_id": quoted.quotes[0].id,
                "customer": order.customer_id,
            }

    def _dry_run(self) -> list[str]:
        (job,) = self._jobs([None])
        points: list[str] = run_once(job)
        self._places.drop(job["url"])
        return points

    def _jobs(self, points: list[int | None], **more: Any) -> list[dict[str, Any]]:
        return [
            {
                "do": "play",
                "url": self._places.copy(self._quoted),
                "gateway": self._gateway(),
                "said": self._said,
                "story": self._case.story,
                "at": point,
                **more,
            }
            for point in points
        ]

    def _gateway(self) -> str | None:
        if not self._case.kept:
            return None
        gateway = simulator()
        gateway.will(*self._case.acts)
        path = self._places.folder / f"{len(list(self._places.folder.iterdir()))}.gateway"
        KeptGateway.keep(gateway, path)
        return str(path)

    def die_and_recover(self, points: list[int], **more: Any) -> list[dict[str, Any]]:
        """What there is in the end, after a death at each of the points."""
        ends: list[dict[str, Any]] = []
        for first in range(0, len(points), AT_ONCE):
            jobs = self._jobs(list(points[first : first + AT_ONCE]), **more)
            assert run_together(jobs) == [None] * len(jobs)  # nobody came to the end
            left = ("url", "story", "said", "gateway", *more)
            ends += run_together(
                [{"do": "recover"} | {key: job[key] for key in left} for job in jobs]
            )
            self._places.drop(*(job["url"] for job in jobs))
        return ends

    @property
    def paying(self) -> list[int]:
        """The points of the half in which money moves."""
        first = self.points.index("before gateway payment_state")
        return list(range(first, len(self.points)))

    def wrong(self, end: dict[str, Any]) -> bool:
        """Whether it is anything but one refund of each exact amount, known to our books."""
        amounts = sorted(self._case.amounts)
        keys = {attempts[-1][0] for attempts in end["attempts"]}
        return (
            sorted(end["requests"]) != [["REFUNDED", amount] for amount in amounts]
            or sorted(amount for _, amount in end["refunds"]) != amounts
            or {key for key, _ in end["refunds"]} != keys
            or any(
                tuple(status for _, status in attempts)
                not in {self._case.attempts, ("SUCCEEDED",)}  # a no that nobody kept is asked again
                for attempts in end["attempts"]
            )
            or end["books"] != []
            or end["history"] != []
        )

    def wrong_ends(self, points: list[int]) -> dict[str, Any]:
        """Each point after which it went wrong, and how."""
        ends = zip(points, self.die_and_recover(points), strict=True)
        return {f"{k} {self.points[k]}": end for k, end in ends if self.wrong(end)}


@pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE)
def test_after_a_death_at_any_point_the_money_goes_exactly_once(places, template, case):
    matrix = Matrix(places, template, case)

    assert len(matrix.points) > 20
    assert matrix.wrong_ends(list(range(len(matrix.points)))) == {}


@pytest.mark.parametrize("case", PAYING.values(), ids=PAYING)
def test_after_a_death_at_any_point_of_paying_the_money_goes_exactly_once(places, template, case):
    matrix = Matrix(places, template, case)

    assert len(matrix.paying) > 8
    assert matrix.wrong_ends(matrix.paying) == {}


def test_the_matrix_catches_a_payout_that_sends_under_a_new_key_each_time(places, template):
    """Else it would prove nothing."""
    matrix = Matrix(places, template, OUTSIDE)
    paid = matrix.points.index("after gateway refund")

    (end,) = matrix.die_and_recover([paid], broken=True)

    assert [amount for _, amount in end["refunds"]] == [300_000, 300_000]
    assert matrix.wrong(end)

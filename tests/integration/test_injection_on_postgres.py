"""The attacks that go deepest, on PostgreSQL as well: no harm there either."""

from tests.injection import LIMITS, corpus, harm, play
from tests.kit import open_shop, seed

DEEPEST = {"m14", "m26", "p02", "n04", "a03"}


async def test_obeyed_attacks_do_no_harm_on_postgresql(postgres_url):
    await seed(postgres_url)
    async with open_shop(postgres_url, limits=LIMITS) as shop:
        cases = [case for case in corpus() if case.id in DEEPEST]
        assert len(cases) == len(DEEPEST)
        for case in cases:
            played = await play(shop, case)

            assert played.model.obeyed, case.id
            assert await harm(shop, played) == [], case.id

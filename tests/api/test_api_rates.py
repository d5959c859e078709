"""Rates: of a key, of a customer and of an address that brings wrong keys; each by itself."""

import pytest

from support_agent.api import rates
from support_agent.api.problems import ProblemError
from support_agent.api.rates import Rate
from support_agent.domain.access import Scope
from support_agent.domain.conversation import Assurance
from tests.api_kit import HOST, Api, customer_token, opened_api
from tests.guarded_kit import probed


class Seconds:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def rate(most: int = 3) -> tuple[Rate, Seconds]:
    seconds = Seconds()
    return Rate("requests", most, seconds=seconds), seconds


def waits(rate: Rate, name: str) -> int:
    with pytest.raises(ProblemError) as refused:
        rate.count(name)
    assert (refused.value.status, refused.value.code) == (429, "RATE_LIMITED")
    return int(refused.value.headers["Retry-After"])


class TestWindow:
    def test_so_many_are_let_through_and_the_next_is_told_when(self):
        counted, seconds = rate()
        for _ in range(3):
            counted.count("a")
            seconds.now += 10

        assert waits(counted, "a") == 30
        seconds.now += 29
        assert waits(counted, "a") == 1
        seconds.now += 1.5
        counted.count("a")
        assert waits(counted, "a") == 10

    def test_those_that_were_refused_do_not_count(self):
        counted, seconds = rate(1)
        counted.count("a")
        for _ in range(100):
            waits(counted, "a")
        seconds.now += 60

        counted.count("a")

    def test_no_window_of_a_minute_has_more(self):
        counted, seconds = rate(5)
        came = []
        for _ in range(600):
            try:
                counted.count("a")
                came.append(seconds.now)
            except ProblemError:
                pass
            seconds.now += 0.7

        assert all(later - first >= 60 for first, later in zip(came, came[5:], strict=False))
        assert len(came) >= 30

    def test_one_name_does_not_touch_another(self):
        counted, _ = rate(1)
        counted.count("a")

        counted.count("b")

    def test_it_says_the_policy_in_the_headers_of_the_draft(self):
        counted, _ = rate(1)
        counted.count("a")
        with pytest.raises(ProblemError) as refused:
            counted.check("a")

        assert refused.value.headers["RateLimit-Policy"] == '"minute";q=1;w=60'
        assert refused.value.headers["RateLimit"] == '"minute";r=0;t=60'

    def test_memory_is_bounded_and_the_idle_go_first(self, monkeypatch):
        monkeypatch.setattr(rates, "MOST_NAMES", 100)
        counted, seconds = rate(1)
        for n in range(1_000):
            counted.count(f"n{n}")
        assert len(counted) == 100
        waits(counted, "n999")

        seconds.now += 61
        counted.count("later")

        assert len(counted) == 1


@pytest.fixture
async def api(shop_url):
    few = {"rate_per_minute": 6, "customer_rate_per_minute": 3}
    async with opened_api(shop_url, api=few) as opened:
        yield opened


async def look(api: Api, who) -> int:
    return (await api.client.get("/v1/probe", headers=who)).status_code


async def test_a_key_may_come_so_often_and_others_still_may(api):
    probed(api)
    who, other = (
        await api.staff(Scope.TASKS_WRITE, name="a"),
        await api.staff(Scope.TASKS_WRITE, name="b"),
    )
    assert [await look(api, who) for _ in range(7)] == [200] * 6 + [429]

    response = await api.client.get("/v1/probe", headers=who)

    assert response.json()["code"] == "RATE_LIMITED"
    assert response.headers["content-type"] == "application/problem+json"
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert await look(api, other) == 200


async def test_two_keys_of_one_name_count_together(api):
    probed(api)
    one, two = [await api.staff(Scope.TASKS_WRITE, name="a") for _ in range(2)]
    assert [await look(api, who) for who in (one, two) * 3] == [200] * 6

    assert (await look(api, one), await look(api, two)) == (429, 429)


async def test_a_customer_may_come_so_often_over_all_keys(api):
    probed(api)
    web, app = await api.customer("C001", name="web"), await api.customer("C001", name="app")
    other = {**app, "Support-Agent-Customer-Token": customer_token("C002")}
    assert [await look(api, who) for who in (web, app, web, app)] == [200, 200, 200, 429]

    assert await look(api, other) == 200


async def test_who_is_only_said_to_be_the_customer_does_not_use_that_up(api):
    probed(api)
    text = await api.key(
        Scope.CUSTOMERS_ACT,
        name="zalo",
        channel="zalo",
        account="oa",
        assurance=Assurance.CLAIMED,
    )
    claimed = {"Authorization": f"Bearer {text}", "Support-Agent-Customer": "C001"}
    assert [await look(api, claimed) for _ in range(4)] == [200, 200, 200, 429]
    assert await look(api, {**claimed, "Support-Agent-Contact": "another"}) == 200

    assert await look(api, await api.customer("C001")) == 200


async def test_refused_requests_of_a_good_key_count_too(api):
    probed(api)
    who = await api.staff(Scope.TASKS_READ)
    statuses = [await look(api, who) for _ in range(7)]

    assert statuses == [403] * 6 + [429]


class TestWrongKeys:
    async def test_an_address_of_many_is_made_to_wait(self, api):
        probed(api)
        wrong = {"Authorization": "Bearer sak_x_y"}
        statuses = [await look(api, wrong) for _ in range(32)]

        assert statuses == [401] * 30 + [429] * 2

    async def test_without_a_key_at_all_as_well(self, api):
        probed(api)

        assert [await look(api, {}) for _ in range(31)][-1] == 401
        assert await look(api, {"Authorization": "Bearer sak_x_y"}) == 429

    async def test_a_key_that_was_good_lately_still_comes_in_from_there(self, api):
        probed(api)
        known, new = (
            await api.staff(Scope.TASKS_WRITE, name="a"),
            await api.staff(Scope.TASKS_WRITE, name="b"),
        )
        assert await look(api, known) == 200
        for _ in range(31):
            await look(api, {"Authorization": "Bearer sak_x_y"})

        assert await look(api, known) == 200
        assert await look(api, new) == 200  # also one that nobody knows here yet

    async def test_nobody_locks_out_the_clients_of_a_process_that_has_just_started(self, api):
        probed(api)
        good = await api.staff(Scope.TASKS_WRITE, name="a")
        for _ in range(40):
            await look(api, {})
            await look(api, {"Authorization": "Bearer sak_x_y"})

        assert await look(api, good) == 200

    async def test_one_that_was_good_is_made_to_wait_as_any_other_once_it_ended(self, api):
        probed(api)
        key, text = await api.shop.container.api_keys().create(
            name="a", scopes=frozenset({Scope.TASKS_WRITE}), by=HOST
        )
        who = {"Authorization": f"Bearer {text}"}
        assert await look(api, who) == 200
        await api.shop.container.api_keys().revoke(key.id, by=HOST)

        statuses = [await look(api, who) for _ in range(32)]

        assert statuses == [401] * 30 + [429] * 2

    async def test_one_that_was_revoked_since_does_not(self, api):
        probed(api)
        text = await api.key(Scope.TASKS_WRITE, name="a")
        who = {"Authorization": f"Bearer {text}"}
        assert await look(api, who) == 200
        keys = api.shop.container.api_keys()
        await keys.revoke((await keys.authenticate(text)).id, by=HOST)

        assert await look(api, who) == 401

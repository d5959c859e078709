"""`Idempotency-Key`: one effect and one answer, over races, crashes, rotation and two processes."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa
from starlette.responses import JSONResponse, StreamingResponse

from support_agent.adapters.db.migrations import exclusive
from support_agent.api.problems import ProblemError
from support_agent.domain.access import Scope
from support_agent.domain.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    NotAuthorised,
    RefundRefused,
    TaskNotFound,
)
from support_agent.domain.reasons import Reason
from support_agent.logging import configure
from support_agent.ports.storage import InFlight, Mine, Reply, Reused, Slot
from tests.api_kit import HOST, Api, customer_token, opened_api
from tests.guarded_kit import Probe, probed
from tests.kit import Shop

KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
SLOT = Slot(principal="web", customer_id="C001", route="POST /v1/x", key="k1")
REPLY = Reply(status=201, headers={"location": "/v1/x/1"}, body='{"a":"ồ"}')


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


@pytest.fixture
def probe(api: Api) -> Probe:
    return probed(api)


def age(url: str, **seconds: float) -> None:
    """Let the leases or lives of all slots be over, as if that time had passed."""
    moved = ", ".join(f"{name} = {name} - {by}" for name, by in seconds.items())
    with exclusive(url) as connection:
        connection.execute(sa.text(f"UPDATE idempotency_keys SET {moved}"))  # noqa: S608 - ours


class TestStore:
    async def take(self, shop: Shop, slot: Slot = SLOT, told: str = "h1", kept_s: float = 3_600):
        return await shop.write(
            lambda tx: tx.idempotency.take(slot, told, lease_s=30, kept_s=kept_s)
        )

    async def test_the_first_has_it_and_the_next_waits(self, shop_on_each: Shop):
        assert isinstance(await self.take(shop_on_each), Mine)

        waiting = await self.take(shop_on_each)

        assert isinstance(waiting, InFlight)
        assert 0 < waiting.left_s <= 30
        assert isinstance(await self.take(shop_on_each, told="h2"), Reused)

    async def test_what_was_answered_is_told_again(self, shop_on_each: Shop):
        mine = await self.take(shop_on_each)
        await shop_on_each.write(lambda tx: tx.idempotency.settle(SLOT, mine, REPLY))

        assert await self.take(shop_on_each) == REPLY
        assert isinstance(await self.take(shop_on_each, told="h2"), Reused)

    async def test_what_was_released_is_free(self, shop_on_each: Shop):
        mine = await self.take(shop_on_each)
        await shop_on_each.write(lambda tx: tx.idempotency.release(SLOT, mine))

        assert isinstance(await self.take(shop_on_each, told="h2"), Mine)

    async def test_after_its_lease_another_has_it_and_the_first_changes_nothing(
        self, shop_on_each: Shop
    ):
        late = await self.take(shop_on_each)
        age(shop_on_each.url, lease_until=31)
        mine = await self.take(shop_on_each)
        assert isinstance(mine, Mine)

        other = Reply(status=500, headers={}, body="late")
        await shop_on_each.write(lambda tx: tx.idempotency.settle(SLOT, late, other))
        await shop_on_each.write(lambda tx: tx.idempotency.release(SLOT, late))
        assert isinstance(await self.take(shop_on_each), InFlight)

        await shop_on_each.write(lambda tx: tx.idempotency.settle(SLOT, mine, REPLY))
        assert await self.take(shop_on_each) == REPLY

    async def test_after_its_time_it_is_another_requests(self, shop_on_each: Shop):
        mine = await self.take(shop_on_each)
        await shop_on_each.write(lambda tx: tx.idempotency.settle(SLOT, mine, REPLY))
        age(shop_on_each.url, kept_until=3_601)

        assert isinstance(await self.take(shop_on_each, told="h2"), Mine)

    async def test_of_many_at_once_one_has_it(self, shop_on_each: Shop):
        taken = await asyncio.gather(*(self.take(shop_on_each) for _ in range(12)))
        assert Counter(type(one) for one in taken) == {Mine: 1, InFlight: 11}

        age(shop_on_each.url, lease_until=31)

        taken = await asyncio.gather(*(self.take(shop_on_each) for _ in range(12)))
        assert Counter(type(one) for one in taken) == {Mine: 1, InFlight: 11}

    async def test_those_whose_time_is_over_are_let_go(self, shop_on_each: Shop):
        for n in range(5):
            slot = Slot(principal="web", customer_id="", route="POST /v1/x", key=f"k{n}")
            await self.take(shop_on_each, slot, kept_s=-1 if n else 60)

        counts = await shop_on_each.container.retention().run()

        assert counts["IDEMPOTENT_REPLIES"] == 4
        assert isinstance(await self.take(shop_on_each, slot), Mine)


async def send(api: Api, who, key="k1", *, path="/v1/probe", text="x", method="POST", **headers):
    body = None if path != "/v1/probe" else {"text": text}
    told = {**who, KEY: key, **headers}
    return await api.client.request(method, path, json=body, headers=told)


async def test_sent_again_it_is_answered_as_the_first_time(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    first = await send(api, who, path="/v1/probe/p%201")
    again = await send(api, who, path="/v1/probe/p%201")

    assert (again.status_code, again.content) == (201, first.content)
    for name in ("location", "etag", "content-type"):
        assert again.headers[name] == first.headers[name]
    assert "x-else" not in again.headers
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
    assert first.headers["x-request-id"] != again.headers["x-request-id"]
    assert probe.came == ["p 1"]


async def test_without_a_key_two_requests_are_two(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    for _ in range(2):
        await api.client.post("/v1/probe", json={"text": "x"}, headers=who)

    assert len(probe.came) == 2


async def test_reading_is_not_kept(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    for _ in range(2):
        await api.client.get("/v1/probe", headers={**who, KEY: "k1"})

    assert len(probe.came) == 2


async def test_another_request_under_the_key_is_refused(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    await send(api, who)
    others = [
        await send(api, who, text="y"),
        await send(api, who, **{"If-Match": '"3"'}),
        await api.client.post("/v1/probe?x=1", json={"text": "x"}, headers={**who, KEY: "k1"}),
    ]

    for other in others:
        assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(probe.came) == 1


async def test_a_key_is_one_clients_one_customers_and_one_routes(api, probe):
    staff = [await api.staff(Scope.TASKS_WRITE, name=name) for name in ("ops", "desk")]
    web = await api.customer("C001")
    other = {**web, "Support-Agent-Customer-Token": customer_token("C002")}
    for who in (*staff, web, other):
        assert (await send(api, who)).status_code == 200
    assert (await send(api, staff[0], method="PATCH")).status_code == 200
    assert (await send(api, staff[0], path="/v1/probe/a")).status_code == 201
    assert (await send(api, staff[0], path="/v1/probe/b")).status_code == 201
    assert (await send(api, staff[0], path="/v1/probe/" + "c" * 3_000)).status_code == 201
    assert (await send(api, staff[0], path="/v1/probe/" + "c" * 3_001)).status_code == 201

    assert len(probe.came) == 9


async def test_it_outlives_the_rotation_of_the_key(api, probe):
    text = await api.key(Scope.TASKS_WRITE, name="ops")
    first = await send(api, {"Authorization": f"Bearer {text}"})
    keys = api.shop.container.api_keys()
    old = await keys.authenticate(text)
    _, _, new = await keys.rotate(old.id, overlap=timedelta(0), by=HOST)

    again = await send(api, {"Authorization": f"Bearer {new}"})

    assert (again.content, again.headers[REPLAYED]) == (first.content, "true")


async def test_a_key_that_is_none_is_refused(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    for key in ("", " ", "a b", "k" * 256, "é", "a\tb"):
        response = await api.client.post(
            "/v1/probe", json={"text": "x"}, headers={**who, KEY: key.encode("latin-1")}
        )

        assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT")
        assert KEY in response.json()["detail"]
    assert probe.came == []


async def test_the_longest_key_is_taken_and_two_are_not(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    assert (await send(api, who, key="k" * 255)).status_code == 200

    twice = [*who.items(), (KEY, "a"), (KEY, "b")]
    response = await api.client.post("/v1/probe", json={"text": "x"}, headers=twice)

    assert response.status_code == 422


def raising(error: Exception):
    def act():
        raise error

    return act


KEPT = [
    (Conflict("busy"), 409),
    (TaskNotFound("tsk_1"), 404),
    (RefundRefused(Reason.RECORD_CHANGED), 422),
    (ProblemError(412, "STALE", "look again"), 412),
    (ProblemError(410, "GONE", "no more"), 410),
]
NOT_KEPT = [
    (InvalidInput("text", "is wrong"), 422),
    (NotAuthorised("no"), 403),
    (ProblemError(400, "BAD_REQUEST", "no"), 400),
    (ProblemError(422, "SOMETHING", "no"), 422),
    (ProblemError(428, "PRECONDITION_REQUIRED", "If-Match"), 428),
    (ProblemError(429, "RATE_LIMITED", "wait"), 429),
    (DatabaseUnavailable("away"), 503),
    (ZeroDivisionError(), 500),
]


async def test_a_refusal_by_the_state_of_things_is_kept(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    for n, (error, status) in enumerate(KEPT):
        probe.act = raising(error)
        first = await send(api, who, key=f"k{n}")
        probe.act = None
        again = await send(api, who, key=f"k{n}")

        assert (first.status_code, again.status_code) == (status, status)
        assert again.content == first.content
        assert again.headers["content-type"] == "application/problem+json"
        assert again.headers[REPLAYED] == "true"


async def test_what_may_pass_is_not_kept(api, probe):
    configure(format="json", level="error")  # tracebacks as plain text are much quicker
    who = await api.staff(Scope.TASKS_WRITE)
    for n, (error, status) in enumerate(NOT_KEPT):
        probe.act = raising(error)
        assert (await send(api, who, key=f"k{n}")).status_code == status
        probe.act = None

        again = await send(api, who, key=f"k{n}")
        assert (again.status_code, REPLAYED in again.headers) == (200, False)


async def test_an_answer_that_went_wrong_or_flows_is_not_kept(api, probe):
    async def chunks():
        yield b"a"

    who = await api.staff(Scope.TASKS_WRITE)
    for response in (JSONResponse({}, 500), JSONResponse({}, 202), StreamingResponse(chunks())):
        probe.act = lambda response=response: response
        await send(api, who, key=f"k{response.status_code}")
    probe.act = None

    assert REPLAYED not in (await send(api, who, key="k500")).headers
    assert (await send(api, who, key="k202")).headers[REPLAYED] == "true"
    assert REPLAYED not in (await send(api, who, key="k200")).headers


async def test_a_body_that_is_invalid_is_not_kept(api, probe):
    who = {**await api.staff(Scope.TASKS_WRITE), KEY: "k1"}
    bad = await api.client.post("/v1/probe", json={"text": 7}, headers=who)
    good = await api.client.post("/v1/probe", json={"text": "x"}, headers=who)

    assert (bad.status_code, good.status_code) == (422, 200)


async def test_while_it_is_answered_the_same_waits(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    go_on = asyncio.Event()

    async def slow():
        await go_on.wait()
        return {"done": True}

    probe.act = slow
    first = asyncio.create_task(send(api, who))
    await probe.started.wait()
    meanwhile = await send(api, who)
    other = await send(api, who, text="y")
    go_on.set()

    assert (meanwhile.status_code, meanwhile.json()["code"]) == (409, "IDEMPOTENCY_IN_FLIGHT")
    assert meanwhile.headers["retry-after"] == "1"
    assert other.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert (await first).json() == {"done": True}
    assert (await send(api, who)).headers[REPLAYED] == "true"


async def test_one_that_is_cancelled_may_be_sent_again(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    probe.act = lambda: asyncio.sleep(3_600)
    first = asyncio.create_task(send(api, who))
    await probe.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    probe.act = None

    assert (await send(api, who)).json()["n"] == 2


async def test_one_whose_process_died_runs_again_after_its_lease(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    never = asyncio.Event()
    probe.act = never.wait
    first = asyncio.create_task(send(api, who))
    await probe.started.wait()
    probe.act = None
    assert (await send(api, who)).status_code == 409

    age(api.shop.url, lease_until=600)

    assert (await send(api, who)).json()["n"] == 2
    never.set()
    await first  # the dead one comes back: what it says is kept no more
    assert (await send(api, who)).json()["n"] == 2


async def test_fields_that_are_secret_are_not_stored(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    first = await send(api, who, path="/v1/secrets")
    again = await send(api, who, path="/v1/secrets")

    assert first.json() == {"id": "s_1", "secret": "tuyệt mật"}
    assert (again.status_code, again.json()) == (201, {"id": "s_1"})
    with exclusive(api.shop.url) as connection:
        rows = connection.execute(sa.text("SELECT * FROM idempotency_keys")).all()
    assert "tuyệt mật" not in str(rows)


async def test_what_was_erased_is_not_told_and_not_done_again(api, probe):
    staff, web = await api.staff(Scope.TASKS_WRITE), await api.customer("C005")
    for who in (staff, web):
        await send(api, who)
    await api.shop.container.privacy().erase("C005", by=HOST)

    again = await send(api, staff)

    assert (again.status_code, again.json()["code"]) == (409, "IDEMPOTENT_REPLY_ERASED")
    with exclusive(api.shop.url) as connection:
        rows = connection.execute(sa.text("SELECT customer_id, body FROM idempotency_keys")).all()
    assert [tuple(row) for row in rows] == [("", None)]


async def test_twenty_at_once_at_two_servers_are_one(each_shop_url):
    async with opened_api(each_shop_url) as one, opened_api(each_shop_url) as two:
        probes = [probed(one), probed(two)]
        who = await one.staff(Scope.TASKS_WRITE)
        sent = [send(api, who) for api in (one, two) for _ in range(10)]
        answers = await asyncio.gather(*sent)

        assert len(probes[0].came) + len(probes[1].came) == 1
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses.keys() <= {200, 409}
        good = [answer for answer in answers if answer.status_code == 200]
        assert len({answer.content for answer in good}) == 1
        assert sum(REPLAYED not in answer.headers for answer in good) == 1
        assert (await send(two, who)).headers[REPLAYED] == "true"

"""`/v1/webhook-endpoints`, as an integrator sets events up and looks at what became of them."""

import pytest
import sqlalchemy as sa

from support_agent.domain.access import Scope
from tests.api_kit import Api, opened_api
from tests.webhook_kit import LOCAL, Receiver, later, receiving, send, status, tell

HOOKS = "/v1/webhook-endpoints"
EVERY = [
    *("run.completed", "run.handed_off", "approval.requested", "approval.escalated"),
    *("approval.decided", "refund.executed", "refund.failed"),
]


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url, webhooks=LOCAL) as opened:
        yield opened


async def staff(api: Api) -> dict[str, str]:
    return await api.staff(Scope.WEBHOOKS_MANAGE)


async def made(api: Api, receiver: Receiver, headers, events=EVERY, **more) -> dict:
    body = {"url": receiver.url, "events": events}
    answer = await api.client.post(HOOKS, json=body, headers={**headers, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_from_nothing_to_a_verified_event(api):
    headers = await staff(api)
    async with receiving() as receiver:
        created = await made(api, receiver, headers)
        await api.shop.say("Xin chào")
        await tell(api.shop)

    assert receiver.came[0].verified(created["secret"])["type"] == "run.completed"
    assert created == {
        "id": created["id"],
        "url": receiver.url,
        "events": EVERY,
        "state": "enabled",
        "disabled_reason": None,
        "secret_generation": 1,
        "overlap_until": None,
        "created_at": "2026-10-13T02:00:00Z",
        "created_by": "webhooks-manage",
        "secret": created["secret"],
    }
    page = (await api.client.get(f"{HOOKS}/{created['id']}/deliveries", headers=headers)).json()
    (delivery,) = page["data"]
    assert delivery == {
        "id": delivery["id"],
        "endpoint_id": created["id"],
        "event_id": receiver.ids[0],
        "type": "run.completed",
        "state": "delivered",
        "attempts": 1,
        "last_status": 204,
        "last_error": None,
        "next_attempt_at": None,
        "created_at": "2026-10-13T02:00:00Z",
        "ended_at": "2026-10-13T02:00:00Z",
    }


async def test_the_secret_is_shown_to_who_manages_and_to_nobody_else(api):
    headers = await staff(api)
    reader = await api.staff(Scope.WEBHOOKS_READ)
    async with receiving() as receiver:
        created = await made(api, receiver, headers)
    one = f"{HOOKS}/{created['id']}"

    shown = await api.client.get(f"{one}/secret", headers=headers)
    assert shown.json() == {"secret": created["secret"]}
    assert shown.headers["cache-control"] == "no-store"
    assert (await api.client.get(f"{one}/secret", headers=reader)).status_code == 403
    for path in (HOOKS, one, f"{one}/deliveries"):
        answer = await api.client.get(path, headers=reader)
        assert answer.status_code == 200
        assert "whsec_" not in answer.text
    for method, path in (
        *(("POST", HOOKS), ("PATCH", one), ("DELETE", one), ("POST", f"{one}/rotate")),
        ("POST", f"{one}/deliveries/whd_1/redeliver"),
    ):
        answer = await api.client.request(method, path, headers=reader, json={})
        assert answer.status_code == 403, (method, path)


async def test_a_replayed_answer_has_no_secret_and_nothing_is_made_twice(api):
    headers = await staff(api)
    async with receiving() as receiver:
        first = await made(api, receiver, headers, **{"Idempotency-Key": "one"})
        again = await made(api, receiver, headers, **{"Idempotency-Key": "one"})

    assert again == {name: value for name, value in first.items() if name != "secret"}
    kept = await api.shop.container.database().run_read(
        lambda c: c.execute(sa.text("SELECT body FROM idempotency_keys")).scalars().all()
    )
    assert len(kept) == 1
    assert 'secret"' not in kept[0]
    assert first["secret"] not in kept[0]


async def test_a_new_secret_signs_beside_the_one_before(api):
    headers = await staff(api)
    async with receiving() as receiver:
        created = await made(api, receiver, headers)
        rotated = await api.client.post(f"{HOOKS}/{created['id']}/rotate", headers=headers)
        await api.shop.say("Xin chào")
        await tell(api.shop)

    assert rotated.status_code == 200
    new = rotated.json()
    assert (new["secret_generation"], new["overlap_until"] is None) == (2, False)
    (came,) = receiver.came
    assert came.verified(new["secret"]) == came.verified(created["secret"])


async def test_events_and_state_change_and_the_rest_stays(api):
    headers = await staff(api)
    async with receiving() as receiver, receiving() as other:
        created = await made(api, receiver, headers)
        one = f"{HOOKS}/{created['id']}"
        changed = await api.client.patch(
            one, json={"events": ["run.handed_off", "run.handed_off"]}, headers=headers
        )
        assert changed.json()["events"] == ["run.handed_off"]
        changed = await api.client.patch(one, json={"url": other.url}, headers=headers)
        assert changed.json()["url"] == other.url
        changed = await api.client.patch(one, json={"state": "disabled"}, headers=headers)
        assert (changed.json()["state"], changed.json()["disabled_reason"]) == ("disabled", "staff")
        changed = await api.client.patch(one, json={"state": "enabled"}, headers=headers)

    told = changed.json()
    assert told == {
        **{name: value for name, value in created.items() if name != "secret"},
        "url": other.url,
        "events": ["run.handed_off"],
    }
    assert (await api.client.get(one, headers=headers)).json() == told
    assert (await api.client.delete(one, headers=headers)).status_code == 204
    assert (await api.client.get(one, headers=headers)).status_code == 404
    assert (await api.client.get(HOOKS, headers=headers)).json()["data"] == []


async def test_a_delivery_that_was_given_up_is_had_again(api):
    headers = await staff(api)
    async with receiving(lambda _: status(500)) as receiver:
        created = await made(api, receiver, headers)
        await api.shop.say("Xin chào")
        await tell(api.shop)
        for _ in range(9):
            await later(api.shop)
            await send(api.shop)
        path = f"{HOOKS}/{created['id']}/deliveries"
        page = await api.client.get(path, params={"state": "failed"}, headers=headers)
        (failed,) = page.json()["data"]
        assert (failed["attempts"], failed["last_status"]) == (10, 500)
        receiver.answer = lambda _: status(200)
        again = await api.client.post(f"{path}/{failed['id']}/redeliver", headers=headers)
        assert (again.status_code, again.json()["state"]) == (202, "pending")
        assert await send(api.shop) == 1

    assert set(receiver.ids) == {failed["event_id"]}
    assert len(receiver.ids) == 11


async def test_deliveries_are_turned_page_by_page(api):
    headers = await staff(api)
    async with receiving() as receiver:
        created = await made(api, receiver, headers)
        for _ in range(5):
            await api.shop.say("Xin chào")
        await tell(api.shop)
    path = f"{HOOKS}/{created['id']}/deliveries"
    found, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get(path, params=params, headers=headers)).json()
        found += [one["event_id"] for one in page["data"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert len(found) == len(set(found)) == 5
    assert set(found) == set(receiver.ids)
    wrong = await api.client.get(path, params={"cursor": "x"}, headers=headers)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/url"),
        ({"url": "http://127.0.0.1/"}, "/events"),
        ({"url": "http://127.0.0.1/", "events": []}, "/events"),
        ({"url": "http://127.0.0.1/", "events": ["refund.everything"]}, "/events/0"),
        ({"url": "http://127.0.0.1/", "events": EVERY, "secret": "mine"}, "/secret"),
        ({"url": 5, "events": EVERY}, "/url"),
        ({"url": "https://localhost/", "events": EVERY}, "/url"),
        ({"url": "https://169.254.169.254/latest", "events": EVERY}, "/url"),
        ({"url": "https://user:pw@127.0.0.1/", "events": EVERY}, "/url"),
        ({"url": "https://no-such-host.invalid/", "events": EVERY}, "/url"),
        ({"url": "ftp://127.0.0.1/", "events": EVERY}, "/url"),
    ],
)
async def test_a_wrong_endpoint_is_refused_with_the_field_that_is_wrong(api, body, pointer):
    answer = await api.client.post(HOOKS, json=body, headers=await staff(api))

    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
    assert pointer in [one["pointer"] for one in answer.json()["errors"]]


async def test_what_is_not_there(api):
    headers = await staff(api)
    for method, path, code in (
        ("GET", f"{HOOKS}/whe_none", "WEBHOOK_ENDPOINT_NOT_FOUND"),
        ("GET", f"{HOOKS}/whe_none/deliveries", "WEBHOOK_ENDPOINT_NOT_FOUND"),
        ("GET", f"{HOOKS}/whe_none/secret", "WEBHOOK_ENDPOINT_NOT_FOUND"),
        ("POST", f"{HOOKS}/whe_none/rotate", "WEBHOOK_ENDPOINT_NOT_FOUND"),
        ("DELETE", f"{HOOKS}/%00", "WEBHOOK_ENDPOINT_NOT_FOUND"),
        ("POST", f"{HOOKS}/whe_none/deliveries/whd_1/redeliver", "WEBHOOK_ENDPOINT_NOT_FOUND"),
    ):
        answer = await api.client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, code), path

"""Refund requests by HTTP: all of them for staff, and for customers their own and no more."""

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.refunds import RequestStatus
from support_agent.testing.gateway import Act
from tests.api_kit import opened_api
from tests.heart import approved, events, pay, simulator

STAFFS = ("required_level", "approvals_needed", "customer_id", "version", "operator", "requester")
STAFFS += ("destination", "gateway", "fingerprint", "payment_id", "decisions", "attempts", "lan")
STAFFS += ("filed_with", "provider_refund_id", "payment", "kín")


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


@pytest.fixture
async def staff(api):
    return await api.staff(Scope.REFUNDS_READ)


async def claimed(api, customer_id: str = "C001") -> dict[str, str]:
    """Headers of a channel that does not prove its customers."""
    key = await api.key(Scope.CUSTOMERS_ACT, name="zalo", channel="zalo", account="oa_1")
    return {"Authorization": f"Bearer {key}", "Support-Agent-Customer": customer_id}


def code_of(response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.status_code, response.json()["code"]


class TestStaff:
    async def test_lists_all_the_newest_first_by_pages(self, api, staff):
        ids = [
            (await api.shop.filed(order, customer=who)).id
            for order, who in (("A100", "C001"), ("A102", "C001"), ("A300", "C003"))
        ]
        first = (await api.client.get("/v1/refunds?limit=2", headers=staff)).json()
        params = {"limit": 2, "cursor": first["next_cursor"]}
        second = (await api.client.get("/v1/refunds", params=params, headers=staff)).json()

        assert [row["id"] for page in (first, second) for row in page["data"]] == ids[::-1]
        assert first["data"][1]["amount"]["currency"] == "VND"
        assert second["next_cursor"] is None

    async def test_narrows_them_down(self, api, staff):
        for order, who in (("A100", "C001"), ("A102", "C001"), ("A300", "C003")):
            await api.shop.filed(order, customer=who)
        for params, orders in (
            ({"status": "PENDING_APPROVAL"}, ["A100", "A300"]),
            ({"customer_id": "C001"}, ["A102", "A100"]),
            ({"order_id": "A300", "customer_id": "C003"}, ["A300"]),
            ({"order_id": "A300", "customer_id": "C001"}, []),
            ({"order_id": "a300"}, []),
        ):
            answer = await api.client.get("/v1/refunds", params=params, headers=staff)

            assert [row["order_id"] for row in answer.json()["data"]] == orders, params

    async def test_sees_all_of_one(self, api, staff):
        request = await approved(api.shop)
        await pay(api.shop, request)

        told = (await api.client.get(f"/v1/refunds/{request.id}", headers=staff)).json()

        assert (told["status"], told["customer_id"]) == ("REFUNDED", "C001")
        assert told["filed_with"]["requester"] == "customer:C001"
        assert [(one["choice"], one["by"]) for one in told["decisions"]] == [("approve", "lan")]
        (attempt,) = told["attempts"]
        assert (attempt["status"], attempt["amount"]["amount_minor"]) == ("SUCCEEDED", 250_000)

    async def test_an_unknown_one_is_not_found(self, api, staff):
        for unknown in ("req_unknown", "..%2fx", "%00", "x" * 300):
            answer = await api.client.get(f"/v1/refunds/{unknown}", headers=staff)

            assert code_of(answer)[0] == 404, unknown

    async def test_takes_none_back(self, api, staff):
        request = await api.shop.filed("A100")

        answer = await api.client.post(f"/v1/refunds/{request.id}/cancel", headers=staff)

        assert code_of(answer) == (403, "SCOPE_MISSING")


async def test_where_the_shop_pays_itself_it_is_recorded_and_not_refunded(shop_url):
    async with opened_api(shop_url, payments={"ledger_is_books_only": True}) as api:
        await api.shop.filed("A102")

        (row,) = (
            await api.client.get("/v1/refunds?lang=en", headers=await api.customer("C001"))
        ).json()["data"]

    assert "is recorded; the shop will pay it" in row["sentence"]


class TestCustomers:
    async def test_see_their_own_of_all_conversations_in_their_words(self, api):
        first = await api.shop.filed("A100")
        second = await api.shop.filed("A102")  # in another conversation
        await api.shop.filed("A300", customer="C003")

        answer = await api.client.get("/v1/refunds", headers=await api.customer("C001"))

        rows = answer.json()["data"]
        assert [row["id"] for row in rows] == [second.id, first.id]
        assert rows[0]["sentence"] == (
            f"Đã hoàn 120.000\u00a0₫ cho đơn A102 về thẻ đã thanh toán ({second.id})."
        )

    async def test_are_told_nothing_that_is_the_shops(self, api):
        request = await api.shop.filed("A100")
        by = await api.shop.approver("lan")
        await api.shop.container.approvals().reject(request.id, by=by, note="kín")
        customer = await api.customer("C001")

        one = await api.client.get(f"/v1/refunds/{request.id}?lang=en", headers=customer)
        many = await api.client.get("/v1/refunds", headers=customer)

        assert "was not approved" in one.json()["sentence"]
        for text in (one.text, many.text):
            assert [word for word in STAFFS if f'"{word}' in text] == []
            assert "kín" not in text
        assert set(one.json()) == {
            *("id", "order_id", "conversation_id", "amount", "lines", "status", "sentence"),
            *("created_at", "expires_at"),
        }

    async def test_do_not_see_anothers_and_that_they_tried_is_noted(self, api):
        request = await api.shop.filed("A300", customer="C003")
        customer = await api.customer("C001")
        url = f"/v1/refunds/{request.id}"

        there = await api.client.get(url, headers=customer)
        gone = await api.client.get("/v1/refunds/req_unknown", headers=customer)
        cancelled = await api.client.post(f"{url}/cancel", headers=customer)
        no_such = await api.client.post("/v1/refunds/req_unknown/cancel", headers=customer)

        for answer in (there, gone, cancelled, no_such):
            assert code_of(answer) == (404, "REQUEST_NOT_FOUND")
        for theirs, none in ((there, gone), (cancelled, no_such)):
            told = theirs.json() | {"request_id": ""}
            told["detail"] = told["detail"].replace(request.id, "req_unknown")
            assert told == none.json() | {"request_id": ""}
        denied = await events(api.shop, "access.denied")
        assert [(event.subject, event.actor.id) for event in denied] == [(request.id, "C001")] * 2
        assert (await api.shop.request(request.id)).status is RequestStatus.PENDING_APPROVAL

    async def test_do_not_name_another(self, api):
        customer = await api.customer("C001")

        answer = await api.client.get("/v1/refunds?customer_id=C003", headers=customer)

        assert code_of(answer) == (403, "NOT_THIS_CUSTOMER")
        mine = await api.client.get("/v1/refunds?customer_id=C001", headers=customer)
        assert mine.json()["data"] == []

    async def test_have_to_be_proved_to_be_one(self, api):
        request = await api.shop.filed("A100")
        unproved = await claimed(api)

        for answer in (
            await api.client.get("/v1/refunds", headers=unproved),
            await api.client.get(f"/v1/refunds/{request.id}", headers=unproved),
            await api.client.post(f"/v1/refunds/{request.id}/cancel", headers=unproved),
        ):
            assert code_of(answer) == (403, "IDENTITY_NOT_VERIFIED")
        assert await events(api.shop, "access.denied") == []

    async def test_of_a_channel_that_proves_them_are_served(self, api):
        request = await api.shop.filed("A100")
        key = await api.key(
            Scope.CUSTOMERS_ACT,
            name="app",
            channel="app",
            account="ios",
            assurance=Assurance.VERIFIED,
        )
        headers = {"Authorization": f"Bearer {key}", "Support-Agent-Customer": "C001"}

        answer = await api.client.get(f"/v1/refunds/{request.id}", headers=headers)

        assert answer.json()["id"] == request.id


class TestTakingBack:
    async def test_the_customer_takes_a_request_back_once(self, api):
        request = await api.shop.filed("A100")
        customer = await api.customer("C001")
        url = f"/v1/refunds/{request.id}/cancel"

        first, again = [await api.client.post(url, headers=customer) for _ in range(2)]

        assert (first.status_code, first.json()["status"]) == (200, "CANCELLED")
        assert "đã được huỷ" in first.json()["sentence"]
        assert code_of(again) == (409, "ALREADY_DECIDED")
        assert again.json()["request_status"] == "CANCELLED"
        assert (await api.shop.filed("A100")).id != request.id

    async def test_who_decided_is_not_told(self, api):
        request = await api.shop.filed("A100")
        by = await api.shop.approver("lan")
        await api.shop.container.approvals().reject(request.id, by=by)

        answer = await api.client.post(
            f"/v1/refunds/{request.id}/cancel", headers=await api.customer("C001")
        )

        assert code_of(answer) == (409, "ALREADY_DECIDED")
        assert answer.json()["request_status"] == "REJECTED"
        assert "by" not in answer.json()
        assert "lan" not in answer.json()["detail"]

    async def test_not_once_it_is_being_paid(self, shop_url):
        gateway = simulator()
        async with opened_api(shop_url, parts={"gateway": gateway}) as api:
            request = await approved(api.shop)
            gateway.will(Act.LOSE_ANSWER)
            await pay(api.shop, request)

            answer = await api.client.post(
                f"/v1/refunds/{request.id}/cancel", headers=await api.customer("C001")
            )

        assert code_of(answer) == (422, "REFUND_REFUSED")
        assert answer.json()["reason"] == "ALREADY_PAYING"
        assert set(answer.json()["sentences"]) == {"vi", "en"}

    async def test_what_was_filed_together_goes_together(self, api):
        quoted = await api.shop.quote("A605", customer="C006")
        first, second = (await api.shop.answer(quoted, customer="C006")).requests

        answer = await api.client.post(
            f"/v1/refunds/{second.id}/cancel", headers=await api.customer("C006")
        )

        assert answer.json()["id"] == second.id
        assert (await api.shop.request(first.id)).status is RequestStatus.CANCELLED

"""Who speaks for which customer: by a token of the shop, or by the channel a key is bound to."""

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Assurance
from tests.api_kit import Api, customer_token, opened_api
from tests.guarded_kit import probed
from tests.heart import events

TOKEN = "Support-Agent-Customer-Token"  # noqa: S105 - a header's name
CUSTOMER, CONTACT = "Support-Agent-Customer", "Support-Agent-Contact"


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


async def bridge(api: Api, *, sure: Assurance = Assurance.VERIFIED, account: str = "oa_1"):
    """Headers of a bridge to a messenger, which names its customers itself."""
    text = await api.key(
        Scope.CUSTOMERS_ACT, name=f"zalo-{account}", channel="zalo", account=account, assurance=sure
    )
    return {"Authorization": f"Bearer {text}"}


async def acting(api: Api, headers):
    """For whom the request is made, as its route sees it."""
    probe = probed(api)
    response = await api.client.get("/v1/probe", headers=headers)
    assert response.status_code == 200, response.text
    return probe.came[0].acting


async def refused(api: Api, headers) -> tuple[int, str, str]:
    probe = probed(api)
    response = await api.client.get("/v1/probe", headers=headers)
    assert probe.came == []
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    return response.status_code, body["code"], body["detail"]


async def test_a_token_makes_the_customer_verified_until_it_ends(api):
    found = await acting(api, await api.customer("C001", name="web"))

    assert (found.customer_id, found.assurance) == ("C001", Assurance.VERIFIED)
    assert (found.channel, found.account, found.contact) == ("api", "web", "C001")
    assert found.until is not None


@pytest.mark.parametrize("sure", [Assurance.CLAIMED, Assurance.VERIFIED])
async def test_a_bridge_names_the_customer_as_surely_as_its_key_says(api, sure):
    who = await bridge(api, sure=sure)
    found = await acting(api, {**who, CUSTOMER: "kh%C3%A1ch%201", CONTACT: "tel%3A0901"})

    assert (found.customer_id, found.contact) == ("khách 1", "tel:0901")
    assert (found.channel, found.account, found.assurance) == ("zalo", "oa_1", sure)
    assert found.until is None


async def test_staff_act_for_nobody(api):
    assert await acting(api, await api.staff(Scope.TASKS_WRITE)) is None


async def test_a_token_beside_the_same_customers_id_is_one_statement(api):
    who = await api.customer("C001")

    assert (await acting(api, {**who, CUSTOMER: "C001"})).customer_id == "C001"


class TestRefusals:
    async def test_a_key_for_customers_has_to_say_for_whom(self, api):
        text = await api.key(Scope.CUSTOMERS_ACT, name="web")
        status, code, words = await refused(api, {"Authorization": f"Bearer {text}"})

        assert (status, code) == (400, "CUSTOMER_NEEDED")
        assert TOKEN in words

    async def test_without_a_channel_a_key_names_nobody_by_itself(self, api):
        text = await api.key(Scope.CUSTOMERS_ACT, name="web")
        who = {"Authorization": f"Bearer {text}"}

        assert (await refused(api, {**who, CUSTOMER: "C001"}))[1] == "CUSTOMER_NEEDED"
        assert (await refused(api, {**who, CONTACT: "C001"}))[1] == "CUSTOMER_NEEDED"

    async def test_staff_do_not_speak_for_customers(self, api):
        who = await api.staff(Scope.TASKS_WRITE)
        for said in ({TOKEN: customer_token("C001")}, {CUSTOMER: "C001"}, {CONTACT: "x"}):
            assert (await refused(api, {**who, **said}))[:2] == (403, "SCOPE_MISSING")

    async def test_a_token_and_another_customers_id_contradict(self, api):
        who = await api.customer("C001")

        assert (await refused(api, {**who, CUSTOMER: "C002"}))[:2] == (422, "INVALID_INPUT")

    async def test_a_token_that_is_none_is_no_key_problem(self, api):
        who = await api.customer("C001")
        for token in ("", "x", "a.b.c", "null"):
            assert (await refused(api, {**who, TOKEN: token}))[:2] == (
                401,
                "CUSTOMER_TOKEN_REFUSED",
            )

    async def test_where_no_tokens_are_set_up_that_is_said(self, shop_url):
        async with opened_api(shop_url, api={"customer_token_secrets": None}) as bare:
            status, code, words = await refused(bare, await bare.customer("C001"))

        assert (status, code) == (401, "CUSTOMER_TOKEN_REFUSED")
        assert "SUPPORT_AGENT_API__CUSTOMER_TOKEN_SECRETS" in words

    async def test_a_customer_that_cannot_be_read_is_refused(self, api):
        who = await bridge(api)
        wrong = ["", "%ff", "%00", "a%0Ab", "%E2%80%AE", "%ED%A0%80", "x" * 201, b"\xe9"]
        for value in (*wrong, "khách".encode()):
            assert (await refused(api, {**who, CUSTOMER: value}))[:2] == (422, "INVALID_INPUT")

    async def test_a_header_that_is_there_twice_is_refused(self, api):
        who = {**await bridge(api), CUSTOMER: "C001"}
        for name in (TOKEN, CUSTOMER, CONTACT):
            twice = [*who.items(), (name, "C001"), (name, "C002")]
            assert (await refused(api, twice))[:2] == (422, "INVALID_INPUT")

    async def test_what_is_no_bearer_key_is_refused(self, api):
        long = "Bearer " + "x" * 501
        for value in ("", "Bearer", "Bearer ", "Basic YTpi", "sak_x_y", long, "Token sak_x_y"):
            assert (await refused(api, {"Authorization": value}))[:2] == (401, "NOT_AUTHENTICATED")


async def test_another_customers_conversation_is_none_and_leaves_an_event(api):
    api.shop.model.play({"answer": "Vâng."})
    mine = await api.customer("C001")
    opened = await api.client.post("/v1/conversations", json={"text": "Chào"}, headers=mine)
    there = f"/v1/conversations/{opened.json()['conversation_id']}"
    assert (await api.client.get(there, headers=mine)).status_code == 200
    other = {**mine, TOKEN: customer_token("C002")}

    answers = [
        await api.client.get(there, headers=other),
        await api.client.get("/v1/conversations/con_none", headers=other),
        await api.client.get(there, headers=await api.customer("C001", name="another-client")),
    ]

    assert [answer.status_code for answer in answers] == [404] * 3
    assert {answer.json()["code"] for answer in answers} == {"CONVERSATION_NOT_FOUND"}
    assert len(await events(api.shop, "access.denied")) >= 2

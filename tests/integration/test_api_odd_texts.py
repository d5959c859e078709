"""Texts that no database or no answer can hold are refused like every other, on each database."""

import base64
import json

from support_agent.domain.access import Scope
from tests.api_kit import SECRET, SECRET_ID, opened_api


async def test_a_cursor_of_tasks_that_no_text_can_be(each_shop_url: str):
    async with opened_api(each_shop_url) as api:
        who = await api.staff(Scope.TASKS_READ)
        answer = await api.client.get("/v1/tasks?cursor=%00", headers=who)

    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")


async def test_a_token_whose_fault_cannot_be_quoted(shop_url: str):
    head = {"alg": "HS256", "kid": SECRET_ID, "crit": ["\ud800" * 900]}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (head, {})]
    token = b".".join([*(part.rstrip(b"=") for part in parts), b"x"]).decode()
    async with opened_api(shop_url) as api:
        who = await api.customer()
        who["Support-Agent-Customer-Token"] = token
        answer = await api.client.get("/v1/refunds", headers=who)

    assert (answer.status_code, answer.json()["code"]) == (401, "CUSTOMER_TOKEN_REFUSED")
    assert len(answer.content) < 1_000
    assert SECRET not in answer.text

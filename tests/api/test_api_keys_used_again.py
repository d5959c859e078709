"""An `Idempotency-Key` that was forgotten may name another message."""

import pytest

from tests.api_kit import opened_api
from tests.queue_kit import Gate


@pytest.mark.parametrize(("text", "is_new"), [("Đơn A100 đâu?", True), ("Chào", False)])
async def test_it_is_another_message_if_it_says_something_else(shop_url, text, is_new, monkeypatch):
    async with opened_api(shop_url) as api:
        monkeypatch.setattr(api.app.state.guard.idempotency, "_kept_s", 0.0)
        who = {**await api.customer(), "Prefer": "wait=20", "Idempotency-Key": "k-1"}
        api.shop.model.model = Gate()
        first = await api.client.post("/v1/conversations", json={"text": "Chào"}, headers=who)
        again = await api.client.post("/v1/conversations", json={"text": text}, headers=who)

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["message"]["text"] == text
    assert (again.json()["conversation_id"] != first.json()["conversation_id"]) is is_new

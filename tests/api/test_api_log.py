"""What a fault of ours leaves in the log of an application that mounts the API."""

import pytest
import structlog

from tests.api_kit import opened_api


@pytest.fixture(autouse=True)
def as_it_was():
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


async def test_no_key_token_or_text_where_the_application_set_up_no_log(shop_url, capsys):
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    async with opened_api(shop_url) as api:
        who = await api.customer()
        api.shop.container.conversation_access().conversation = broken
        answer = await api.client.post(
            "/v1/conversations/con_1/messages", json={"text": "tài khoản 19001234"}, headers=who
        )

    told = "".join(capsys.readouterr())
    assert answer.status_code == 500
    assert "a fault of ours" in told
    for secret in (*who.values(), "19001234"):
        assert secret.removeprefix("Bearer ")[:30] not in told


async def test_a_log_that_the_application_set_up_stays(shop_url):
    mine = [structlog.processors.JSONRenderer()]
    structlog.configure(processors=mine)

    async with opened_api(shop_url):
        assert structlog.get_config()["processors"] is mine

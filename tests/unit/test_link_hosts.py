"""SHOP__LINK_HOSTS: where answers may link to; nowhere unless it is said."""

import pytest

from support_agent.domain.errors import ConfigurationError
from support_agent.settings import load_settings
from tests.kit import open_shop

NAME = "SUPPORT_AGENT_SHOP__LINK_HOSTS"


def test_hosts_are_given_with_commas_and_there_are_none_by_default(monkeypatch, tmp_path):
    assert load_settings(folder=tmp_path).shop.hosts == frozenset()

    monkeypatch.setenv(NAME, " Shop.example.vn, help.shop.example.vn ,")

    assert load_settings(folder=tmp_path).shop.hosts == {"shop.example.vn", "help.shop.example.vn"}


@pytest.mark.parametrize(
    "value", ["https://shop.vn", "shop.vn/help", "*.vn", "shop", "a b.vn", "*"]
)
def test_what_is_no_host_name_is_refused_by_the_name_of_the_setting(monkeypatch, tmp_path, value):
    monkeypatch.setenv(NAME, value)

    with pytest.raises(ConfigurationError, match=f"{NAME}.*no host name"):
        load_settings(folder=tmp_path)


async def test_an_answer_keeps_links_to_the_shops_hosts_only(shop_url):
    answer = {"answer": "Xem https://shop.example.vn/a hoặc https://evil.example/b."}

    async with open_shop(shop_url, shop={"link_hosts": "shop.example.vn"}) as shop:
        result = await shop.say("đổi trả thế nào?", answer)

    assert result.answer == "Xem https://shop.example.vn/a hoặc [liên kết đã bị gỡ]."

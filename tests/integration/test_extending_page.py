"""docs/extending.md, block by block: what it shows is what runs."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from support_agent.testing import ORDERS_CHECKS
from tests.foreign_package import ORDERS, importable
from tests.kit import KEYS, open_shop

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
EXPORT = {
    "customers": {"C001": "Khách Mẫu"},
    "orders": {
        "K1": {
            "khach": "C001",
            "hang": "Áo thun",
            "gia": 150_000,
            "thanh_toan": "pay-K1",
            "trang_thai": "hoan_tat",
            "dat": "2026-10-01T09:00:00+07:00",
            "giao": "2026-10-05T09:00:00+07:00",
        }
    },
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The page's files, installed with the entry point that the page shows."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "export.json").write_text(json.dumps(EXPORT), encoding="utf-8")
    monkeypatch.setenv("SHOP_EXPORT", str(tmp_path / "export.json"))
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    points = tomllib.loads(block)["project"]["entry-points"]["support_agent.tools"]
    described = tmp_path / "shop_kit-1.0.dist-info"
    described.mkdir()
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (described / "entry_points.txt").write_text("".join(["[support_agent.tools]\n", *lines]))
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-kit\nVersion: 1.0\n")
    with importable(tmp_path, *FILES):
        yield tmp_path


def settings_of_the_page():
    """What the page exports, by section and name."""
    told = re.findall(r"export SUPPORT_AGENT_(\w+?)__(\w+)=(\S+)", PAGE)
    sections = {}
    for section, name, value in told:
        sections.setdefault(section.lower(), {})[name.lower()] = value
    return sections


async def test_orders_and_a_tool_of_the_page_serve_a_customer(package, shop_url):
    async with open_shop(shop_url, **settings_of_the_page()) as shop:
        call = {"tool": "loyalty_points", "arguments": {"year": 2026}}
        look = {"tool": "lookup_order", "arguments": {"order_id": "K1"}}
        result = await shop.say("điểm của tôi?", call, look, {"answer": "120 điểm."})
        quoted = await shop.quote("K1")

    points, order = (made.observation for step in result.steps for made in step.calls)
    assert json.loads(points.content) == {"points": 120, "year": 2026}
    assert json.loads(order.content)["total"] == 150_000
    assert quoted.quotes[0].amount_minor == 150_000


@pytest.mark.parametrize("check", ORDERS_CHECKS, ids=lambda check: check.__name__)
def test_the_suite_of_the_page_runs_over_a_class(tmp_path, check):
    """Over a class that holds the suite's orders, as the page says that one has to."""
    (tmp_path / "shop_orders.py").write_text(ORDERS, encoding="utf-8")
    (tmp_path / "test_shop_orders.py").write_text(FILES["test_shop_orders"], encoding="utf-8")
    with importable(tmp_path, "shop_orders", "test_shop_orders"):
        from test_shop_orders import test_our_orders_keep_the_contract  # noqa: PLC0415

        test_our_orders_keep_the_contract(check)


async def test_an_override_takes_the_place_of_a_provider(package, shop_url, monkeypatch):
    monkeypatch.setenv("SUPPORT_AGENT_DATABASE__URL", shop_url)
    monkeypatch.setenv("SUPPORT_AGENT_SECURITY__KEYS", KEYS)
    monkeypatch.chdir(package)  # no .env of ours
    from own_process import order_of  # noqa: PLC0415 - only there in this test

    assert (await order_of("K1")).customer_id == "C001"

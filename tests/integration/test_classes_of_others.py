"""Tools and orders classes of an installed package: named they work, unnamed they are not there."""

import json
import subprocess
import sys

import pytest

from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.testing import ORDERS, ORDERS_CHECKS, ContractBroken, check_orders
from tests.cli.terminal import environment_of
from tests.foreign_package import importable, install
from tests.kit import open_shop, settings_for

OURS = [
    "lookup_order",
    "list_orders",
    "refund_policy",
    "quote_refund",
    "request_refund",
    "refund_status",
    "cancel_refund",
    "hand_off",
]
BOOKS = {"ledger_is_books_only": True}
DONE = {"answer": "Xong."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return install(tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def package(folder):
    with importable(folder):
        yield folder


def with_tools(url, enabled):
    return open_shop(url, tools={"enabled": enabled})


def with_orders(url, name):
    return open_container(
        settings_for(url, orders={"kind": "class", "class": name}, payments=BOOKS)
    )


async def refused(opening):
    with pytest.raises(ConfigurationError) as caught:
        async with opening:
            pass
    return caught.value


class TestTools:
    async def test_named_ones_come_behind_ours_in_the_order_of_their_names(self, package, shop_url):
        async with with_tools(shop_url, "wish, foreign_shop.tools:Closing,loyalty") as shop:
            names = [spec.name for spec in shop.container.tool_runner().specs]

        assert names == [*OURS, "wish", "closing", "loyalty_points"]

    async def test_one_answers_the_customer_who_asks(self, package, shop_url):
        call = {"tool": "loyalty_points", "arguments": {"year": 2026}}
        wrong = {"tool": "loyalty_points", "arguments": {"year": "2026"}}
        wish = {"tool": "wish", "arguments": {"year": 7}}
        async with with_tools(shop_url, "loyalty,wish") as shop:
            result = await shop.say("tôi có bao nhiêu điểm?", call, wrong, wish, DONE)

        seen = [made.observation for step in result.steps for made in step.calls]
        assert json.loads(seen[0].content) == {"points": 120, "year": 2026, "customer": "C001"}
        assert seen[1].error_code == "INVALID_ARGUMENTS"
        assert json.loads(seen[2].content) == {"kept": 7}

    async def test_what_is_not_named_is_not_imported(self, package, shop_url):
        async with open_shop(shop_url) as shop:
            assert [tool.name for tool in shop.container.tools()] == OURS
        assert not [name for name in sys.modules if name.startswith("foreign_shop")]
        async with with_tools(shop_url, "loyalty"):
            pass
        assert "foreign_shop.trap" not in sys.modules

    async def test_one_that_can_be_closed_is_closed(self, package, shop_url):
        async with with_tools(shop_url, "closing"):
            closing = sys.modules["foreign_shop.tools"].Closing
            assert closing.closed == 0
        assert closing.closed == 1

    @pytest.mark.parametrize(
        ("enabled", "problem"),
        [
            ("nothing", "no tool 'nothing'; installed are: closing, gone, loyalty, trap, wish"),
            ("gone", "module 'foreign_shop.tools' has no 'Gone'"),
            ("trap", "'foreign_shop.trap' cannot be imported: RuntimeError (trap.py, line 1)"),
            ("foreign_shop.tools:Paying", "tool 'pay_points' would move money"),
            ("foreign_shop.tools:Undeclared", "tool 'undeclared' would move money"),
            ("foreign_shop.tools:LooksUp", "tool 'lookup_order' has a name that is taken"),
            ("loyalty,foreign_shop.tools:Twin", "tool 'loyalty_points' has a name that is taken"),
            ("foreign_shop.tools:Shouting", "'Loyalty Points!' needs a name of a-z"),
            ("foreign_shop.tools:Silent", "needs a description"),
            ("foreign_shop.tools:Lax", "leave strict and extra alone"),
            ("foreign_shop.tools:Bare", "derived from support_agent.Arguments"),
            ("foreign_shop.tools:Blocking", "run must be `async def`"),
            ("foreign_shop.tools:Patient", "timeout_s that is no number of seconds"),
            ("foreign_shop.tools:Abstract", "cannot be made: TypeError: Can't instantiate"),
            ("foreign_shop.tools:NoTool", "is neither a ReadTool nor a WriteTool"),
            ("foreign_shop.tools:Needy", "it is called without arguments"),
            ("foreign_shop.tools:ClosesAtOnce", "aclose of 'ClosesAtOnce' must be `async def`"),
            ("foreign_shop.tools:not_a_class", "is a function, not a class"),
            ("foreign_shop.needs:Tool", "it needs 'not_installed_anywhere', which is not"),
            ("foreign_shop.crooked:Tool", "cannot be imported: SyntaxError"),
            ("foreign_shop.nowhere:Tool", "no module 'foreign_shop.nowhere'; install it"),
        ],
    )
    async def test_one_that_may_not_start_stops_the_start(
        self, package, shop_url, enabled, problem
    ):
        error = await refused(with_tools(shop_url, enabled))

        assert error.setting == "SUPPORT_AGENT_TOOLS__ENABLED"
        assert problem in str(error)

    async def test_two_packages_with_a_tool_of_one_name_are_told_apart(
        self, package, shop_url, tmp_path
    ):
        other = tmp_path / "other-1.0.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        (other / "entry_points.txt").write_text("[support_agent.tools]\nloyalty = other.tools:T\n")
        with importable(tmp_path):
            error = await refused(with_tools(shop_url, "loyalty"))

        assert "foreign_shop.tools:Points, other.tools:T" in str(error)


class TestOrders:
    async def test_a_class_of_ones_own_is_asked_and_closed(self, package, shop_url):
        async with with_orders(shop_url, "foreign_shop.orders:ShopOrders") as container:
            assert (await container.orders().get("A100")).customer_id == "C-list"
            own = sys.modules["foreign_shop.orders"].ShopOrders
            assert own.closed == 0
        assert own.closed == 1

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            (None, "is needed; write package.module:Class"),
            (
                "foreign_shop.orders:Half",
                "list_for_customer is missing; find_customer must be `async def`",
            ),
            (
                "foreign_shop.orders:Inherits",
                "list_for_customer is missing; find_customer is missing",
            ),
            ("foreign_shop.orders:Shy", "find_customer cannot be read: OSError (orders.py, line "),
            ("foreign_shop.orders:Breaks", "cannot be made: KeyError (orders.py, line "),
            ("foreign_shop.orders:THE_ORDERS", "is a ShopOrders, not a class"),
            ("foreign_shop.orders:Nobody", "module 'foreign_shop.orders' has no 'Nobody'"),
            ("no_such_package.orders:Orders", "no module 'no_such_package'; install it"),
        ],
    )
    async def test_one_that_is_none_stops_the_start(self, package, shop_url, name, problem):
        error = await refused(with_orders(shop_url, name))

        assert error.setting == "SUPPORT_AGENT_ORDERS__CLASS"
        assert problem in str(error)
        assert "secret" not in str(error)

    @pytest.mark.parametrize("check", ORDERS_CHECKS, ids=lambda check: check.__name__)
    async def test_the_public_suite_runs_over_it(self, package, check):
        from foreign_shop.orders import ShopOrders  # noqa: PLC0415 - only there in this test

        await check(ShopOrders())

    async def test_the_public_suite_finds_what_is_wrong_with_it(self, package):
        from foreign_shop.orders import Sloppy  # noqa: PLC0415 - as above

        assert await Sloppy().get(" A100 ") in ORDERS
        with pytest.raises(ContractBroken, match="ids_are_exact: ' A100' is not A100"):
            await check_orders(Sloppy())


class TestFromOutside:
    def run(self, url, *words, folder=None, cwd=None, **settings):
        env = {**environment_of(url, **settings), "PYTHONSAFEPATH": "1"}
        if folder is not None:
            env["PYTHONPATH"] = str(folder)
        command = (sys.executable, "-c", "from support_agent.cli import main; main()", *words)
        return subprocess.run(  # noqa: S603 - our own program
            command, env=env, cwd=cwd, capture_output=True, text=True, check=False
        )

    def test_a_tool_is_called_by_the_command_line(self, folder, shop_url, tmp_path):
        script = tmp_path / "script.jsonl"
        script.write_text(
            '{"tool": "loyalty_points", "arguments": {"year": 2026}}\n{"answer": "120 điểm."}\n'
        )

        done = self.run(
            shop_url,
            *("ask", "điểm?", "--customer", "C001", "--json"),
            folder=folder,
            TOOLS__ENABLED="loyalty",
            MODEL__KIND="scripted",
            MODEL__SCRIPT=str(script),
        )

        assert done.returncode == 0, done.stderr
        (step,) = json.loads(done.stdout)["steps"]
        assert (step["tool"], step["ok"]) == ("loyalty_points", True)

    def test_the_current_directory_is_not_searched(self, folder, shop_url):
        done = self.run(
            shop_url,
            *("ask", "chào", "--customer", "C001", "--json"),
            cwd=folder,
            ORDERS__KIND="class",
            ORDERS__CLASS="foreign_shop.orders:ShopOrders",
            PAYMENTS__LEDGER_IS_BOOKS_ONLY="true",
        )

        assert done.returncode == 2
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert error["code"] == "CONFIGURATION"
        assert "PYTHONPATH (the current directory is not searched by itself)" in error["message"]

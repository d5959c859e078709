"""The container with PAYMENTS__KIND=http and =class: what it needs, what it refuses."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.keys import ensure_key_file
from support_agent.adapters.payments.http import HttpGateway
from support_agent.adapters.payments.refusing import RefusingGateway
from support_agent.building.payments import gateway_credentials, has_gateway
from support_agent.container import Container, open_container
from support_agent.domain.errors import ConfigurationError, EventRefused
from tests.kit import KEYS, TODAY, make_database, sample, settings_for
from tests.refund_kit import ACCOUNT, SECRET

HTTP: dict[str, Any] = {
    "kind": "http",
    "url": "https://shop.example/refunds",
    "account": ACCOUNT,
    "signing_secrets": SECRET,
}
MODULE = "gateways_of_a_shop"
CLASS = {"kind": "class", "class": f"{MODULE}:ShopGateway"}
SOURCE = """
from support_agent import ConfigurationError

class ShopGateway:
    name = "bank"
    livemode = False
    books_only = False
    closed = 0

    async def refund(self, instruction): ...
    async def find(self, instruction): ...
    async def get(self, provider_refund_id, payment): ...
    def refunds_since(self, since): ...
    async def payment_state(self, payment): ...
    async def aclose(self):
        ShopGateway.closed += 1

class Live(ShopGateway):
    livemode = True

class Nameless(ShopGateway):
    name = ""

class Numbered(ShopGateway):
    name = 7

class Unsure(ShopGateway):
    books_only = "no"

class Forgetful(ShopGateway):
    find = None

class Blocking(ShopGateway):
    def refund(self, instruction): ...

class Broken(ShopGateway):
    def __init__(self):
        raise RuntimeError("no connection")

class Keyless(ShopGateway):
    def __init__(self):
        raise ConfigurationError("BANK_KEY is not set")

class KeylessAndNameless:
    def __init__(self):
        raise ConfigurationError("BANK_KEY is not set")
"""


@pytest.fixture(scope="module")
def demo_url(tmp_path_factory) -> str:
    """A migrated demo database, empty; nothing is written to it."""
    return make_database(tmp_path_factory.mktemp("gateways") / "demo.db")


@pytest.fixture(scope="module")
def live_url(tmp_path_factory) -> str:
    """The same, stamped live."""
    url = f"sqlite:///{tmp_path_factory.mktemp('gateways') / 'live.db'}"
    upgrade(url, live=True)
    return url


@pytest.fixture
def shop_module(tmp_path: Path, monkeypatch) -> Iterator[None]:
    """A module of somebody else's on the path."""
    (tmp_path / f"{MODULE}.py").write_text(dedent(SOURCE), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop(MODULE, None)


async def start_fails(url: str, **sections: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        async with open_container(settings_for(url, **sections)):
            pytest.fail("it opened")
    return str(raised.value)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "class", "class": f"{MODULE}:{name}", **more}


async def test_everything_can_be_built_in_front_of_a_refund_endpoint(demo_url):
    async with open_container(settings_for(demo_url, payments=HTTP)) as container:
        built = {name: provider() for name, provider in container.providers.items()}

    assert set(built) == set(Container.providers)
    assert isinstance(built["gateway"], HttpGateway)
    assert (built["gateway"].name, built["gateway"].livemode) == ("http", False)
    assert not built["gateway"].books_only


@pytest.mark.parametrize("missing", ["url", "account", "signing_secrets"])
async def test_what_it_needs_is_named_at_the_start(demo_url, missing):
    said = await start_fails(demo_url, payments=HTTP | {missing: None})

    assert said.startswith(f"SUPPORT_AGENT_PAYMENTS__{missing.upper()}: is needed")
    assert SECRET not in said


@pytest.mark.usefixtures("shop_module")
async def test_a_class_of_the_shops_own_is_made_once(demo_url, monkeypatch):
    """One that opens something when it is made is closed for each time that it was made."""

    def once_more(self: object) -> None:
        raise AssertionError("it is made a second time")

    async with open_container(settings_for(demo_url, payments=CLASS)) as container:
        monkeypatch.setattr(sys.modules[MODULE].ShopGateway, "__init__", once_more)
        chores = container.chores()

    assert any(chore.needs_gateway for chore in chores)


@pytest.mark.usefixtures("shop_module")
async def test_a_class_of_the_shops_own_is_made_and_closed(demo_url):
    async with open_container(settings_for(demo_url, payments=CLASS)) as container:
        gateway = container.gateway()
        assert gateway.name == "bank"
        assert container.gateway() is gateway

    assert sys.modules[MODULE].ShopGateway.closed == 1


@pytest.mark.usefixtures("shop_module")
@pytest.mark.parametrize(
    ("payments", "setting", "says"),
    [
        ({"kind": "class"}, "CLASS", "is needed"),
        (named("Nobody"), "CLASS", "has no 'Nobody'"),
        ({"kind": "class", "class": "no_such_module:Gateway"}, "CLASS", "no_such_module"),
        (named("Nameless"), "CLASS", "no name"),
        (named("Numbered"), "CLASS", "no name"),
        (named("Unsure"), "CLASS", "books_only"),
        (named("Forgetful"), "CLASS", "find is missing"),
        (named("Blocking"), "CLASS", "refund must be `async def`"),
        (named("Broken"), "CLASS", "RuntimeError"),
        (named("Keyless"), "CLASS", "ConfigurationError"),
        (named("ShopGateway", livemode=True), "LIVEMODE", "make them equal"),
        (named("Live"), "LIVEMODE", "make them equal"),
    ],
    ids=lambda value: value.get("class", "none") if isinstance(value, dict) else value,
)
async def test_a_class_that_is_no_gateway_does_not_start(demo_url, payments, setting, says):
    said = await start_fails(demo_url, payments=payments)

    assert said.startswith(f"SUPPORT_AGENT_PAYMENTS__{setting}: ")
    assert says in said


@pytest.mark.usefixtures("shop_module")
@pytest.mark.parametrize("payments", [HTTP, CLASS], ids=lambda payments: payments["kind"])
class TestMode:
    async def test_without_real_money_it_may_not_stand_beside_a_live_database(
        self, live_url, payments
    ):
        sections: dict[str, Any] = {"approvals": {"proof": "token"}, "payments": payments}
        said = await start_fails(live_url, **sections)

        assert "this database is live" in said
        assert f"PAYMENTS__KIND={payments['kind']} with PAYMENTS__LIVEMODE=false" in said

    async def test_real_money_refuses_what_is_for_demonstration_on_any_database(
        self, demo_url, payments
    ):
        ensure_key_file(demo_url)
        said = await start_fails(demo_url, payments=live(payments), clock={"now": TODAY})

        assert said.startswith("PAYMENTS__LIVEMODE=true moves real money: ")
        assert "STRIPE" not in said
        assert "CLOCK__NOW" in said

    async def test_real_money_is_fit_for_a_live_database(self, live_url, payments):
        sections: dict[str, Any] = {
            "approvals": {"proof": "token"},
            "payments": live(payments),
            "security": {"keys": KEYS},
        }
        async with open_container(settings_for(live_url, **sections)) as container:
            assert container.gateway().livemode

    async def test_real_money_is_not_given_the_sample_shop(self, demo_url, payments):
        settings = settings_for(demo_url, approvals={"proof": "token"}, payments=live(payments))
        async with open_container(settings) as container:
            with pytest.raises(ConfigurationError, match="moves real money"):
                await container.seeding().run(sample())

    async def test_nothing_can_call_itself_its_event(self, demo_url, payments):
        async with open_container(settings_for(demo_url, payments=payments)) as container:
            with pytest.raises(EventRefused, match=f"KIND={payments['kind']}"):
                container.events().verify(b"{}", {}, now=datetime.now(UTC))


def live(payments: dict[str, Any]) -> dict[str, Any]:
    return payments | {"livemode": True} | (named("Live") if payments["kind"] == "class" else {})


@pytest.mark.usefixtures("shop_module")
@pytest.mark.parametrize(
    ("payments", "name", "setting"),
    [
        (HTTP | {"signing_secrets": None}, "http", "SIGNING_SECRETS"),
        (named("Keyless"), "bank", "CLASS"),
    ],
    ids=["http", "class"],
)
class TestPaidByAWorker:
    async def test_a_process_without_credentials_leaves_payouts_to_the_worker(
        self, demo_url, payments, name, setting
    ):
        settings = settings_for(demo_url, payments=payments, payouts={"run": "worker"})
        async with open_container(settings) as container:
            gateway = container.gateway()
            assert isinstance(gateway, RefusingGateway)
            assert (gateway.name, gateway.livemode, gateway.books_only) == (name, False, False)
            assert "paid" not in [chore.name for chore in container.chores()]
            with pytest.raises(ConfigurationError, match="run this where the worker that pays"):
                gateway.refunds_since(datetime.now(UTC))

        assert not has_gateway(settings)
        assert gateway_credentials(settings).endswith(f"PAYMENTS__{setting}")

    async def test_one_that_pays_needs_them(self, demo_url, payments, name, setting):
        said = await start_fails(demo_url, payments=payments)

        assert said.startswith(f"SUPPORT_AGENT_PAYMENTS__{setting}: ")


@pytest.mark.usefixtures("shop_module")
@pytest.mark.parametrize("payments", [HTTP, CLASS], ids=lambda payments: payments["kind"])
async def test_the_worker_with_credentials_pays(demo_url, payments):
    settings = settings_for(demo_url, payments=payments, payouts={"run": "worker"})
    async with open_container(settings) as container:
        assert not isinstance(container.gateway(), RefusingGateway)
        assert "paid" in [chore.name for chore in container.chores()]

    assert has_gateway(settings)


@pytest.mark.usefixtures("shop_module")
async def test_elsewhere_a_class_has_to_say_its_name_without_being_made(demo_url):
    payments = named("KeylessAndNameless")
    said = await start_fails(demo_url, payments=payments, payouts={"run": "worker"})

    assert "its name and books_only are no attributes of the class" in said

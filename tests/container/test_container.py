"""The composition root: everything can be built, once each, and closed again."""

import inspect
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import ensure_key_file
from support_agent.adapters.models.offline import OfflineModel
from support_agent.adapters.models.scripted import ScriptFileModel
from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.adapters.system import SystemClock
from support_agent.agent.retrying import RetryingModel
from support_agent.agent.turns import Incoming
from support_agent.container import MONEY_TOOLS, Container, open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.model import ChatModel
from support_agent.ports.orders import OrderRepository, ShopWriter
from support_agent.ports.payments import PaymentGateway
from support_agent.ports.storage import Database
from support_agent.ports.tool import Arguments, Effect, ReadTool, Tool, WriteTool
from support_agent.settings import SecuritySettings, Settings
from support_agent.testing import ScriptedModel
from support_agent.testing.clock import FixedClock
from support_agent.testing.model_server import ModelServer, answer
from tests.kit import TODAY, binding_of, copy_database, open_shop, settings_for

MODELS = {
    "offline": OfflineModel,
    "openai": RetryingModel,
    "anthropic": RetryingModel,
    "json": RetryingModel,
    "scripted": ScriptFileModel,
}
MADE_ANEW = {
    "own_tools",
    "tools",
    "system_prompt",
    "customer_channels",
    "worker",
}  # each time one asks
COMPOSITION = "support_agent.container."
CLOCKS = {"system": SystemClock, "fixed": FixedClock}
PORTS: dict[str, tuple[type, ...]] = {
    "clock": (Clock,),
    "ids": (Ids,),
    "database": (Database,),
    "orders": (OrderRepository, ShopWriter),
    "gateway": (PaymentGateway,),
    "model": (ChatModel,),
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps({"answer": "Xin chào."}) + "\n", encoding="utf-8")
    return path


def choose(url: str, script: Path, *, profile: str, model: str, clock: str) -> Settings:
    """Settings of one profile with one kind of model and clock; the rest has one kind each."""
    return settings_for(
        url,
        profile=profile,
        model={"kind": model, "name": "shop-model-7b", "script": script},
        clock={"now": TODAY if clock == "fixed" else None},
        openai_api_key="sk-nobodys",
        anthropic_api_key="sk-nobodys",
    )


def resolve_all(container: Container) -> dict[str, Any]:
    return {name: provider() for name, provider in container.providers.items()}


@pytest.mark.parametrize(
    ("profile", "model", "clock"), [*product(("dev", "demo", "test", "prod"), MODELS, CLOCKS)]
)
async def test_everything_can_be_built_under_every_profile_and_kind(
    shop_url, script, profile, model, clock
):
    settings = choose(shop_url, script, profile=profile, model=model, clock=clock)

    async with open_container(settings) as container:
        built = resolve_all(container)

    assert set(built) == set(Container.providers)
    assert isinstance(built["model"], MODELS[model])
    assert isinstance(built["clock"], CLOCKS[clock])
    assert isinstance(built["gateway"], LedgerGateway)
    assert built["settings"].profile == profile


@pytest.mark.parametrize(("model", "clock"), [*product(MODELS, CLOCKS)])
async def test_what_is_built_has_every_method_of_its_port(shop_url, script, model, clock):
    settings = choose(shop_url, script, profile="test", model=model, clock=clock)

    async with open_container(settings) as container:
        built = {name: container.providers[name]() for name in PORTS}

    for name, port, method in promises():
        promised = inspect.signature(getattr(port, method)).parameters
        kept = inspect.signature(getattr(type(built[name]), method)).parameters
        assert list(kept)[: len(promised)] == list(promised), f"{name}.{method}"


def promises() -> list[tuple[str, type, str]]:
    """Each method of each port, by the provider that must have it."""
    return [
        (name, port, method)
        for name, ports in PORTS.items()
        for port in ports
        for method, value in vars(port).items()
        if callable(value) and method[0] != "_"
    ]


async def test_tools_are_tools_with_names_of_their_own(shop_url):
    async with open_container(settings_for(shop_url)) as container:
        tools = container.tools()

    names = [tool.name for tool in tools]
    assert names == [
        "lookup_order",
        "list_orders",
        "refund_policy",
        "quote_refund",
        "request_refund",
        "refund_status",
        "cancel_refund",
        "hand_off",
    ]
    for tool in tools:
        assert isinstance(tool, Tool)
        assert isinstance(tool, ReadTool | WriteTool)
        assert issubclass(tool.arguments, Arguments)
        assert tool.description
    assert {tool.name for tool in tools if tool.effect is Effect.MONEY} == MONEY_TOOLS


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
async def test_each_thing_is_built_once_however_many_threads_ask(shop_url, script):
    ensure_key_file(shop_url)
    settings = choose(shop_url, script, profile="test", model="scripted", clock="system")
    container = Container()
    container.settings.override(settings.model_copy(update={"security": SecuritySettings()}))
    start = threading.Barrier(8)
    seen: list[dict[str, Any]] = []

    def ask() -> None:
        start.wait()
        seen.append(resolve_all(container))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    closed = container.to_close()
    for one in closed:
        await one.aclose()

    assert len(seen) == 8
    for name in set(Container.providers) - MADE_ANEW:
        assert len({id(built[name]) for built in seen}) == 1, name
    assert len({tuple(map(id, built["tools"])) for built in seen}) == 1
    kinds = sorted(type(one).__name__ for one in closed)
    assert kinds == ["HttpWebhookSender", "LedgerGateway", "ScriptFileModel", "SqlDatabase"]


@pytest.fixture
def two_urls(template: Path, tmp_path: Path) -> tuple[str, str]:
    return (
        copy_database(template, tmp_path / "first.db"),
        copy_database(template, tmp_path / "second.db"),
    )


async def test_two_containers_in_one_process_do_not_mix(two_urls):
    async with open_shop(two_urls[0]) as first, open_shop(two_urls[1]) as second:
        request = await first.filed("A100")

        assert (await first.request(request.id)).id == request.id
        assert await second.read(lambda tx: tx.requests.get(request.id)) is None
        for name in set(Container.providers) - MADE_ANEW:
            built = first.container.providers[name]()
            assert built is None or built is not second.container.providers[name](), name


async def test_an_override_stays_in_its_container(two_urls):
    mine = ScriptedModel([])
    clock = FixedClock(TODAY)
    with_override = open_container(
        settings_for(two_urls[0]), overrides={"model": mine, "clock": clock}
    )

    async with with_override as first, open_container(settings_for(two_urls[1])) as second:
        assert first.model() is mine
        assert first.clock() is clock
        assert isinstance(second.model(), OfflineModel)
        assert isinstance(second.clock(), SystemClock)

    assert not any(provider.overridden for provider in Container.providers.values())
    async with open_container(settings_for(two_urls[0])) as third:
        assert isinstance(third.model(), OfflineModel)


async def test_an_override_reaches_what_was_built_on_it(shop_url):
    model = ScriptedModel([{"answer": "Chào bạn."}])

    async with open_container(settings_for(shop_url), overrides={"model": model}) as container:
        result = await container.agent().take(incoming("xin chào"))

    assert result.answer == "Chào bạn."
    model.assert_complete()


def incoming(text: str) -> Any:
    from support_agent import Incoming  # noqa: PLC0415 - the public door, as integrators use it

    return Incoming(text=text, binding=binding_of("C001"))


async def test_an_override_of_an_unknown_name_is_an_error(shop_url):
    with pytest.raises(AttributeError, match="modle"):
        async with open_container(settings_for(shop_url), overrides={"modle": ScriptedModel([])}):
            pytest.fail("it opened")


@pytest.fixture
def closings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The order in which things are closed; they are closed for real."""
    told: list[str] = []
    for kind in (SqlDatabase, LedgerGateway, OfflineModel):

        def spy(self: Any, kind: Any = kind, close: Any = kind.aclose) -> Any:
            told.append(kind.__name__)
            return close(self)

        monkeypatch.setattr(kind, "aclose", spy)
    yield told
    assert database_threads() == []


def database_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("database-")]


async def test_what_was_built_is_closed_once_the_last_first(shop_url, closings):
    async with open_container(settings_for(shop_url)) as container:
        container.agent()
        order = [type(one).__name__ for one in container.to_close()]

    assert order[0] == "SqlDatabase"
    assert closings == order[::-1]


async def test_what_was_never_used_is_not_built_to_be_closed(shop_url, closings):
    async with open_container(settings_for(shop_url)):
        pass

    assert closings == ["SqlDatabase"]


async def test_everything_is_closed_when_the_block_fails(shop_url, closings):
    async def work() -> None:
        async with open_container(settings_for(shop_url)) as container:
            container.agent()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()

    assert sorted(closings) == ["LedgerGateway", "OfflineModel", "SqlDatabase"]


async def test_the_database_is_closed_when_the_check_fails(tmp_path, closings):
    (tmp_path / "empty.db").touch()

    with pytest.raises(ConfigurationError, match="no tables yet"):
        async with open_container(settings_for(f"sqlite:///{tmp_path / 'empty.db'}")):
            pytest.fail("it opened")

    assert closings == ["SqlDatabase"]


class Foreign:
    """Something of the caller's, or of an adapter to come, that notes how it is closed."""

    def __init__(self, name: str, told: list[str], *, fails: bool = False) -> None:
        self.name, self.told, self.fails = name, told, fails

    async def aclose(self) -> None:
        self.told.append(self.name)
        if self.fails:
            raise OSError(f"{self.name} does not close")


async def test_one_that_cannot_be_closed_does_not_keep_the_others_open(shop_url, closings):
    more = [
        Foreign("first", closings),
        Foreign("second", closings, fails=True),
        Foreign("third", closings),
    ]

    with pytest.raises(OSError, match="second does not close"):
        async with open_container(settings_for(shop_url)) as container:
            container.to_close().extend(more)

    assert closings == ["third", "second", "first", "SqlDatabase"]


async def test_what_the_caller_put_in_is_the_callers_to_close(shop_url, closings):
    settings = settings_for(shop_url)
    async with open_container(settings) as outer:
        database = outer.database()
        overrides = {"database": database, "model": Foreign("model", closings)}

        async with open_container(settings, overrides=overrides) as inner:
            inner.agent()
        between = list(closings)
        still = await database.read(lambda tx: tx.people.get("lan"))

    assert between == ["LedgerGateway"]
    assert still is not None
    assert closings == ["LedgerGateway", "SqlDatabase"]


def test_only_the_composition_root_names_its_framework():
    root = Path(__file__).parents[2]
    found = subprocess.run(
        ["grep", "-rlE", r"^\s*(from|import) dependency_injector", "support_agent", "tests"],  # noqa: S607 - POSIX
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()

    assert found
    assert {Path(path).parent.as_posix() for path in found} == {"support_agent/container"}


def test_no_setting_is_looked_up_under_a_name_the_library_has_itself():
    """`.provided.model.name` is the library's own attribute, not the setting."""
    rooms = [module for name, module in sys.modules.items() if name.startswith(COMPOSITION)]
    source = "\n".join(inspect.getsource(room) for room in rooms)
    providers = sys.modules[f"{COMPOSITION}foundation"].providers
    paths = re.findall(r"\.provided((?:\.\w+)+)", source)
    taken = set(dir(providers.AttributeGetter)) | set(dir(providers.ProvidedInstance))

    assert paths
    for path in paths:
        assert not taken & set(path.strip(".").split(".")), path


async def test_what_the_settings_say_of_the_model_reaches_its_server(shop_url: str):
    with ModelServer([answer("Xin chào.")]) as server:
        settings = settings_for(
            shop_url,
            model={"kind": "openai", "name": "shop-model-7b", "max_output_tokens": 77},
            OPENAI_BASE_URL=server.base_url,
        )
        async with open_container(settings) as container:
            result = await container.agent().take(
                Incoming(text="Xin chào", binding=binding_of("C001"))
            )
        sent = server.requests[0].json

    assert result.answer == "Xin chào."
    assert sent["model"] == "shop-model-7b"
    assert 77 in {sent.get("max_tokens"), sent.get("max_completion_tokens")}

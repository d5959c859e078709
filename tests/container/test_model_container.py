"""How models are put together: what is wrapped in what, what is closed, what a call is held at."""

from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.models.anthropic import AnthropicModel
from support_agent.adapters.models.offline import OfflineModel
from support_agent.adapters.models.openai import OpenAIModel
from support_agent.agent.fallback import FallbackModel
from support_agent.agent.retrying import RetryingModel
from support_agent.building.models import MODELS, dearest_price, price_sheet
from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price
from support_agent.settings import ModelSettings, Settings
from tests.kit import settings_for

OPENAI = {"kind": "openai", "name": "first-7b"}
CLAUDE = {"fallback_kind": "anthropic", "fallback_name": "second-7b"}


def settings(url: str, **model: Any) -> Settings:
    return settings_for(url, model=model, openai_api_key="sk-o", anthropic_api_key="sk-a")


def test_every_kind_that_may_be_set_can_be_built():
    assert set(MODELS) == set(ModelSettings.model_fields["kind"].annotation.__args__)


async def test_a_model_on_a_server_is_asked_again_and_one_in_this_process_is_not(shop_url):
    async with open_container(settings(shop_url, **OPENAI)) as container:
        assert isinstance(container.model(), RetryingModel)
    async with open_container(settings(shop_url)) as container:
        assert isinstance(container.model(), OfflineModel)
    async with open_container(settings(shop_url, **OPENAI, attempts=1)) as container:
        assert isinstance(container.model(), OpenAIModel)


async def test_a_fallback_and_a_small_model_are_built_and_closed_like_the_first(
    shop_url, monkeypatch
):
    closed = []
    for kind in (OpenAIModel, AnthropicModel):

        def spy(self: Any, close: Any = kind.aclose) -> Any:
            closed.append(self)
            return close(self)

        monkeypatch.setattr(kind, "aclose", spy)
    given = settings(shop_url, **OPENAI, **CLAUDE, small_kind="openai", small_name="small-1b")

    async with open_container(given) as container:
        assert isinstance(container.model(), FallbackModel)
        assert isinstance(container.small_model(), RetryingModel)

    assert [type(one) for one in closed] == [OpenAIModel, AnthropicModel, OpenAIModel]
    assert len({id(one) for one in closed}) == 3


async def test_without_a_small_model_there_is_none(shop_url):
    async with open_container(settings(shop_url, **OPENAI)) as container:
        assert container.small_model() is None


async def test_what_was_built_before_a_wrong_setting_is_closed(shop_url, monkeypatch):
    closed = []
    close = OpenAIModel.aclose

    def spy(self: OpenAIModel) -> Any:
        closed.append(self)
        return close(self)

    monkeypatch.setattr(OpenAIModel, "aclose", spy)
    wrong = {"fallback_kind": "openai", "fallback_base_url": "http://shop.example/v1"}

    with pytest.raises(ConfigurationError) as raised:
        async with open_container(settings(shop_url, **OPENAI, **wrong)) as container:
            container.model()

    assert len(closed) == 1
    assert raised.value.setting == "SUPPORT_AGENT_MODEL__FALLBACK_BASE_URL"
    assert "plain http" in str(raised.value)


@pytest.mark.parametrize("role", ["fallback", "small"])
async def test_a_model_at_an_address_of_its_own_asks_for_its_own_key(shop_url, role):
    elsewhere = {f"{role}_kind": "openai", f"{role}_base_url": "https://models.shop.example/v1"}

    with pytest.raises(ConfigurationError) as raised:
        async with open_container(settings(shop_url, **OPENAI, **elsewhere)) as container:
            container.small_model() if role == "small" else container.model()

    assert raised.value.setting == f"SUPPORT_AGENT_MODEL__{role.upper()}_API_KEY"
    assert "OPENAI_API_KEY" not in str(raised.value)  # it is set, and not for that address


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ({"kind": "openai"}, "OPENAI_API_KEY"),
        ({"kind": "anthropic", "name": "m"}, "ANTHROPIC_API_KEY"),
        ({"fallback_kind": "openai"}, "OPENAI_API_KEY"),
        ({"fallback_kind": "anthropic", "fallback_name": "m"}, "ANTHROPIC_API_KEY"),
        ({"kind": "scripted"}, "SUPPORT_AGENT_MODEL__SCRIPT"),
    ],
)
async def test_a_missing_key_or_script_is_named_before_anything_is_taken(shop_url, model, variable):
    async with open_container(settings_for(shop_url, model=model)) as container:
        with pytest.raises(ConfigurationError, match=variable):
            container.agent()


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(
        '[models."first-7b"]\ninput = 5\noutput = 10\n[models."second-7b"]\ninput = 2\noutput = 40\n'
    )
    return path


def test_a_call_is_held_at_the_dearest_of_the_models_that_may_answer_it(shop_url, sheet):
    given = settings(shop_url, **OPENAI, **CLAUDE, prices=sheet)

    assert dearest_price(given, price_sheet(given)) == Price(input=5, output=40)


def test_a_model_that_is_never_asked_counts_for_nothing(shop_url, sheet):
    given = settings(shop_url, **OPENAI, prices=sheet)

    assert dearest_price(given, price_sheet(given)) == Price(input=5, output=10)


def test_a_sheet_that_is_not_there_is_named(shop_url, tmp_path):
    given = settings(shop_url, **OPENAI, prices=tmp_path / "no.toml")

    with pytest.raises(ConfigurationError, match=r"no\.toml"):
        price_sheet(given)


@pytest.mark.parametrize("model", ["first", "fallback", "small"])
def test_a_limit_of_costs_needs_the_price_of_each_model_that_may_be_asked(shop_url, sheet, model):
    names = {"first": "first-7b", "fallback": "second-7b", "small": "first-7b", model: "other"}
    given = settings_for(
        shop_url,
        model={
            "kind": "openai",
            "name": names["first"],
            "fallback_kind": "openai",
            "fallback_name": names["fallback"],
            "small_kind": "openai",
            "small_name": names["small"],
            "prices": sheet,
        },
        limits={"max_cost_micros": 1000},
    )

    with pytest.raises(ConfigurationError, match="'other' has no price"):
        dearest_price(given, price_sheet(given))

"""The models that settings name, each with its price and its wrappers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from support_agent.adapters.models.anthropic import AnthropicModel
from support_agent.adapters.models.json_model import JsonModel
from support_agent.adapters.models.offline import OfflineModel
from support_agent.adapters.models.openai import OpenAIModel
from support_agent.adapters.models.scripted import ScriptFileModel
from support_agent.adapters.prices import load_prices
from support_agent.agent.asides import Asides
from support_agent.agent.fallback import FallbackModel
from support_agent.agent.intent import Intents
from support_agent.agent.retrying import RetryingModel
from support_agent.building.closing import closed_later
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price
from support_agent.ports.model import ChatModel
from support_agent.resources import resource_dir
from support_agent.settings import ModelChoice, Settings

Prices = Mapping[str, Price]
LOCAL_RESERVE_S = 5.0  # for a fallback in this process and the steps that follow it


def price_sheet(settings: Settings) -> Prices:
    """What each model costs, from the operator's own sheet if there is one."""
    return load_prices(settings.model.prices or resource_dir() / "data" / "prices.toml")


def dearest_price(settings: Settings, prices: Prices) -> Price | None:
    """What a call is held at before it is known which model answers it.

    Raises:
        ConfigurationError: a limit of cost is set, and a model that may be asked has no price.
    """
    unpriced = [c.model for c in settings.models if not c.is_local and c.model not in prices]
    if unpriced and settings.cost_limit is not None:
        raise ConfigurationError(
            f"limits nothing while model {unpriced[0]!r} has no price; write it into the sheet "
            "that MODEL__PRICES names",
            setting=settings.cost_limit,
        )
    listed = [prices[choice.model] for choice in settings.models if choice.model in prices]
    if not listed:
        return None
    return Price(
        input=max(price.input for price in listed), output=max(price.output for price in listed)
    )


def scripted_model(settings: Settings) -> ScriptFileModel:
    """The script MODEL__SCRIPT names.

    Raises:
        ConfigurationError: not set, or no script.
    """
    if settings.model.script is None:
        raise ConfigurationError(
            "is needed when MODEL__KIND=scripted; name a JSONL file",
            setting="SUPPORT_AGENT_MODEL__SCRIPT",
        )
    return ScriptFileModel(path=settings.model.script)


def openai_model(choice: ModelChoice, settings: Settings, prices: Prices) -> OpenAIModel:
    """A model behind chat completions with native tool calls."""
    return OpenAIModel(
        name=choice.model,
        base_url=choice.base_url,
        api_key=choice.api_key,
        timeout_s=settings.limits.model_seconds,
        prices=prices,
        max_output_tokens=settings.model.max_output_tokens,
        stream=settings.model.stream,
    )


def anthropic_model(choice: ModelChoice, settings: Settings, prices: Prices) -> AnthropicModel:
    """A model behind the Messages API; the small one does not think."""
    return AnthropicModel(
        name=choice.model,
        base_url=choice.base_url,
        api_key=choice.api_key,
        timeout_s=settings.limits.model_seconds,
        prices=prices,
        max_output_tokens=settings.model.max_output_tokens,
        thinking_tokens=None if choice.role == "SMALL_" else settings.model.thinking_tokens,
    )


def json_model(choice: ModelChoice, settings: Settings, prices: Prices) -> JsonModel:
    """A model behind chat completions that has no calls of its own."""
    return JsonModel(
        name=choice.model,
        base_url=choice.base_url,
        api_key=choice.api_key,
        timeout_s=settings.limits.model_seconds,
        prices=prices,
        max_output_tokens=settings.model.max_output_tokens,
        stream=settings.model.stream,
        schema=settings.model.json_schema,
    )


# A new kind of model is one file, one function above and one line here.
MODELS: Mapping[str, Callable[[ModelChoice, Settings, Prices], ChatModel]] = MappingProxyType(
    {
        "offline": lambda _choice, _settings, _prices: OfflineModel(),
        "scripted": lambda _choice, settings, _prices: scripted_model(settings),
        "openai": openai_model,
        "anthropic": anthropic_model,
        "json": json_model,
    }
)


def one_model(
    choice: ModelChoice, settings: Settings, prices: Prices, to_close: list[Any]
) -> ChatModel:
    """A model, asked again where there is a server to wait for."""
    try:
        built = closed_later(to_close, MODELS[choice.kind], choice, settings, prices)
    except ConfigurationError as error:
        if not choice.role:
            raise
        raise _of_role(error, choice.role, settings) from error
    again = settings.model.attempts
    if choice.is_local or again == 1:
        return built
    return RetryingModel(built, attempts=again, backoff_s=settings.model.backoff_seconds)


def _of_role(error: ConfigurationError, role: str, settings: Settings) -> ConfigurationError:
    """The error by the settings of the model it is about, which the adapter does not know."""
    own, about = f"MODEL__{role}", error.setting or ""
    what = next((name for name in ("BASE_URL", "API_KEY") if about.endswith(name)), None)
    if what and getattr(settings.model, f"{role}base_url".lower()) is not None:
        # It has an address of its own: the kind's, and the kind's key, play no part.
        return ConfigurationError(
            str(error).removeprefix(f"{about}: "), setting=f"SUPPORT_AGENT_{own}{what}"
        )
    return ConfigurationError(
        f"{error} (an address and a key of its own are {own}BASE_URL and {own}API_KEY)",
        setting=f"SUPPORT_AGENT_{own}KIND",
    )


def chat_model(settings: Settings, prices: Prices, to_close: list[Any]) -> ChatModel:
    """The model that decides, and the one that is asked when it gives no answer."""
    first = one_model(settings.first_model, settings, prices, to_close)
    choice = settings.fallback_model
    if choice is None:
        return first
    second = one_model(choice, settings, prices, to_close)
    reserve_s = LOCAL_RESERVE_S if choice.is_local else settings.limits.model_seconds
    return FallbackModel(first, second, reserve_s=reserve_s)


def small_model(settings: Settings, prices: Prices, to_close: list[Any]) -> ChatModel | None:
    """The model for summaries and intents, if there is one."""
    choice = settings.small_model
    return None if choice is None else one_model(choice, settings, prices, to_close)


def intents_of(whom: str, asides: Asides) -> Intents | None:
    """Whoever names what customers want, if anybody does."""
    return Intents(asides=asides) if whom == "small" else None

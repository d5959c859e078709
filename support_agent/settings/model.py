"""Which models are asked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from support_agent.settings.section import Name, Section, Tokens

T = TypeVar("T")
Role = Literal["", "FALLBACK_", "SMALL_"]
DEFAULT_MODEL = "gpt-4o-mini"  # of kind openai; the others have no obvious one


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """One model to ask: the first, the fallback or the small one. `role` begins its settings."""

    role: Role
    kind: str
    model: str  # empty where a kind has only one
    base_url: str | None = field(repr=False)
    api_key: SecretStr | None = field(repr=False)

    @property
    def is_local(self) -> bool:
        """Runs in this process: nothing to wait for and nothing to pay."""
        return self.kind in {"offline", "scripted"}


class ModelSettings(Section):
    """The model that decides, one to fall back on, and a small one for summaries and intents.

    Address and key of the other two are those of their kind unless they have their own.
    """

    kind: Literal["offline", "openai", "anthropic", "json", "scripted"] = "offline"
    name: Name | None = Field(default=None, validate_default=True)
    script: Path | None = None
    stream: bool = False
    json_schema: Literal["auto", "on", "off"] = "auto"
    max_output_tokens: Tokens = 1024
    thinking_tokens: Tokens | None = None
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    backoff_seconds: Annotated[float, Field(gt=0, le=60)] = 0.5
    fallback_kind: Literal["offline", "openai", "anthropic", "json"] | None = None
    fallback_base_url: str | None = Field(default=None, repr=False)
    fallback_api_key: SecretStr | None = None
    fallback_name: Name | None = Field(default=None, validate_default=True)
    small_kind: Literal["openai", "anthropic", "json"] | None = None
    small_base_url: str | None = Field(default=None, repr=False)
    small_api_key: SecretStr | None = None
    small_name: Name | None = Field(default=None, validate_default=True)
    intent: Literal["none", "small"] = "none"
    prices: Path | None = None  # a price sheet in place of data/prices.toml

    @field_validator("name", "fallback_name", "small_name")
    @classmethod
    def _named(cls, value: str | None, info: ValidationInfo) -> str | None:
        role = (info.field_name or "").removesuffix("name")
        kind = info.data.get(f"{role}kind")
        if value is None and kind in {"anthropic", "json"}:
            raise ValueError(f"is needed when MODEL__{role.upper()}KIND={kind}")
        if value is not None and role and kind is None:
            raise ValueError(f"names a model, but MODEL__{role.upper()}KIND is not set")
        return value

    @field_validator("fallback_base_url", "fallback_api_key", "small_base_url", "small_api_key")
    @classmethod
    def _of_a_model(cls, value: T | None, info: ValidationInfo) -> T | None:
        role = (info.field_name or "").split("_")[0]
        if value is not None and info.data.get(f"{role}_kind") is None:
            raise ValueError(f"is of a model, but MODEL__{role.upper()}_KIND is not set")
        return value

    @field_validator("thinking_tokens")
    @classmethod
    def _leaves_room(cls, value: int | None, info: ValidationInfo) -> int | None:
        most = info.data.get("max_output_tokens")
        if value is not None and most is not None and value >= most:
            raise ValueError(f"must be below MODEL__MAX_OUTPUT_TOKENS, which is {most}")
        return value

    @field_validator("fallback_name")
    @classmethod
    def _another(cls, value: str | None, info: ValidationInfo) -> str | None:
        given = info.data
        kind, elsewhere = given.get("fallback_kind"), given.get("fallback_base_url")
        default = DEFAULT_MODEL if kind == "openai" else None
        same = (given.get("kind"), given.get("name") or default) == (kind, value or default)
        if kind and not elsewhere and same:
            raise ValueError("is the model that MODEL__KIND and MODEL__NAME name already")
        return value

    @field_validator("intent")
    @classmethod
    def _has_whom_to_ask(cls, value: str, info: ValidationInfo) -> str:
        if value == "small" and info.data.get("small_kind") is None:
            raise ValueError("is small, but MODEL__SMALL_KIND is not set")
        return value

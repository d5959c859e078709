"""Every setting, its default and its environment name; nothing is read at import."""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from support_agent.domain.errors import ConfigurationError

PREFIX = "SUPPORT_AGENT_"
PROFILES = ("dev", "demo", "test", "prod")
# Read by single commands or by the tests, not by Settings.
OTHER_NAMES = frozenset({f"{PREFIX}APPROVER_TOKEN"})
TEST_PREFIX = f"{PREFIX}TEST_"

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Section(BaseModel):
    """A group of settings; a name it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSettings(Section):
    url: str = "sqlite:///var/support_agent.db"
    busy_seconds: Seconds = 10.0


class ModelSettings(Section):
    kind: Literal["offline", "openai", "scripted"] = "offline"
    name: str = "gpt-4o-mini"
    script: Path | None = None
    max_output_tokens: Positive = 1024


class OrdersSettings(Section):
    kind: Literal["sql"] = "sql"


class PaymentsSettings(Section):
    kind: Literal["ledger"] = "ledger"
    ledger_is_books_only: bool = False
    timeout_seconds: Seconds = 15.0


class ClockSettings(Section):
    now: datetime | None = None

    @field_validator("now", mode="before")
    @classmethod
    def _instant(cls, value: object) -> object:
        """An RFC 3339 instant, or a day: then nine in the morning in Vietnam."""
        if isinstance(value, str) and len(value) == len("2026-10-13"):
            morning = datetime.combine(date.fromisoformat(value), time(9))
            return morning.replace(tzinfo=ZoneInfo("Asia/Ho_Chi_Minh"))
        return value

    @field_validator("now")
    @classmethod
    def _aware(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("needs a time zone, e.g. 2026-10-13T09:00:00+07:00")
        return value.astimezone(UTC) if value is not None else None

    @property
    def kind(self) -> str:
        return "system" if self.now is None else "fixed"


class ShopSettings(Section):
    time_zone: str = "Asia/Ho_Chi_Minh"
    language: Literal["vi", "en"] = "vi"

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is not an IANA time zone such as Asia/Ho_Chi_Minh") from error
        return value


class ApprovalsSettings(Section):
    proof: Literal["token", "asserted"] = "token"
    wait_hours: Positive = 72
    pay_within_hours: Positive = 72


class ConsentSettings(Section):
    request_refund: Literal["asked", "implied"] = "asked"
    quote_minutes: Positive = 30


class LimitsSettings(Section):
    max_steps: Positive = 8
    max_calls_per_step: Positive = 8
    run_seconds: Seconds = 120.0
    model_seconds: Seconds = 60.0
    tool_seconds: Seconds = 10.0
    max_tokens: Positive = 60_000
    max_cost_micros: Positive | None = None
    max_consecutive_errors: Positive = 3
    max_identical_calls: Positive = 3
    message_chars: Positive = 4_000


class LogSettings(Section):
    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "warning"


class SecuritySettings(Section):
    keys: SecretStr | None = None


class Settings(BaseSettings):
    """All settings. Environment over `.env.{profile}` over `.env` over defaults; prod reads no file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="ignore", frozen=True
    )

    profile: Literal["dev", "demo", "test", "prod"] = "dev"
    database: DatabaseSettings = DatabaseSettings()
    model: ModelSettings = ModelSettings()
    orders: OrdersSettings = OrdersSettings()
    payments: PaymentsSettings = PaymentsSettings()
    clock: ClockSettings = ClockSettings()
    shop: ShopSettings = ShopSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    consent: ConsentSettings = ConsentSettings()
    limits: LimitsSettings = LimitsSettings()
    log: LogSettings = LogSettings()
    security: SecuritySettings = SecuritySettings()
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(default=None, validation_alias="OPENAI_BASE_URL")

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.shop.time_zone)

    @property
    def quote_valid_for(self) -> timedelta:
        return timedelta(minutes=self.consent.quote_minutes)

    @property
    def request_waits_for(self) -> timedelta:
        return timedelta(hours=self.approvals.wait_hours)

    @property
    def approved_valid_for(self) -> timedelta:
        return timedelta(hours=self.approvals.pay_within_hours)

    def live_dangers(self) -> tuple[str, ...]:
        """Settings that may not stand beside a live database, each with what to do."""
        dangers = []
        if self.clock.now is not None:
            dangers.append("CLOCK__NOW fixes the clock; unset it")
        if self.approvals.proof == "asserted":
            dangers.append("APPROVALS__PROOF=asserted believes any name; use token")
        if self.model.kind == "scripted":
            dangers.append("MODEL__KIND=scripted plays a script; use a real model")
        if self.payments.kind == "ledger" and not self.payments.ledger_is_books_only:
            dangers.append(
                "PAYMENTS__KIND=ledger moves no real money; set "
                "PAYMENTS__LEDGER_IS_BOOKS_ONLY=true if it is only to keep the books"
            )
        if self.security.keys is None:
            dangers.append("SECURITY__KEYS is not set; a live database takes no generated key")
        return tuple(dangers)


def load_settings(*, folder: Path | None = None) -> Settings:
    """The settings of this process.

    Args:
        folder: where `.env` and `.env.{profile}` lie; the working directory by default.

    Raises:
        ConfigurationError: an unknown name or a value that does not fit; names the variable.
    """
    profile = os.environ.get(f"{PREFIX}PROFILE", "dev")
    if profile not in PROFILES:
        raise ConfigurationError(
            f"{profile!r} is not one of {', '.join(PROFILES)}", setting=f"{PREFIX}PROFILE"
        )
    files = () if profile == "prod" else env_files(folder or Path.cwd(), profile)
    _check_names(os.environ, "the environment")
    for file in files:
        names = {key: value for key, value in dotenv_values(file).items() if value is not None}
        _check_names(names, str(file.name))
        if f"{PREFIX}PROFILE" in names:
            raise ConfigurationError(
                f"is taken from the process environment only, not from {file.name}",
                setting=f"{PREFIX}PROFILE",
            )
    try:
        return Settings(_env_file=files, _env_file_encoding="utf-8")
    except ValidationError as error:
        raise ConfigurationError(_explain(error)) from error
    except ValueError as error:
        raise ConfigurationError(f"a setting could not be read: {error}") from error


def env_files(folder: Path, profile: str) -> tuple[Path, ...]:
    """Those that exist, the later one wins."""
    candidates = (folder / ".env", folder / f".env.{profile}")
    return tuple(path for path in candidates if path.is_file())


def _check_names(names: Iterable[str] | Mapping[str, Any], source: str) -> None:
    """A misspelt section would be ignored in silence, so every prefixed name is checked."""
    sections = {name.upper() for name in Settings.model_fields if not name.startswith("openai")}
    for name in names:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in OTHER_NAMES or upper.startswith(TEST_PREFIX):
            continue
        section = upper.removeprefix(PREFIX).split("__")[0]
        if section not in sections:
            known = ", ".join(sorted(sections))
            raise ConfigurationError(
                f"no such setting (in {source}); sections are {known}", setting=name
            )


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        path = "__".join(str(part).upper() for part in problem["loc"])
        name = path if path.startswith("OPENAI") else f"{PREFIX}{path}"
        message = "no such setting" if problem["type"] == "extra_forbidden" else problem["msg"]
        lines.append(f"{name}: {message}")
    return "; ".join(lines)

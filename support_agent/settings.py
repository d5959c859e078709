"""Every setting, its default and its environment name; nothing is read at import."""

import difflib
import os
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from dotenv.parser import Binding, parse_stream
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from support_agent.domain.errors import ConfigurationError

PREFIX = "SUPPORT_AGENT_"
PROFILES = ("dev", "demo", "test", "prod")
PROFILE = f"{PREFIX}PROFILE"
TEST_PREFIX = f"{PREFIX}TEST_"  # the tests' own

ENCODING = "utf-8-sig"  # some editors put a byte order mark first, which would hide the first name

Positive = Annotated[int, Field(gt=0, le=1_000_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Hours = Annotated[int, Field(gt=0, le=24 * 366)]
Days = Annotated[int, Field(gt=0, le=90)]
Minutes = Annotated[int, Field(gt=0, le=60 * 24 * 7)]


class Section(BaseModel):
    """A group of settings; a name it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class DatabaseSettings(Section):
    url: str = Field(default="sqlite:///var/support_agent.db", repr=False)  # may hold a password
    busy_seconds: Seconds = 10.0


class ModelSettings(Section):
    kind: Literal["offline", "openai", "scripted"] = "offline"
    name: str = "gpt-4o-mini"
    script: Path | None = None
    max_output_tokens: Positive = 1024


class OrdersSettings(Section):
    kind: Literal["sql"] = "sql"


class PaymentsSettings(Section):
    kind: Literal["ledger", "stripe"] = "ledger"
    ledger_is_books_only: bool = False
    stripe_key: SecretStr | None = None  # secret or restricted; its prefix says live or test
    stripe_account: str | None = None  # ours, acct_…: a key of any other pays nothing
    stripe_url: str | None = None  # a server on this machine that stands in for Stripe
    webhook_secrets: SecretStr | None = None  # whsec_…, several with commas while one is replaced
    timeout_seconds: Seconds = 15.0
    lookback_days: Days = 7  # how far back the gateway's refunds are compared with ours

    @field_validator("stripe_account")
    @classmethod
    def _account(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"acct_[A-Za-z0-9_]{1,250}", value):
            raise ValueError("is no account id of Stripe's; it looks like acct_1AbCdEfGhIjKlMnO")
        return value

    @field_validator("stripe_url")
    @classmethod
    def _loopback(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"http://127\.0\.0\.1:[0-9]{1,5}", value):
            raise ValueError("is for tests: only http://127.0.0.1:PORT may stand in for Stripe")
        return value

    @property
    def secrets(self) -> tuple[str, ...]:
        """The webhook secrets, each by itself."""
        given = self.webhook_secrets.get_secret_value() if self.webhook_secrets else ""
        return tuple(secret.strip() for secret in given.split(",") if secret.strip())

    @property
    def test_key(self) -> bool:
        key = self.stripe_key.get_secret_value() if self.stripe_key else ""
        return key.startswith(("sk_test_", "rk_test_"))

    @property
    def moves_real_money(self) -> bool:
        """A live key is attached; every danger of a live database is one then."""
        return self.kind == "stripe" and self.stripe_key is not None and not self.test_key


class ClockSettings(Section):
    now: datetime | None = None

    @field_validator("now", mode="before")
    @classmethod
    def _instant(cls, value: object) -> datetime | None:
        """An instant with its offset, or a day: then nine in the morning in Vietnam.

        Pydantic itself would read 20261013 as seconds since 1970.
        """
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else _moment(str(value))
        if moment is None or moment.tzinfo is None:
            raise ValueError("is no instant; write 2026-10-13T09:00:00+07:00, or only 2026-10-13")
        try:
            return moment.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("is out of the calendar's range") from error

    @property
    def kind(self) -> str:
        return "system" if self.now is None else "fixed"


def _moment(text: str) -> datetime | None:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            day = date.fromisoformat(text)
            return datetime.combine(day, time(9), ZoneInfo("Asia/Ho_Chi_Minh"))
        return datetime.fromisoformat(text)
    except ValueError:
        return None


class ShopSettings(Section):
    time_zone: str = "Asia/Ho_Chi_Minh"
    language: Literal["vi", "en"] = "vi"

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is no IANA time zone such as Asia/Ho_Chi_Minh") from error
        return value


class ApprovalsSettings(Section):
    proof: Literal["token", "asserted"] = "token"
    due_hours: Hours = 24
    wait_hours: Hours = 72
    pay_within_hours: Hours = 72


class ConsentSettings(Section):
    request_refund: Literal["asked", "implied"] = "asked"
    quote_minutes: Minutes = 30


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
    """All settings: environment over `.env.{profile}` over `.env` over defaults.

    The prod profile reads no file. An empty value is as good as none.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,  # it may be a secret in the wrong place
        validate_by_name=True,
        validate_by_alias=True,
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
    openai_base_url: str | None = Field(
        default=None, validation_alias="OPENAI_BASE_URL", repr=False
    )

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.shop.time_zone)

    @property
    def quote_valid_for(self) -> timedelta:
        return timedelta(minutes=self.consent.quote_minutes)

    @property
    def decide_within(self) -> timedelta:
        return timedelta(hours=self.approvals.due_hours)

    @property
    def request_waits_for(self) -> timedelta:
        return timedelta(hours=self.approvals.wait_hours)

    @property
    def approved_valid_for(self) -> timedelta:
        return timedelta(hours=self.approvals.pay_within_hours)

    @property
    def gateway_lookback(self) -> timedelta:
        return timedelta(days=self.payments.lookback_days)

    def live_dangers(self) -> tuple[str, ...]:
        """Settings that may not stand beside a live database, each with what to do."""
        dangers = []
        if self.clock.now is not None:
            dangers.append("CLOCK__NOW fixes the clock; unset it")
        if self.approvals.proof == "asserted":
            dangers.append("APPROVALS__PROOF=asserted believes any name; use token")
        if self.model.kind == "scripted":
            dangers.append("MODEL__KIND=scripted plays a script; use a real model")
        dangers += self._payment_dangers()
        if self.security.keys is None:
            dangers.append("SECURITY__KEYS is not set; a live database takes no generated key")
        return tuple(dangers)

    def _payment_dangers(self) -> list[str]:
        payments, dangers = self.payments, []
        if payments.kind == "ledger" and not payments.ledger_is_books_only:
            dangers.append(
                "PAYMENTS__KIND=ledger moves no real money; set "
                "PAYMENTS__LEDGER_IS_BOOKS_ONLY=true if it is only to keep the books"
            )
        if payments.kind == "stripe" and payments.test_key:
            dangers.append(
                "PAYMENTS__STRIPE_KEY is a test key and moves no real money; use a live one"
            )
        if payments.kind == "stripe" and payments.stripe_url is not None:
            dangers.append("PAYMENTS__STRIPE_URL stands in for Stripe; unset it")
        return dangers


def load_settings(*, folder: Path | None = None) -> Settings:
    """The settings of this process.

    Args:
        folder: where `.env` and `.env.{profile}` lie; the working directory by default.

    Raises:
        ConfigurationError: an unknown name or a value that does not fit; names the variable.
    """
    profile = _profile()
    files = () if profile == "prod" else env_files(folder or Path.cwd(), profile)
    _check_names(os.environ, "the environment")
    for file in files:
        names = _names_in(file)
        _check_names(names, file.name)
        if PROFILE in {name.upper() for name in names}:
            raise ConfigurationError(
                f"is taken from the process environment only, not from {file.name}",
                setting=PROFILE,
            )
    try:
        return Settings(_env_file=files, _env_file_encoding=ENCODING)
    except ValidationError as error:
        problems = "; ".join(_explain(problem) for problem in error.errors(include_url=False))
        raise ConfigurationError(problems) from error


def env_files(folder: Path, profile: str) -> tuple[Path, ...]:
    """Those that exist, the later one wins."""
    candidates = (folder / ".env", folder / f".env.{profile}")
    return tuple(path for path in candidates if path.is_file())


def _profile() -> str:
    """Looked up as pydantic looks up names: in any case."""
    given = next((value for name, value in os.environ.items() if name.upper() == PROFILE), "")
    profile = given or "dev"
    if profile not in PROFILES:
        raise ConfigurationError(
            f"{profile!r} is not one of {', '.join(PROFILES)}", setting=PROFILE
        )
    return profile


def _names_in(file: Path) -> list[str]:
    """What an env file sets; a line that says nothing is an error, not skipped."""
    try:
        with file.open(encoding=ENCODING) as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file.name} cannot be read: {error}") from error
    return [name for binding in bindings if (name := _name_of(binding, file)) is not None]


def _name_of(binding: Binding, file: Path) -> str | None:
    valueless = binding.key is not None and binding.value is None
    if binding.error or valueless:
        # The parser counts blank lines before a statement as part of it.
        text = binding.original.string
        line = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
        raise ConfigurationError(f"{file.name}, line {line}: write it as NAME=value")
    return binding.key


@cache
def known_names() -> frozenset[str]:
    """Every setting by its environment name, without those that other products share."""
    names = {f"{PREFIX}APPROVER_TOKEN"}  # read by single commands, not by Settings
    for field, info in Settings.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, Section):
            names |= {f"{PREFIX}{field}__{key}".upper() for key in section.model_fields}
        elif info.validation_alias is None:
            names.add(f"{PREFIX}{field}".upper())
    return frozenset(names)


def _check_names(names: Iterable[str], source: str) -> None:
    """A misspelt section would be ignored in silence, so every prefixed name is checked."""
    for name in names:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper.startswith(TEST_PREFIX):
            continue
        if upper not in known_names():
            near = difflib.get_close_matches(upper, sorted(known_names()), n=1)
            sections = sorted({known.split("__")[0] for known in known_names()})
            hint = f"did you mean {near[0]}?" if near else f"they start {', '.join(sections)}"
            raise ConfigurationError(f"no such setting (in {source}); {hint}", setting=name)


def _explain(problem: ErrorDetails) -> str:
    """One problem by its variable, without the value: it may be a secret in the wrong place."""
    path = "__".join(str(part).upper() for part in problem["loc"])
    name = path if path.startswith("OPENAI") else f"{PREFIX}{path}"
    cause = problem.get("ctx", {}).get("error")
    return f"{name}: {cause or problem['msg']}"

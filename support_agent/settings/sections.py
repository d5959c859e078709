"""The groups of settings, each with its defaults."""

import ipaddress
import re
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from support_agent.settings.section import (
    Amount,
    Hours,
    Minutes,
    Positive,
    Seconds,
    Section,
)


class DatabaseSettings(Section):
    url: str = Field(default="sqlite:///var/support_agent.db", repr=False)  # may hold a password
    # The same PostgreSQL database by the role that owns its tables: for upgrades only.
    migrate_url: str | None = Field(default=None, repr=False)
    busy_seconds: Seconds = 10.0


class QueueSettings(Section):
    """How conversations are taken up: by whom, how soon, and for how long.

    `inline`: by the process that takes the message, and by `worker`, which looks for what is
    unread. `procrastinate`: by workers that PostgreSQL wakes.
    """

    kind: Literal["inline", "procrastinate"] = "inline"
    debounce_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0  # messages this close are one turn
    concurrency: Annotated[int, Field(ge=1, le=2_000)] = 20  # turns of one worker at once
    poll_seconds: Seconds = 1.0  # how often a worker looks for what nobody woke it for
    lease_grace_seconds: Seconds = 30.0  # after a run's deadline, until it is taken over
    wait_seconds: Seconds = 300.0  # how long who takes a message waits for the turns before it
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3  # owners of a run before a person has it
    shutdown_seconds: Seconds = 20.0  # that a stopping worker gives its turns to end


class PayoutsSettings(Section):
    run: Literal["here", "worker"] = "here"  # where refunds are paid, and the gateway's key is

    @property
    def by_worker(self) -> bool:
        return self.run == "worker"


_CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _class_name(value: str | None) -> str | None:
    if value is not None and not _CLASS.fullmatch(value):
        raise ValueError(f"{value!r} names no class; write it as package.module:Class")
    return value


# An importable class of somebody's own, made without arguments.
ClassName = Annotated[str | None, AfterValidator(_class_name)]


class OrdersSettings(Section):
    """Where the shop's orders are. `mapped` and `http` are described by a TOML file, `map`."""

    kind: Literal["sql", "mapped", "http", "class"] = "sql"
    map: Path | None = None
    url: str | None = Field(default=None, repr=False)  # of the shop's own database, read only
    auth: SecretStr | None = None  # the value of the header that lets us in, with http
    class_: ClassName = Field(default=None, alias="class")
    timeout_seconds: Seconds = 10.0
    cache_seconds: Annotated[float, Field(ge=0, le=3_600)] = 30.0  # with http, and for talk only


class ToolsSettings(Section):
    """Tools of others: entry points of the group `support_agent.tools`, or package.module:Class."""

    enabled: str = ""  # with commas; nothing that is not named here is loaded

    @property
    def names(self) -> tuple[str, ...]:
        """Each by itself, in order, once."""
        given = (name.strip() for name in self.enabled.split(","))
        return tuple(dict.fromkeys(name for name in given if name))


class ApiSettings(Section):
    """The HTTP API. Rates and limits are those of one serving process."""

    max_body_bytes: Annotated[int, Field(ge=1_024, le=16_777_216)] = 65_536
    body_seconds: Seconds = 10.0  # that a request's body may take to arrive
    max_wait_seconds: Seconds = 30.0  # of `Prefer: wait`
    rate_per_minute: Positive = 600  # requests of one key
    customer_rate_per_minute: Positive = 60  # of one customer, over all keys
    customer_token_secrets: SecretStr | None = None  # id:secret, several with commas
    customer_token_seconds: Annotated[int, Field(ge=30, le=3_600)] = 900  # the longest life of one
    idempotency_hours: Annotated[int, Field(ge=1, le=24 * 30)] = 24
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 2_000  # open at once
    stream_poll_seconds: Annotated[float, Field(ge=0.05, le=60)] = 0.5
    public_metrics: bool = False  # /metrics without a key, where only the inside can reach it


_INSIDE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)*", re.IGNORECASE)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class WebhooksSettings(Section):
    """Events that we send."""

    private_targets: str = ""  # hosts that may be private or loopback, with commas
    timeout_seconds: Seconds = 15.0

    @field_validator("private_targets")
    @classmethod
    def _only_hosts(cls, value: str) -> str:
        """What no host can be would be compared with hosts, and never be one."""
        for entry in filter(None, (part.strip() for part in value.split(","))):
            if not _INSIDE.fullmatch(entry) and not _is_number(entry):
                raise ValueError(
                    f"{entry!r} is no host; write backend.internal,127.0.0.1,::1 without a port, "
                    "brackets or a dot at the end"
                )
        return value

    @property
    def private_hosts(self) -> frozenset[str]:
        """Each by itself, in small letters."""
        given = self.private_targets.lower().split(",")
        return frozenset(host.strip() for host in given if host.strip())


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


LEAST_DAYS = 31  # what is usual is measured over the 30 days before
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z0-9-]{2,}", re.IGNORECASE)


class ShopSettings(Section):
    time_zone: str = "Asia/Ho_Chi_Minh"
    language: Literal["vi", "en"] = "vi"
    link_hosts: str = ""  # where answers may link to, with commas; any other link is taken out

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is no IANA time zone such as Asia/Ho_Chi_Minh") from error
        return value

    @field_validator("link_hosts")
    @classmethod
    def _only_hosts(cls, value: str) -> str:
        hosts = [host.strip() for host in value.split(",") if host.strip()]
        wrong = [host for host in hosts if not _HOST.fullmatch(host)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no host name; write shop.vn,help.shop.vn")
        return value

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of `link_hosts`, each by itself."""
        given = self.link_hosts.lower().split(",")
        return frozenset(host.strip() for host in given if host.strip())


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
    max_tool_calls: Positive = 32
    run_seconds: Seconds = 120.0
    model_seconds: Seconds = 60.0  # one attempt of a model call
    tool_seconds: Seconds = 10.0
    max_tokens: Positive = 60_000
    max_cost_micros: Positive | None = None
    max_consecutive_errors: Positive = 3
    # The first call is one already: below 2 no tool would ever run.
    max_identical_calls: Annotated[int, Field(ge=2, le=1_000_000_000)] = 3
    unknown_orders: Positive = 5
    message_chars: Positive = 4_000


class HistorySettings(Section):
    """When what a model is shown of a conversation is shortened, and down to what.

    Tokens of the conversation alone, without the system text and the tools.
    """

    high_water_tokens: Annotated[int, Field(ge=200, le=1_000_000)] = 6_000
    low_water_tokens: Annotated[int, Field(ge=100, le=1_000_000)] | None = None  # half of the high

    @field_validator("low_water_tokens")
    @classmethod
    def _lower(cls, value: int | None, info: ValidationInfo) -> int | None:
        high = info.data.get("high_water_tokens")
        if value is not None and high is not None and value > high * 0.9:
            raise ValueError(f"must be at most nine tenths of HISTORY__HIGH_WATER_TOKENS ({high})")
        return value

    @property
    def low(self) -> int:
        return self.low_water_tokens or self.high_water_tokens // 2


class BudgetsSettings(Section):
    """The most that models may be used for; one that is None does not limit.

    Cost in millionths of a USD. A day is the shop's civil day. `unusual_*` stop nothing: they say
    when staff is told of a customer who is far above what customers use on a day.
    """

    conversation_requests: Amount | None = 500
    conversation_tokens: Amount | None = 2_000_000
    conversation_cost_micros: Amount | None = None
    customer_day_requests: Amount | None = 500
    customer_day_tokens: Amount | None = 2_000_000
    customer_day_cost_micros: Amount | None = None
    channel_day_requests: Amount | None = None
    channel_day_tokens: Amount | None = None
    channel_day_cost_micros: Amount | None = None
    installation_day_requests: Amount | None = 50_000
    installation_day_tokens: Amount | None = 200_000_000
    installation_day_cost_micros: Amount | None = None
    unusual_factor: Annotated[int, Field(ge=2, le=1_000)] = 5
    unusual_requests: Amount = 60
    unusual_tokens: Amount = 300_000


class RetentionSettings(Section):
    """How many days is kept what is no longer needed; 0 keeps it for good, as the books are kept.

    Conversations lose their texts so long after the last message, when nothing in them is open.
    """

    conversation_days: Annotated[int, Field(ge=0, le=36_500)] = 365
    delivery_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    # A gateway repeats an event for weeks; it is known again only while it is kept.
    provider_event_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    usage_days: Annotated[int, Field(ge=0, le=36_500)] = 400

    @field_validator("provider_event_days", "usage_days")
    @classmethod
    def _long_enough(cls, value: int) -> int:
        if 0 < value < LEAST_DAYS:
            raise ValueError(f"must be 0, or at least {LEAST_DAYS}: newer ones are still looked at")
        return value


class LogSettings(Section):
    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "warning"


class SecuritySettings(Section):
    keys: SecretStr | None = None

"""All settings as one object, and what may not stand beside real money."""

from datetime import timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from support_agent.settings.model import DEFAULT_MODEL, ModelChoice, ModelSettings, Role
from support_agent.settings.names import PREFIX
from support_agent.settings.payments import PaymentsSettings
from support_agent.settings.sections import (
    ApiSettings,
    ApprovalsSettings,
    BudgetsSettings,
    ClockSettings,
    ConsentSettings,
    DatabaseSettings,
    HistorySettings,
    LimitsSettings,
    LogSettings,
    OrdersSettings,
    PayoutsSettings,
    QueueSettings,
    RetentionSettings,
    SecuritySettings,
    ShopSettings,
    ToolsSettings,
    WebhooksSettings,
)


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
    queue: QueueSettings = QueueSettings()
    model: ModelSettings = ModelSettings()
    orders: OrdersSettings = OrdersSettings()
    payments: PaymentsSettings = PaymentsSettings()
    payouts: PayoutsSettings = PayoutsSettings()
    tools: ToolsSettings = ToolsSettings()
    api: ApiSettings = ApiSettings()
    webhooks: WebhooksSettings = WebhooksSettings()
    clock: ClockSettings = ClockSettings()
    shop: ShopSettings = ShopSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    consent: ConsentSettings = ConsentSettings()
    limits: LimitsSettings = LimitsSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    history: HistorySettings = HistorySettings()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    security: SecuritySettings = SecuritySettings()
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(
        default=None, validation_alias="OPENAI_BASE_URL", repr=False
    )
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(
        default=None, validation_alias="ANTHROPIC_BASE_URL", repr=False
    )

    @property
    def first_model(self) -> ModelChoice:
        """The model that decides."""
        return self._choice("", self.model.kind, self.model.name, None, None)

    @property
    def fallback_model(self) -> ModelChoice | None:
        """The model that is asked when the first one gives no answer."""
        own = self.model
        if own.fallback_kind is None:
            return None
        return self._choice(
            "FALLBACK_",
            own.fallback_kind,
            own.fallback_name,
            own.fallback_base_url,
            own.fallback_api_key,
        )

    @property
    def small_model(self) -> ModelChoice | None:
        """The model for summaries and intents."""
        own = self.model
        if own.small_kind is None:
            return None
        return self._choice(
            "SMALL_", own.small_kind, own.small_name, own.small_base_url, own.small_api_key
        )

    @property
    def cost_limit(self) -> str | None:
        """The first setting that limits what models may cost, if one does."""
        if self.limits.max_cost_micros is not None:
            return f"{PREFIX}LIMITS__MAX_COST_MICROS"
        for name, limit in self.budgets:
            if name.endswith("_cost_micros") and limit is not None:
                return f"{PREFIX}BUDGETS__{name}".upper()
        return None

    @property
    def models(self) -> tuple[ModelChoice, ...]:
        """Every model that may be asked."""
        choices = (self.first_model, self.fallback_model, self.small_model)
        return tuple(choice for choice in choices if choice is not None)

    def _choice(
        self,
        role: Role,
        kind: str,
        name: str | None,
        base_url: str | None,
        api_key: SecretStr | None,
    ) -> ModelChoice:
        """Address and key are those of the kind where the model has none of its own.

        A key is never sent to an address it was not given for.
        """
        anthropic = kind == "anthropic"
        kinds_url = self.anthropic_base_url if anthropic else self.openai_base_url
        kinds_key = self.anthropic_api_key if anthropic else self.openai_api_key
        return ModelChoice(
            role=role,
            kind=kind,
            model=name or (DEFAULT_MODEL if kind == "openai" else ""),
            base_url=base_url or kinds_url,
            api_key=api_key or (None if base_url else kinds_key),
        )

    @property
    def of_owner(self) -> "Settings":
        """These settings on the database by the role that owns it: to upgrade and to seed."""
        owned = self.database.model_copy(
            update={"url": self.database.migrate_url or self.database.url}
        )
        return self.model_copy(update={"database": owned})

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
    def lease_s(self) -> float:
        """How long an owner may have a conversation for one turn."""
        return self.limits.run_seconds + self.queue.lease_grace_seconds

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
        if payments.kind in {"http", "class"} and not payments.livemode:
            dangers.append(
                f"PAYMENTS__KIND={payments.kind} with PAYMENTS__LIVEMODE=false moves no real "
                "money; set it to true"
            )
        if payments.kind == "stripe" and payments.test_key:
            dangers.append(
                "PAYMENTS__STRIPE_KEY is a test key and moves no real money; use a live one"
            )
        if payments.kind == "stripe" and payments.stripe_url is not None:
            dangers.append("PAYMENTS__STRIPE_URL stands in for Stripe; unset it")
        return dangers

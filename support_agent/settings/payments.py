"""What pays: the gateway, its credentials, and whether real money moves."""

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from support_agent.settings.endpoints import is_endpoint, is_signing_secret
from support_agent.settings.section import Days, Name, Seconds, Section
from support_agent.settings.sections import ClassName


class PaymentsSettings(Section):
    kind: Literal["ledger", "stripe", "http", "class"] = "ledger"
    ledger_is_books_only: bool = False
    url: str | None = Field(default=None, repr=False)  # of the shop's refund endpoint, with http
    account: Name | None = None  # whose payments are refunded there, with http
    signing_secrets: SecretStr | None = None  # whsec_…, several with commas; each of them signs
    livemode: bool = False  # with http and class: real money moves
    class_: ClassName = Field(default=None, alias="class")
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

    @field_validator("url")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        if value is not None and not is_endpoint(value):
            raise ValueError(
                "is no address to send refunds to; write https://shop.vn/refunds (http:// only to "
                "127.0.0.1, [::1] or localhost, and no user, password or #fragment)"
            )
        return value

    @field_validator("signing_secrets")
    @classmethod
    def _can_sign(cls, value: SecretStr | None) -> SecretStr | None:
        for secret in _each(value):
            if not is_signing_secret(secret):
                raise ValueError(
                    "is no secret of Standard Webhooks: whsec_ and the base64 of 24 to 64 random "
                    "bytes"
                )
        return value

    @property
    def secrets(self) -> tuple[str, ...]:
        """The webhook secrets, each by itself."""
        return _each(self.webhook_secrets)

    @property
    def signers(self) -> tuple[str, ...]:
        """The signing secrets, each by itself."""
        return _each(self.signing_secrets)

    @property
    def test_key(self) -> bool:
        key = self.stripe_key.get_secret_value() if self.stripe_key else ""
        return key.startswith(("sk_test_", "rk_test_"))

    @property
    def moves_real_money(self) -> bool:
        """A live key or endpoint is attached; every danger of a live database is one then."""
        if self.kind in {"http", "class"}:
            return self.livemode
        return self.kind == "stripe" and self.stripe_key is not None and not self.test_key


def _each(secrets: SecretStr | None) -> tuple[str, ...]:
    given = secrets.get_secret_value() if secrets else ""
    return tuple(secret.strip() for secret in given.split(",") if secret.strip())

"""The `stripe` gateway: refunds of charges and payment intents of one Stripe account."""

import importlib.util
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from support_agent.adapters.payments.stripe_amounts import to_api
from support_agent.adapters.payments.stripe_errors import meaning
from support_agent.adapters.payments.stripe_objects import (
    KEY,
    NAME,
    REQUEST,
    Json,
    captured_of,
    identifier,
    names_of,
    refund_of,
    state_of,
    text,
)
from support_agent.domain.errors import (
    ConfigurationError,
    GatewayRefusesUs,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import (
    GatewayRefund,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)

if TYPE_CHECKING:
    from stripe import StripeClient

    from support_agent.adapters.payments.stripe_client import Transport

PAGE = 100  # the most the API gives at once
_PAYMENT = re.compile(r"(pi|ch|py)_[A-Za-z0-9_]{1,250}")
_REFUND = re.compile(r"(re|pyr)_[A-Za-z0-9_]{1,250}")
_LIVE = ("sk_live_", "rk_live_")
_TEST = ("sk_test_", "rk_test_")


def is_live(key: str) -> bool:
    """Whether a secret key moves real money; what is no key of Stripe's test mode does."""
    return not key.startswith(_TEST)


class StripeGateway:
    """Each refund carries our key twice: as idempotency key, and in its metadata to be found by.

    The package is imported with the first request, so that a command that pays nothing does not
    wait for it.
    """

    name = NAME
    books_only = False

    def __init__(
        self,
        *,
        key: str,
        account: str,
        timeout_s: float,
        url: str | None = None,
        page: int = PAGE,
    ) -> None:
        """`url` is another address than Stripe's own, of a server on this machine.

        Raises:
            ConfigurationError: the extra is not installed, or the key is none of Stripe's.
        """
        if not key.startswith((*_LIVE, *_TEST)):
            raise ConfigurationError(
                "is no secret or restricted key of Stripe's; it starts sk_live_, rk_live_, "
                "sk_test_ or rk_test_",
                setting="SUPPORT_AGENT_PAYMENTS__STRIPE_KEY",
            )
        if importlib.util.find_spec("stripe") is None:
            raise ConfigurationError(
                "is stripe, which needs the extra: pip install 'support-agent[stripe]'",
                setting="SUPPORT_AGENT_PAYMENTS__KIND",
            )
        self.livemode = is_live(key)
        self._key = key
        self._account = account
        self._timeout_s = timeout_s
        self._url = url
        self._page = page
        self._opened: tuple[StripeClient, Transport] | None = None
        self._our_account: str | None = None  # as Stripe tells it

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        """Refund once per key; see the port.

        Raises:
            PaymentDeclined: nothing was executed, often nothing even sent: `payment_unknown`,
                `account_mismatch`, `currency_unknown`, `amount_invalid`, `amount_not_expressible`,
                or a code of NOT_EXECUTED.
        """
        of_payment = _named(instruction.payment)
        if instruction.account != self._account or instruction.gateway != self.name:
            raise PaymentDeclined("account_mismatch")
        amount = to_api(instruction.amount_minor, instruction.currency)
        await self._checked_account()
        params: Any = {
            **of_payment,
            "amount": amount,
            "metadata": {KEY: instruction.key, REQUEST: instruction.request_id},
        }
        refund = await self._answer(
            self._client.v1.refunds.create_async(params, {"idempotency_key": instruction.key})
        )
        return refund_of(refund, account=self._account, asked=instruction.payment)

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        """See the port. A payment that Stripe does not know is an unknown outcome, not None."""
        if not _PAYMENT.fullmatch(instruction.gateway_payment_id):
            return None  # `refund` sends nothing of it
        account = await self._real_account()
        async for data in self._refunds(**_named(instruction.payment)):
            refund = refund_of(data, account=account, asked=instruction.payment)
            if refund.key == instruction.key:
                return refund
        return None

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        if not _REFUND.fullmatch(provider_refund_id):
            return None
        account = await self._real_account()
        call = self._client.v1.refunds.retrieve_async(provider_refund_id)
        try:
            data = await self._answer(call)
        except _Missing:
            return None
        return refund_of(data, account=account, asked=payment)

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        account = await self._real_account()
        async for data in self._refunds(created={"gte": int(since.timestamp())}):
            if names_of(data) != (None, None):
                yield refund_of(data, account=account)

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        named = _named(payment)
        account = await self._real_account()
        try:
            charge = await self._charge(**named)
        except _Missing as error:
            raise PaymentDeclined("payment_unknown") from error
        captured = captured_of(charge)
        disputes: list[Json] = []
        if captured.disputed:
            disputes = [data async for data in self._disputes(captured.charge_id)]
        return state_of(captured, disputes, account=account)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened[1].close_async()

    @property
    def _client(self) -> "StripeClient":
        if self._opened is None:
            from support_agent.adapters.payments.stripe_client import open_client

            self._opened = open_client(key=self._key, url=self._url, timeout_s=self._timeout_s)
        return self._opened[0]

    async def _real_account(self) -> str:
        """The account that our key belongs to, asked for once."""
        if self._our_account is None:
            account = await self._answer(self._client.v1.accounts.retrieve_current_async())
            self._our_account = text(account, "id")
        return self._our_account

    async def _checked_account(self) -> None:
        real = await self._real_account()
        if real != self._account:
            raise GatewayRefusesUs(
                f"the key is of account {real!r}, but SUPPORT_AGENT_PAYMENTS__STRIPE_ACCOUNT "
                f"is {self._account!r}; nothing was sent"
            )

    async def _charge(self, *, charge: str = "", payment_intent: str = "") -> Json:
        if charge:
            return await self._answer(self._client.v1.charges.retrieve_async(charge))
        intent = await self._answer(
            self._client.v1.payment_intents.retrieve_async(
                payment_intent, params={"expand": ["latest_charge"]}
            )
        )
        latest = intent.get("latest_charge")
        if isinstance(latest, Mapping):
            return latest
        if identifier(latest) is None:  # nobody ever paid
            return {**intent, "amount_refunded": 0, "captured": False}
        raise PaymentOutcomeUnknown("Stripe did not tell the charge of the payment intent")

    async def _refunds(self, **asked: Any) -> AsyncIterator[Json]:  # noqa: ANN401 - its filters
        async for data in self._pages(self._client.v1.refunds.list_async, asked):
            yield data

    async def _disputes(self, charge: str) -> AsyncIterator[Json]:
        async for data in self._pages(self._client.v1.disputes.list_async, {"charge": charge}):
            yield data

    async def _pages(self, listing: Any, asked: Json) -> AsyncIterator[Json]:  # noqa: ANN401 - a service's list
        """Every object over all pages; a page that does not lead on ends it as unknown."""
        params = {**asked, "limit": self._page}
        while True:
            page = await self._answer(listing(params=params))
            rows = page.get("data")
            if not isinstance(rows, list):
                raise PaymentOutcomeUnknown("Stripe's list has no data")
            for row in rows:
                yield row
            if page.get("has_more") is not True:
                return
            last = text(rows[-1], "id") if rows else None
            if last is None or last == params.get("starting_after"):
                raise PaymentOutcomeUnknown("Stripe's list does not end")
            params["starting_after"] = last

    async def _answer(self, call: Awaitable[Any]) -> dict[str, Any]:
        """What Stripe says to a request; its errors by what they mean for the money."""
        from stripe import StripeError

        try:
            answer = await call
        except StripeError as error:
            told = _error_of(error)
            if error.http_status == 404 and told.get("code") == "resource_missing":
                raise _Missing("Stripe knows no such object") from error
            raise meaning(error.http_status, told.get("type"), told.get("code")) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # JSON of another shape than any of Stripe's objects, which the package trips over.
            raise PaymentOutcomeUnknown("Stripe's answer cannot be read") from error
        data: dict[str, Any] = answer.to_dict() if hasattr(answer, "to_dict") else {}
        return data


class _Missing(PaymentOutcomeUnknown):
    """404: of a read it says what is not there, of a refund it says nothing."""


def _named(payment: PaymentRef) -> dict[str, str]:
    """The payment as the API's parameter; what is no id of Stripe's is not put into an address."""
    if not _PAYMENT.fullmatch(payment.gateway_payment_id):
        raise PaymentDeclined("payment_unknown")
    name = "payment_intent" if payment.gateway_payment_id.startswith("pi_") else "charge"
    return {name: payment.gateway_payment_id}


def _error_of(error: Any) -> Mapping[str, str]:  # noqa: ANN401 - any StripeError
    body = error.json_body
    told = body.get("error") if isinstance(body, Mapping) else None
    told = told if isinstance(told, Mapping) else {}
    return {name: value for name, value in told.items() if isinstance(value, str)}

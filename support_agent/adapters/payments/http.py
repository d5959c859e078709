"""The `http` gateway: a shop's own refund endpoint, asked in signed requests."""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from support_agent.adapters.payments.http_answers import (
    NAME,
    Json,
    refund_of,
    state_of,
    text,
)
from support_agent.adapters.payments.http_exchange import Exchange
from support_agent.adapters.payments.http_signing import Signing
from support_agent.domain.errors import PaymentDeclined, PaymentOutcomeUnknown
from support_agent.domain.money import EXPONENTS
from support_agent.ports.payments import (
    GatewayRefund,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)

PAGE = 100
VERSION = 1  # of what is asked; docs/refund-endpoint.md tells it
_KEY = re.compile(r"[\x21-\x7e]{1,255}")  # what a header can carry
_UNKNOWN = "payment_unknown"


class HttpGateway:
    """Each question is one POST to one address: a JSON object with an `operation`, signed.

    The signature covers the body alone, so that account, mode and operation stand in it and a
    request cannot be turned into another one.
    """

    name = NAME
    books_only = False

    def __init__(
        self,
        *,
        url: str,
        account: str,
        secrets: Sequence[str],
        livemode: bool,
        timeout_s: float,
        page: int = PAGE,
    ) -> None:
        """`secrets` start with whsec_; each of them signs.

        Raises:
            ConfigurationError: the extra is not installed.
        """
        self.livemode = livemode
        self._account = account
        self._page = page
        self._exchange = Exchange(url=url, signing=Signing(secrets), timeout_s=timeout_s)

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        """Refund once per key; see the port.

        Raises:
            PaymentDeclined: nothing was executed, and of these codes nothing even sent:
                `account_mismatch`, `amount_invalid`, `currency_unknown`, `key_invalid`.
        """
        self._check(instruction)
        answer = await self._exchange.ask(
            self._question(
                "refund",
                key=instruction.key,
                request_id=instruction.request_id,
                payment_id=instruction.gateway_payment_id,
                amount_minor=instruction.amount_minor,
                currency=instruction.currency,
            ),
            key=instruction.key,
        )
        return refund_of(answer.get("refund"))

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        """See the port. That nothing is found has to be said: a 404 says nothing."""
        found = _maybe(
            await self._read("find", key=instruction.key, payment_id=instruction.gateway_payment_id)
        )
        if found is not None and found.key != instruction.key:
            raise PaymentOutcomeUnknown("the refund endpoint found a refund of another key")
        return found

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        found = _maybe(
            await self._read(
                "get", refund_id=provider_refund_id, payment_id=payment.gateway_payment_id
            )
        )
        if found is not None and found.provider_refund_id != provider_refund_id:
            raise PaymentOutcomeUnknown("the refund endpoint told of another refund")
        return found

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        """See the port; a list that does not lead on ends as unknown."""
        from_ = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        cursor, ids, before = None, set[str](), 0
        while True:
            answer = await self._read("list", since=from_, limit=self._page, cursor=cursor)
            rows = answer.get("refunds")
            if not isinstance(rows, list):
                raise PaymentOutcomeUnknown("the refund endpoint's answer has no 'refunds'")
            for row in rows:
                refund = refund_of(row)
                ids.add(refund.provider_refund_id)
                yield refund
            if "next_cursor" in answer and answer["next_cursor"] is None:
                return
            cursor = text(answer, "next_cursor")
            if len(ids) <= before:  # nothing new, whatever the cursor is called
                raise PaymentOutcomeUnknown("the refund endpoint's list does not end")
            before = len(ids)

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        """See the port.

        Raises:
            PaymentDeclined: `payment_unknown`.
        """
        try:
            answer = await self._exchange.ask(
                self._question("payment_state", payment_id=payment.gateway_payment_id)
            )
        except PaymentDeclined as declined:
            if str(declined) == _UNKNOWN:
                raise
            raise _no_read(declined) from declined
        return state_of(answer.get("payment"), asked=payment)

    async def aclose(self) -> None:
        await self._exchange.aclose()

    def _check(self, instruction: RefundInstruction) -> None:
        if instruction.account != self._account or instruction.gateway != self.name:
            raise PaymentDeclined("account_mismatch")
        if instruction.amount_minor <= 0:
            raise PaymentDeclined("amount_invalid")
        if instruction.currency not in EXPONENTS:
            raise PaymentDeclined("currency_unknown")
        if not _KEY.fullmatch(instruction.key):
            raise PaymentDeclined("key_invalid")

    async def _read(self, operation: str, **fields: Any) -> Json:  # noqa: ANN401 - JSON values
        """The answer to a question; whatever it is declined with says nothing of a refund."""
        try:
            return await self._exchange.ask(self._question(operation, **fields))
        except PaymentDeclined as declined:
            raise _no_read(declined) from declined

    def _question(self, operation: str, **fields: Any) -> Json:  # noqa: ANN401 - JSON values
        return {
            "operation": operation,
            "version": VERSION,
            "account": self._account,
            "livemode": self.livemode,
            **fields,
        }


def _maybe(answer: Json) -> GatewayRefund | None:
    """The refund, or None where it is said that there is none."""
    if "refund" in answer and answer["refund"] is None:
        return None
    return refund_of(answer.get("refund"))


def _no_read(declined: PaymentDeclined) -> PaymentOutcomeUnknown:
    return PaymentOutcomeUnknown(f"the refund endpoint does not tell: {declined}")

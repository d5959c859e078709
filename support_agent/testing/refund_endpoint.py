"""A shop's refund endpoint in memory, as docs/refund-endpoint.md has it; put a FaultProxy in front.

It is what an endpoint of your own can be compared with: it verifies each request by the library
`standardwebhooks` and executes a refund once per key.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from support_agent.testing.fault_proxy import HttpReply, HttpRequest, json_reply

Json = dict[str, Any]
_NOT_PAID = frozenset({"failed", "canceled"})
_PARAMETERS = ("payment_id", "amount_minor", "currency")


@dataclass(slots=True, kw_only=True)
class RefundEndpoint:
    """The backend of a FaultProxy: `FaultProxy(endpoint)`."""

    secrets: Sequence[str]  # whsec_...; a request signed by any of them is ours
    account: str = "shop"
    livemode: bool = False
    page: int = 100  # the most refunds of one list
    now: Callable[[], float] = time.time
    next_status: str = "succeeded"  # of the refunds made from now on
    payments: dict[str, Json] = field(default_factory=dict)
    refunds: list[Json] = field(default_factory=list)  # oldest first
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def sell(self, captured_minor: int, currency: str) -> str:
        """A captured payment, by its id."""
        payment_id = f"PAY-{next(self._numbers)}"
        self.payments[payment_id] = {
            "id": payment_id,
            "account": self.account,
            "livemode": self.livemode,
            "captured_minor": captured_minor,
            "currency": currency,
            "disputed": False,
            "charged_back_minor": 0,
        }
        return payment_id

    def refund_outside(self, payment_id: str, amount_minor: int) -> Json:
        """Somebody of the shop refunds by hand."""
        currency = self.payments[payment_id]["currency"]
        return self._make(payment_id, amount_minor, currency, key=None)

    def fail(self, refund_id: str, code: str = "account_closed") -> None:
        """A refund fails, also one that had succeeded."""
        refund = next(refund for refund in self.refunds if refund["id"] == refund_id)
        refund |= {"status": "failed", "failure_code": code}

    async def __call__(self, request: HttpRequest) -> HttpReply:
        asked = self._verified(request)
        if asked is None:
            return _error(401, "signature_invalid")
        if asked.get("account") != self.account:
            return _error(422, "account_mismatch")
        if asked.get("livemode") is not self.livemode:
            return _error(422, "livemode_mismatch")
        operations: dict[object, Callable[[Json], HttpReply]] = {
            "refund": self._refund,
            "find": lambda asked: self._one("key", asked.get("key"), asked),
            "get": lambda asked: self._one("id", asked.get("refund_id"), asked),
            "list": self._list,
            "payment_state": self._state,
        }
        operation = operations.get(asked.get("operation"))
        return _error(400, "operation_unknown") if operation is None else operation(asked)

    def _verified(self, request: HttpRequest) -> Json | None:
        """What is asked; None when it is not signed by us, or not just now."""
        from standardwebhooks import Webhook, WebhookVerificationError  # noqa: PLC0415 - an extra

        for secret in self.secrets:
            try:
                asked: Json = Webhook(secret).verify(request.body, dict(request.headers))
            except (WebhookVerificationError, ValueError):
                continue
            return asked
        return None

    def _refund(self, asked: Json) -> HttpReply:
        known = self._by("key", asked["key"])
        if known is not None:  # first of all: what was done under this key is the answer
            same = all(known[name] == asked[name] for name in _PARAMETERS)
            return json_reply({"refund": known}) if same else _error(422, "key_reused")
        payment = self.payments.get(asked["payment_id"])
        problem = self._problem(payment, asked)
        if problem is not None:
            return _error(422, problem)
        made = self._make(
            asked["payment_id"], asked["amount_minor"], asked["currency"], key=asked["key"]
        )
        return json_reply({"refund": made})

    def _problem(self, payment: Json | None, asked: Json) -> str | None:
        if payment is None:
            return "payment_unknown"
        left = payment["captured_minor"] - self._refunded(payment["id"])
        rules = (
            (payment["disputed"], "payment_disputed"),
            (payment["currency"] != asked["currency"], "currency_mismatch"),
            (asked["amount_minor"] <= 0, "amount_invalid"),
            (asked["amount_minor"] > left, "amount_above_captured"),
        )
        return next((code for broken, code in rules if broken), None)

    def _make(self, payment_id: str, amount_minor: int, currency: str, *, key: str | None) -> Json:
        made = {
            "id": f"RF-{next(self._numbers)}",
            "key": key,
            "account": self.account,
            "payment_id": payment_id,
            "status": self.next_status,
            "amount_minor": amount_minor,
            "currency": currency,
            "failure_code": None,
            "created_at": datetime.fromtimestamp(self.now(), UTC).isoformat(),
        }
        self.refunds.append(made)
        return made

    def _one(self, name: str, value: object, asked: Json) -> HttpReply:
        found = self._by(name, value)
        if found is not None and found["payment_id"] != asked.get("payment_id"):
            found = None
        return json_reply({"refund": found})

    def _list(self, asked: Json) -> HttpReply:
        since = datetime.fromisoformat(asked["since"])
        rows = [r for r in self.refunds if datetime.fromisoformat(r["created_at"]) >= since]
        ids = [row["id"] for row in rows]
        after = ids.index(asked["cursor"]) + 1 if asked["cursor"] else 0
        end = after + min(asked["limit"], self.page)
        more = len(rows) > end
        return json_reply(
            {"refunds": rows[after:end], "next_cursor": ids[end - 1] if more else None}
        )

    def _state(self, asked: Json) -> HttpReply:
        payment = self.payments.get(asked["payment_id"])
        if payment is None:
            return _error(422, "payment_unknown")
        return json_reply({"payment": {**payment, "refunded_minor": self._refunded(payment["id"])}})

    def _refunded(self, payment_id: str) -> int:
        return sum(
            refund["amount_minor"]
            for refund in self.refunds
            if refund["payment_id"] == payment_id and refund["status"] not in _NOT_PAID
        )

    def _by(self, name: str, value: object) -> Json | None:
        return next((refund for refund in self.refunds if refund[name] == value), None)


def _error(status: int, code: str) -> HttpReply:
    return json_reply({"error": {"code": code, "message": code.replace("_", " ")}}, status)

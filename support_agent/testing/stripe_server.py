"""A small Stripe in memory, for what the npm stand-in cannot show; put a FaultProxy in front.

Its answers have the shape of the API's, with the fields that refunds and disputes are about. It has
what `stripe-stateful-mock` lacks: payment intents, every currency, pages by time, refunds that fail
late, disputes, the account of the key.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from support_agent.testing.fault_proxy import HttpReply, HttpRequest, json_reply

Json = dict[str, Any]
_NOT_PAID = frozenset({"failed", "canceled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """What an idempotency key was answered with."""

    form: dict[str, str]
    reply: HttpReply


@dataclass(slots=True, kw_only=True)
class StripeServer:
    """The backend of a FaultProxy: `FaultProxy(server)`."""

    account: str = "acct_ours"
    now: Callable[[], float] = time.time
    next_status: str = "succeeded"  # of the refunds made from now on
    page: int = 100  # the API's most; smaller to see several pages
    charges: dict[str, Json] = field(default_factory=dict)
    intents: dict[str, str] = field(default_factory=dict)  # payment intent -> its charge
    refunds: list[Json] = field(default_factory=list)  # newest first, as the API lists them
    disputes: list[Json] = field(default_factory=list)
    _answered: dict[str, _Answered] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def sell(self, amount: int, currency: str, *, intent: bool = True) -> str:
        """A captured payment, in the API's units; its payment intent, or its charge alone."""
        number = next(self._numbers)
        charge_id, intent_id = f"ch_{number}", f"pi_{number}" if intent else None
        self.charges[charge_id] = {
            "id": charge_id,
            "object": "charge",
            "amount": amount,
            "amount_captured": amount,
            "amount_refunded": 0,
            "captured": True,
            "currency": currency.lower(),
            "disputed": False,
            "livemode": False,
            "payment_intent": intent_id,
        }
        if intent_id is not None:
            self.intents[intent_id] = charge_id
        return intent_id or charge_id

    def refund_outside(self, payment_id: str, amount: int, **fields: Any) -> Json:  # noqa: ANN401 - any of a refund
        """Somebody refunds in the dashboard; `fields` replaces what the API tells of it."""
        charge = self.charges[self.intents.get(payment_id, payment_id)]
        return self._make(charge, amount, {}) | self._told(fields)

    def fail(self, refund_id: str, reason: str = "expired_or_canceled_card") -> None:
        """A refund fails, also one that had succeeded."""
        refund = next(refund for refund in self.refunds if refund["id"] == refund_id)
        refund |= {"status": "failed", "failure_reason": reason}
        self._sum(self.charges[refund["charge"]])

    def dispute(self, payment_id: str, *, status: str = "needs_response", amount: int = 0) -> Json:
        """The customer's bank asks the charge back; the API marks it disputed for ever."""
        charge = self.charges[self.intents.get(payment_id, payment_id)]
        charge["disputed"] = True
        dispute = {
            "id": f"dp_{next(self._numbers)}",
            "object": "dispute",
            "amount": amount or charge["amount"],
            "charge": charge["id"],
            "currency": charge["currency"],
            "payment_intent": charge["payment_intent"],
            "status": status,
        }
        self.disputes.insert(0, dispute)
        return dispute

    async def __call__(self, request: HttpRequest) -> HttpReply:
        if not request.headers.get("authorization", "").startswith("Bearer sk_test_"):
            return _error(401, message="Invalid API Key provided")
        if request.method == "POST" and request.path == "/v1/refunds":
            return self._once(request)
        return self._read(request)

    def _once(self, request: HttpRequest) -> HttpReply:
        key = request.headers.get("idempotency-key", "")
        known = self._answered.get(key)
        if known is None:
            known = _Answered(form=request.form, reply=self._refund(request.form))
            self._answered[key] = known
        elif known.form != request.form:
            return _error(400, kind="idempotency_error", message="other parameters")
        else:
            known = replace(known, reply=replace(known.reply, headers={"idempotent-replayed": "1"}))
        return known.reply

    def _refund(self, form: dict[str, str]) -> HttpReply:
        charge_id = form.get("charge") or self.intents.get(form.get("payment_intent", ""), "")
        charge = self.charges.get(charge_id)
        if charge is None:
            return _missing("charge" if "charge" in form else "payment_intent")
        left, amount = charge["amount_captured"] - charge["amount_refunded"], int(form["amount"])
        if any(dispute["charge"] == charge_id for dispute in self.disputes):
            return _error(400, code="charge_disputed", message="charged back")
        if left == 0:
            return _error(400, code="charge_already_refunded", message="already refunded")
        if amount > left:
            return _error(400, param="amount", message="greater than unrefunded amount")
        metadata = {name[9:-1]: form[name] for name in form if name.startswith("metadata[")}
        return json_reply(self._make(charge, amount, metadata))

    def _make(self, charge: Json, amount: int, metadata: dict[str, str]) -> Json:
        refund = {
            "id": f"re_{next(self._numbers)}",
            "object": "refund",
            "amount": amount,
            "charge": charge["id"],
            "created": int(self.now()),
            "currency": charge["currency"],
            "metadata": metadata,
            "payment_intent": charge["payment_intent"],
            "status": self.next_status,
        }
        self.refunds.insert(0, refund)
        self._sum(charge)
        return refund

    def _told(self, fields: Json) -> Json:
        self.refunds[0] |= fields
        return self.refunds[0]

    def _sum(self, charge: Json) -> None:
        charge["amount_refunded"] = sum(
            refund["amount"]
            for refund in self.refunds
            if refund["charge"] == charge["id"] and refund["status"] not in _NOT_PAID
        )

    def _read(self, request: HttpRequest) -> HttpReply:
        found: Json | None = None
        match request.path.split("/")[2:]:
            case ["refunds"]:
                return self._list(self.refunds, request.query)
            case ["disputes"]:
                return self._list(self.disputes, request.query)
            case ["account"]:
                found = {"id": self.account, "object": "account"}
            case ["charges", charge_id]:
                found = self.charges.get(charge_id)
            case ["payment_intents", intent] if intent in self.intents:
                charge = self.charges[self.intents[intent]]
                found = {"id": intent, "object": "payment_intent", "latest_charge": charge}
            case ["refunds", refund_id]:
                found = next((row for row in self.refunds if row["id"] == refund_id), None)
        return _missing("id") if found is None else json_reply(found)

    def _list(self, rows: list[Json], query: dict[str, str]) -> HttpReply:
        for name in ("charge", "payment_intent"):
            if name in query and query[name] not in self.charges | self.intents:
                return _missing(name)
            rows = [row for row in rows if query.get(name, row[name]) == row[name]]
        rows = [row for row in rows if row.get("created", 0) >= int(query.get("created[gte]", 0))]
        ids, last = [row["id"] for row in rows], query.get("starting_after")
        after = 0 if last is None else ids.index(last) + 1
        size = min(int(query.get("limit", 10)), self.page)
        return json_reply(
            {
                "object": "list",
                "url": "/v1/refunds",
                "data": rows[after : after + size],
                "has_more": len(rows) > after + size,
            }
        )


def _missing(param: str) -> HttpReply:
    return _error(404, code="resource_missing", param=param, message="No such object")


def _error(status: int, *, kind: str = "invalid_request_error", **told: str) -> HttpReply:
    return json_reply({"error": {"type": kind, **told}}, status)

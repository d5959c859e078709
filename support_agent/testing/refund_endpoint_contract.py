"""What a shop's refund endpoint must refuse; run each check of ENDPOINT_CHECKS against yours.

That it refunds once per key, finds and tells is the contract of the gateway: run `GATEWAY_CHECKS`
over a `HttpGateway` of the same address.

Example:
    endpoint = EndpointAt(
        url="http://127.0.0.1:8000/refunds", secret=secret, account="shop",
        payment_id="PAY-1", amount_minor=1_000, currency="VND",
    )
    for check in ENDPOINT_CHECKS:
        await check(endpoint)
"""

import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from support_agent.testing.contract_check import must

_STRANGER = "whsec_" + "c3RyYW5n" * 5  # not the endpoint's
_LATE = timedelta(minutes=10)  # the scheme's own tolerance is five
_REFUSED = frozenset({400, 401, 403, 409, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAt:
    """Where the endpoint is, and a payment of it that has not been refunded in full."""

    url: str
    secret: str
    account: str
    payment_id: str
    amount_minor: int
    currency: str
    livemode: bool = False


EndpointCheck = Callable[[EndpointAt], Awaitable[None]]


async def unsigned_is_refused(endpoint: EndpointAt) -> None:
    """Without a signature nothing is paid."""
    question = _refund(endpoint)
    await _refused(endpoint, question, {})


async def a_strangers_signature_is_refused(endpoint: EndpointAt) -> None:
    """A signature by another secret pays nothing."""
    question = _refund(endpoint)
    await _refused(endpoint, question, _signed(question, _STRANGER))


async def a_changed_body_is_refused(endpoint: EndpointAt) -> None:
    """The signature is of this very body: another amount with it pays nothing."""
    question = _refund(endpoint)
    headers = _signed(question, endpoint.secret)
    changed = {**question, "amount_minor": endpoint.amount_minor + 1}
    await _refused(endpoint, changed, headers)


async def another_operation_needs_another_signature(endpoint: EndpointAt) -> None:
    """A signed question cannot be turned into a refund."""
    question = _refund(endpoint)
    headers = _signed({**question, "operation": "find"}, endpoint.secret)
    await _refused(endpoint, question, headers)


async def an_old_request_is_refused(endpoint: EndpointAt) -> None:
    """What was signed ten minutes ago, or will be in ten, pays nothing."""
    for moved in (-_LATE, _LATE):
        question = _refund(endpoint)
        headers = _signed(question, endpoint.secret, moved=moved)
        await _refused(endpoint, question, headers)


async def another_account_is_refused(endpoint: EndpointAt) -> None:
    """A signed refund for an account that is not the endpoint's pays nothing."""
    question = {**_refund(endpoint), "account": f"{endpoint.account}-of-somebody-else"}
    await _refused(endpoint, question, _signed(question, endpoint.secret))


async def the_other_mode_is_refused(endpoint: EndpointAt) -> None:
    """A test installation never refunds real money, nor the other way round."""
    question = {**_refund(endpoint), "livemode": not endpoint.livemode}
    await _refused(endpoint, question, _signed(question, endpoint.secret))


async def an_unknown_operation_is_refused(endpoint: EndpointAt) -> None:
    """What is not understood is not taken for a refund."""
    question = {**_refund(endpoint), "operation": "refund_everything"}
    await _refused(endpoint, question, _signed(question, endpoint.secret))


ENDPOINT_CHECKS: tuple[EndpointCheck, ...] = (
    unsigned_is_refused,
    a_strangers_signature_is_refused,
    a_changed_body_is_refused,
    another_operation_needs_another_signature,
    an_old_request_is_refused,
    another_account_is_refused,
    the_other_mode_is_refused,
    an_unknown_operation_is_refused,
)


def _refund(endpoint: EndpointAt) -> dict[str, Any]:
    """A refund that would be made if it were signed as it must be."""
    return {
        "operation": "refund",
        "version": 1,
        "account": endpoint.account,
        "livemode": endpoint.livemode,
        "key": f"check:{uuid.uuid4().hex}",
        "request_id": "check",
        "payment_id": endpoint.payment_id,
        "amount_minor": endpoint.amount_minor,
        "currency": endpoint.currency,
    }


async def _refused(endpoint: EndpointAt, question: dict[str, Any], headers: dict[str, str]) -> None:
    """It says no, and under the key that was sent nothing is found."""
    status, _ = await _post(endpoint, question, headers)
    must(status in _REFUSED, f"it is refused, not answered with {status}")
    asked = {
        "operation": "find",
        "version": 1,
        "account": endpoint.account,
        "livemode": endpoint.livemode,
        "key": question["key"],
        "payment_id": endpoint.payment_id,
    }
    status, found = await _post(endpoint, asked, _signed(asked, endpoint.secret))
    must(status == 200, f"a question that is signed is answered with 200, not with {status}")
    must(found == {"refund": None}, f"nothing was refunded: {found}")


async def _post(
    endpoint: EndpointAt, question: dict[str, Any], headers: dict[str, str]
) -> tuple[int, object]:
    import httpx2  # noqa: PLC0415 - not needed to read the contract

    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            endpoint.url,
            content=_body(question).encode(),
            headers={"content-type": "application/json", **headers},
        )
    return answer.status_code, answer.json() if answer.status_code == 200 else None


def _signed(
    question: dict[str, Any], secret: str, *, moved: timedelta = timedelta()
) -> dict[str, str]:
    from standardwebhooks import Webhook  # noqa: PLC0415 - an extra

    id_, at = f"msg_{uuid.uuid4().hex}", datetime.now(UTC) + moved
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(id_, at, _body(question)),
    }


def _body(question: dict[str, Any]) -> str:
    return json.dumps(question, ensure_ascii=False, separators=(",", ":"))

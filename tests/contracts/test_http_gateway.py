"""The HTTP gateway where it has to be more careful than the contract says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from support_agent.adapters.payments.http import HttpGateway
from support_agent.adapters.payments.http_exchange import MOST_BYTES
from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import GatewayStatus, RefundInstruction
from support_agent.testing.contract_check import ContractBroken
from support_agent.testing.fault_proxy import (
    Fault,
    FaultProxy,
    HttpReply,
    HttpRequest,
    json_reply,
)
from support_agent.testing.refund_endpoint import RefundEndpoint
from support_agent.testing.refund_endpoint_contract import (
    ENDPOINT_CHECKS,
    EndpointAt,
    a_changed_body_is_refused,
    a_strangers_signature_is_refused,
    an_old_request_is_refused,
    an_unknown_operation_is_refused,
    another_account_is_refused,
    another_operation_needs_another_signature,
    the_other_mode_is_refused,
    unsigned_is_refused,
)
from tests.refund_kit import ACCOUNT, NEXT_SECRET, SECRET, captured, gateway_through

SOUND: dict[str, Any] = {
    "id": "RF-1",
    "key": "PAY-1:k",
    "account": ACCOUNT,
    "payment_id": "PAY-1",
    "status": "succeeded",
    "amount_minor": 100_000,
    "currency": "VND",
}


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The adapter, the endpoint it talks to, and the proxy between them."""

    gateway: HttpGateway
    endpoint: RefundEndpoint
    proxy: FaultProxy

    def sold(self, amount: int = 250_000, currency: str = "VND") -> RefundInstruction:
        """A refund of 100,000 of a new payment, not sent yet."""
        payment_id = self.endpoint.sell(amount, currency)
        return captured(payment_id, amount, currency).refund_of(100_000, key="k")

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.proxy.requests]


@pytest.fixture
async def http() -> AsyncIterator[Opened]:
    endpoint = RefundEndpoint(secrets=(SECRET,), account=ACCOUNT, page=3)
    async with gateway_through(endpoint) as (gateway, proxy):
        yield Opened(gateway=gateway, endpoint=endpoint, proxy=proxy)


class TestRequest:
    async def test_it_is_one_object_with_everything_that_is_to_be_done(self, http):
        instruction = http.sold()
        await http.gateway.refund(instruction)
        (sent,) = http.proxy.requests

        assert (sent.method, sent.target) == ("POST", "/refunds")
        assert json.loads(sent.body) == {
            "operation": "refund",
            "version": 1,
            "account": ACCOUNT,
            "livemode": False,
            "key": instruction.key,
            "request_id": instruction.request_id,
            "payment_id": instruction.gateway_payment_id,
            "amount_minor": 100_000,
            "currency": "VND",
        }
        assert sent.headers["idempotency-key"] == instruction.key
        assert sent.headers["content-type"] == "application/json"

    async def test_a_retry_sends_the_same_bytes_under_a_new_id(self, http):
        instruction = http.sold()
        await http.gateway.refund(instruction)
        await http.gateway.refund(instruction)
        first, second = http.proxy.requests

        assert first.body == second.body
        assert first.headers["webhook-id"] != second.headers["webhook-id"]

    async def test_reading_names_its_operation_and_carries_no_key_in_a_header(self, http):
        instruction = http.sold()
        await http.gateway.find(instruction)
        await http.gateway.get("RF-9", instruction.payment)
        await http.gateway.payment_state(instruction.payment)
        [
            r
            async for r in http.gateway.refunds_since(
                datetime(2026, 10, 13, 2, 0, 0, 5, tzinfo=UTC)
            )
        ]

        assert [(a.pop("operation"), a) for a in http.asked()] == [
            ("find", _common(key=instruction.key, payment_id=instruction.gateway_payment_id)),
            ("get", _common(refund_id="RF-9", payment_id=instruction.gateway_payment_id)),
            ("payment_state", _common(payment_id=instruction.gateway_payment_id)),
            ("list", _common(since="2026-10-13T02:00:00Z", limit=100, cursor=None)),
        ]
        assert all("idempotency-key" not in request.headers for request in http.proxy.requests)

    async def test_the_shop_verifies_it_by_the_library(self, http):
        await http.gateway.refund(http.sold())
        (sent,) = http.proxy.requests

        assert Webhook(SECRET).verify(sent.body, dict(sent.headers))["operation"] == "refund"

    @pytest.mark.parametrize("held", [SECRET, NEXT_SECRET])
    async def test_while_a_secret_is_replaced_the_shop_may_hold_either(self, held):
        endpoint = RefundEndpoint(secrets=(held,), account=ACCOUNT)
        async with gateway_through(endpoint, secrets=(NEXT_SECRET, SECRET)) as (gateway, _):
            payment = captured(endpoint.sell(250_000, "VND"), 250_000, "VND")
            made = await gateway.refund(payment.refund_of(1_000, key="k"))

        assert made.status is GatewayStatus.SUCCEEDED

    async def test_no_cookie_address_or_tool_of_this_machine_is_told(self, http):
        await http.gateway.refund(http.sold())
        (sent,) = http.proxy.requests

        assert sorted(sent.headers) == [
            "accept",
            "accept-encoding",
            "connection",
            "content-length",
            "content-type",
            "host",
            "idempotency-key",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
        ]
        assert sent.headers["user-agent"] == "support-agent"

    async def test_a_proxy_of_the_environment_is_not_used(self, http, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

        assert (await http.gateway.refund(http.sold())).status is GatewayStatus.SUCCEEDED

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"account": "another"}, "account_mismatch"),
            ({"gateway": "stripe"}, "account_mismatch"),
            ({"amount_minor": 0}, "amount_invalid"),
            ({"amount_minor": -1}, "amount_invalid"),
            ({"currency": "XXX"}, "currency_unknown"),
            ({"key": ""}, "key_invalid"),
            ({"key": "a\r\nb: c"}, "key_invalid"),
            ({"key": "khoá"}, "key_invalid"),
            ({"gateway_payment_id": "PAY-\ud800"}, "payment_unknown"),
        ],
    )
    async def test_what_cannot_be_asked_is_declined_and_not_sent(self, http, changes, code):
        with pytest.raises(PaymentDeclined, match=code):
            await http.gateway.refund(replace(http.sold(), **changes))

        assert not http.proxy.requests


def _common(**fields: Any) -> dict[str, Any]:
    return {"version": 1, "account": ACCOUNT, "livemode": False, **fields}


def says(status: int, code: str | None = None) -> HttpReply:
    return json_reply({"error": {"code": code, "message": "của cửa hàng"}}, status)


class TestRefusals:
    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            (says(422, "amount_above_captured"), PaymentDeclined),
            (says(422, "payment_disputed"), PaymentDeclined),
            (says(409, "refund_declined"), PaymentDeclined),
            (says(400, "amount_invalid"), PaymentDeclined),
            (says(402, "insufficient_funds"), PaymentDeclined),
            (says(409, "key_reused"), IdempotencyMismatch),
            (says(422, "key_reused"), IdempotencyMismatch),
            (says(409, "key_in_use"), GatewayBusy),
            (says(429), GatewayBusy),
            (HttpReply(status=429, body=b"slow down"), GatewayBusy),
            (says(401), GatewayRefusesUs),
            (says(403, "amount_invalid"), GatewayRefusesUs),
            (
                HttpReply(status=403, body=b"<html>", headers={"content-type": "text/html"}),
                GatewayRefusesUs,
            ),
        ],
    )
    async def test_what_the_endpoint_says_of_the_money_is_believed(self, http, reply, error):
        http.proxy.will(reply)

        with pytest.raises(error):
            await http.gateway.refund(http.sold())

    @pytest.mark.parametrize(
        "reply",
        [
            says(404, "payment_unknown"),
            says(500, "amount_invalid"),
            says(503, "payment_unknown"),
            says(409),
            says(409, "conflict"),
            says(422, "unprocessable"),
            says(400, "key_reused"),
            says(422, "key_in_use"),
            says(408, "refund_declined"),
            says(425, "refund_declined"),
            json_reply({"detail": [{"loc": ["body"], "msg": "Field required"}]}, 422),
            json_reply({"error": "amount_invalid"}, 422),
            json_reply({"error": {"code": ["amount_invalid"]}}, 422),
            HttpReply(status=422, body=b'{"error": {"code": "amount_invalid"}, "error": {}}'),
            HttpReply(
                status=422,
                body=b'{"error": {"code": "amount_invalid"}}',
                headers={"content-type": "text/html"},
            ),
            HttpReply(status=302, headers={"location": "/elsewhere"}),
            HttpReply(status=307, headers={"location": "/elsewhere"}),
            HttpReply(status=204),
            json_reply({"refund": SOUND}, 201),
            json_reply({"refund": SOUND}, 202),
        ],
        ids=lambda reply: f"{reply.status}-{reply.body[:40].decode()}",
    )
    async def test_anything_else_is_an_unknown_outcome(self, http, reply):
        instruction = http.sold()
        http.proxy.will(reply)

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.refund(instruction)
        assert [request.path for request in http.proxy.requests] == ["/refunds"]

    @pytest.mark.parametrize("reply", [says(422, "payment_unknown"), says(422, "account_mismatch")])
    async def test_a_question_that_is_declined_says_nothing_of_a_refund(self, http, reply):
        instruction = http.sold()
        http.proxy.will(reply, reply)

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.find(instruction)
        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.get("RF-1", instruction.payment)

    async def test_only_the_word_for_it_makes_a_payment_unknown(self, http):
        payment = http.sold().payment
        http.proxy.will(
            says(422, "payment_unknown"),
            says(422, "account_mismatch"),
            says(404, "payment_unknown"),
        )

        with pytest.raises(PaymentDeclined, match="payment_unknown"):
            await http.gateway.payment_state(payment)
        for _ in range(2):
            with pytest.raises(PaymentOutcomeUnknown):
                await http.gateway.payment_state(payment)

    async def test_the_servers_own_words_are_not_repeated(self, http):
        http.proxy.will(says(422, "của-cửa-hàng"))

        with pytest.raises(PaymentError) as raised:
            await http.gateway.refund(http.sold())
        assert str(raised.value) == "the refund endpoint answered 422 -"


def raw(body: bytes, **headers: str) -> HttpReply:
    return HttpReply(body=body, headers={name.replace("_", "-"): v for name, v in headers.items()})


def changed(**fields: Any) -> HttpReply:
    return json_reply({"refund": {**SOUND, **fields}})


class TestAnswers:
    @pytest.mark.parametrize(
        "reply",
        [
            raw(b""),
            raw(b"null"),
            raw(b"[]"),
            raw(b"{}"),
            raw(b'{"refund": null}'),
            raw(b'{"refund": "RF-1"}'),
            raw(b"\xff\xfe"),
            raw(b'{"refund": "\xe9"}'),
            raw(b"\xef\xbb\xbf{}"),
            raw(b"[" * 200_000),
            raw(b'{"refund": ' + b"9" * 5_000 + b"}"),
            raw(json.dumps({"refund": SOUND}).encode(), content_type="text/html"),
            raw(json.dumps({"refund": SOUND}).encode(), content_encoding="gzip"),
            raw(json.dumps({"refund": SOUND}).encode().replace(b"100000", b"100000.0")),
            raw(json.dumps({"refund": SOUND}).encode().replace(b"100000", b"1e5")),
            raw(json.dumps({"refund": SOUND}).encode().replace(b"100000", b"NaN")),
            raw(json.dumps({"refund": SOUND}).encode().replace(b'"key"', b'"id": "RF-2", "key"')),
            changed(amount_minor="100000"),
            changed(amount_minor=True),
            changed(amount_minor=-1),
            changed(amount_minor=10**15 + 1),
            changed(amount_minor=None),
            changed(id=None),
            changed(id=7),
            changed(id="RF\n1"),
            changed(id="R" * 501),
            changed(account=None),
            changed(payment_id=""),
            changed(currency=None),
            changed(status=None),
            changed(key=["PAY-1:k"]),
        ],
        ids=lambda reply: reply.body[:90].decode(errors="replace"),
    )
    async def test_what_cannot_be_read_is_an_unknown_outcome(self, http, reply):
        instruction = http.sold()
        http.proxy.will(reply)

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.refund(instruction)

    async def test_a_sound_answer_is_read(self, http):
        http.proxy.will(json_reply({"refund": SOUND}))

        assert (await http.gateway.refund(http.sold())).provider_refund_id == "RF-1"

    @pytest.mark.parametrize(
        ("word", "status"),
        [
            *((status.value, status) for status in GatewayStatus),
            ("on_its_way", GatewayStatus.PENDING),
            ("SUCCEEDED", GatewayStatus.PENDING),
        ],
    )
    async def test_a_status_it_does_not_know_is_neither_paid_nor_failed(self, http, word, status):
        http.proxy.will(changed(status=word))

        assert (await http.gateway.refund(http.sold())).status is status

    async def test_what_was_really_refunded_is_told_as_the_shop_tells_it(self, http):
        told = {"amount_minor": 1, "currency": "USD", "payment_id": "PAY-9", "account": "another"}
        http.proxy.will(changed(**told))
        refund = await http.gateway.refund(http.sold())

        assert (refund.amount_minor, refund.currency) == (1, "USD")
        assert (refund.payment.gateway_payment_id, refund.payment.account) == ("PAY-9", "another")

    async def test_a_refund_of_another_key_or_id_is_not_taken_for_ours(self, http):
        instruction = http.sold()
        http.proxy.will(changed(key="PAY-1:other"), changed(id="RF-2"), changed(key=None))

        with pytest.raises(PaymentOutcomeUnknown, match="another key"):
            await http.gateway.find(instruction)
        with pytest.raises(PaymentOutcomeUnknown, match="another refund"):
            await http.gateway.get("RF-1", instruction.payment)
        with pytest.raises(PaymentOutcomeUnknown, match="another key"):
            await http.gateway.find(instruction)

    async def test_that_there_is_none_has_to_be_said(self, http):
        instruction = http.sold()
        http.proxy.will(raw(b"{}"), raw(b'{"refund": null}'))

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.find(instruction)
        assert await http.gateway.find(instruction) is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"id": "PAY-2"},
            {"captured_minor": 2.5},
            {"captured_minor": None},
            {"refunded_minor": "0"},
            {"charged_back_minor": None},
            {"disputed": None},
            {"disputed": 0},
            {"livemode": "false"},
            {"account": None},
        ],
        ids=str,
    )
    async def test_a_state_that_leaves_something_open_is_none(self, http, fields):
        payment = http.sold().payment
        state = {**http.endpoint.payments[payment.gateway_payment_id], "refunded_minor": 0}
        http.proxy.will(json_reply({"payment": state | fields}))

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.payment_state(payment)

    async def test_a_dispute_and_another_mode_are_told(self, http):
        payment = http.sold().payment
        http.endpoint.payments[payment.gateway_payment_id] |= {
            "disputed": True,
            "livemode": True,
            "account": "another",
            "charged_back_minor": 5,
        }
        state = await http.gateway.payment_state(payment)

        assert (state.disputed, state.livemode, state.account) == (True, True, "another")
        assert state.charged_back_minor == 5


class TestLists:
    @pytest.mark.parametrize(
        "pages",
        [
            [{"refunds": None, "next_cursor": None}],
            [{"refunds": {}, "next_cursor": None}],
            [{"refunds": []}],
            [{"refunds": [SOUND]}],
            [{"refunds": [SOUND], "next_cursor": ""}],
            [{"refunds": [SOUND], "next_cursor": 7}],
            [{"refunds": [], "next_cursor": "a"}],
            [{"refunds": [SOUND], "next_cursor": "a"}, {"refunds": [SOUND], "next_cursor": "a"}],
            [
                {"refunds": [SOUND], "next_cursor": "a"},
                {"refunds": [SOUND], "next_cursor": "b"},
                {"refunds": [SOUND], "next_cursor": "a"},
            ],
            [{"refunds": [{**SOUND, "amount_minor": 1.5}], "next_cursor": None}],
        ],
        ids=str,
    )
    async def test_a_list_that_does_not_lead_on_is_not_taken_for_whole(self, http, pages):
        http.proxy.will(*(json_reply(page) for page in pages))

        with pytest.raises(PaymentOutcomeUnknown):
            [r async for r in http.gateway.refunds_since(datetime.now(UTC))]

    async def test_a_refund_without_a_key_is_somebody_elses(self, http):
        instruction = http.sold()
        http.endpoint.refund_outside(instruction.gateway_payment_id, 5_000)
        since = datetime.now(UTC) - timedelta(days=1)

        assert [r.key async for r in http.gateway.refunds_since(since)] == [""]


class TestSilence:
    @pytest.mark.parametrize("fault", [f for f in Fault if "HANG" not in f.name])
    async def test_a_broken_connection_is_an_unknown_outcome_and_not_tried_again(self, http, fault):
        http.proxy.will(fault)

        with pytest.raises(PaymentOutcomeUnknown):
            await http.gateway.refund(http.sold())
        assert len(http.proxy.requests) == 1

    async def test_nobody_there_is_an_unknown_outcome(self):
        endpoint = RefundEndpoint(secrets=(SECRET,), account=ACCOUNT)
        async with gateway_through(endpoint) as (gateway, proxy):
            await proxy.__aexit__(None, None, None)
            with pytest.raises(PaymentOutcomeUnknown, match="no answer"):
                await gateway.refund(captured("PAY-1", 1, "VND").refund_of(1, key="k"))

    async def test_silence_ends_at_the_time_out(self):
        endpoint = RefundEndpoint(secrets=(SECRET,), account=ACCOUNT)
        async with gateway_through(endpoint, timeout_s=0.05) as (gateway, proxy):
            proxy.will(Fault.HANG_AFTER)
            payment = captured(endpoint.sell(250_000, "VND"), 250_000, "VND")
            with pytest.raises(PaymentOutcomeUnknown, match="TimeoutError"):
                await gateway.refund(payment.refund_of(1_000, key="k"))

        assert len(endpoint.refunds) == 1

    async def test_a_drip_ends_at_the_same_time_out(self):
        async with writing(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", drip=b" "
        ) as url:
            gateway = at(url, timeout_s=0.1)
            with pytest.raises(PaymentOutcomeUnknown, match="TimeoutError"):
                await gateway.refund(captured("PAY-1", 1, "VND").refund_of(1, key="k"))
            await gateway.aclose()

    async def test_an_answer_without_end_is_not_read_to_its_end(self):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
        async with writing(head + b" " * (MOST_BYTES + 1)) as url:
            gateway = at(url, timeout_s=5)
            with pytest.raises(PaymentOutcomeUnknown, match="does not end"):
                await gateway.refund(captured("PAY-1", 1, "VND").refund_of(1, key="k"))
            await gateway.aclose()

    async def test_each_request_has_a_connection_of_its_own(self):
        """One that idled may be closed by now, and a lost answer is what that looks like."""
        body = b'{"refund": null}'
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        once = f"{head}\r\n\r\n".encode() + body
        async with writing(once) as url:
            gateway = at(url, timeout_s=5)
            for _ in range(3):
                assert (
                    await gateway.get(
                        "RF-1", captured("PAY-1", 1, "VND").refund_of(1, key="k").payment
                    )
                    is None
                )
            await gateway.aclose()

    async def test_what_is_no_http_is_an_unknown_outcome(self):
        async with writing(b"220 mail.example ESMTP\r\n") as url:
            gateway = at(url, timeout_s=5)
            with pytest.raises(PaymentOutcomeUnknown):
                await gateway.refund(captured("PAY-1", 1, "VND").refund_of(1, key="k"))
            await gateway.aclose()


def at(url: str, *, timeout_s: float) -> HttpGateway:
    return HttpGateway(
        url=url, account=ACCOUNT, secrets=(SECRET,), livemode=False, timeout_s=timeout_s
    )


@asynccontextmanager
async def writing(first: bytes, *, drip: bytes = b"") -> AsyncIterator[str]:
    """A server that reads a request, writes these bytes, and goes on with the drip until the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while drip:
                await writer.drain()
                await asyncio.sleep(0.01)
                writer.write(drip)
            await writer.drain()
            await reader.read()
        except ConnectionError:
            pass  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/refunds"


def _is_recent(request: HttpRequest) -> bool:
    at = int(request.headers.get("webhook-timestamp", "0"))
    return abs(at - datetime.now(UTC).timestamp()) < 60


# By each fault, whether the endpoint still looks at what a request is wrong in.
LOOKS: dict[str, Callable[[HttpRequest, dict[str, Any]], bool]] = {
    "none": lambda request, asked: True,
    "never looks": lambda request, asked: False,
    "wants any signature": lambda request, asked: "webhook-signature" not in request.headers,
    "lives in the past": lambda request, asked: _is_recent(request),
    "pays anybody": lambda request, asked: asked["account"] == ACCOUNT,
    "mixes modes": lambda request, asked: asked["livemode"] is False,
    "guesses": lambda request, asked: asked["operation"] == "refund",
}


class Careless:
    """An endpoint with one fault, to show that the contract finds it."""

    def __init__(self, fault: str) -> None:
        self.sound = RefundEndpoint(secrets=(SECRET,), account=ACCOUNT)
        self._looks = LOOKS[fault]

    async def __call__(self, request: HttpRequest) -> HttpReply:
        asked = json.loads(request.body)
        if asked["operation"] == "find" or self._looks(request, asked):
            return await self.sound(request)
        return self.sound._refund(asked)


FAULTS = [
    ("never looks", unsigned_is_refused),
    ("wants any signature", a_strangers_signature_is_refused),
    ("wants any signature", a_changed_body_is_refused),
    ("wants any signature", another_operation_needs_another_signature),
    ("lives in the past", an_old_request_is_refused),
    ("pays anybody", another_account_is_refused),
    ("mixes modes", the_other_mode_is_refused),
    ("guesses", an_unknown_operation_is_refused),
]


class TestEndpointContract:
    @pytest.mark.parametrize("check", ENDPOINT_CHECKS, ids=lambda check: check.__name__)
    async def test_the_kits_own_endpoint_keeps_it(self, check):
        async with FaultProxy(sound := Careless("none")) as proxy:
            await check(self.at(sound, proxy))

    @pytest.mark.parametrize(("fault", "finds_it"), FAULTS)
    async def test_it_finds_a_careless_endpoint(self, fault, finds_it):
        async with FaultProxy(careless := Careless(fault)) as proxy:
            with pytest.raises(ContractBroken):
                await finds_it(self.at(careless, proxy))

    def test_every_check_is_shown_to_find_something(self):
        assert {finds_it for _, finds_it in FAULTS} == set(ENDPOINT_CHECKS)

    @staticmethod
    def at(careless: Careless, proxy: FaultProxy) -> EndpointAt:
        return EndpointAt(
            url=f"{proxy.url}/refunds",
            secret=SECRET,
            account=ACCOUNT,
            payment_id=careless.sound.sell(250_000, "VND"),
            amount_minor=1_000,
            currency="VND",
        )

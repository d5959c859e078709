"""Both HTTP transports of the chat-completion adapter: the same faults end in the same errors."""

import asyncio
import gc
import gzip
import socket
import sys
import time
import warnings
from dataclasses import replace

import pytest

from support_agent.adapters.models.chat_transport import http_client
from support_agent.domain.errors import ConfigurationError, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import FinalAnswer, Usage
from support_agent.domain.tokens import estimate_tokens
from support_agent.ports.model import CustomerTurn
from support_agent.testing.model_server import ModelServer, ServerReply, answer, failure
from support_agent.testing.model_streams import streamed
from tests.openai_kit import TODAY, decided, model_at, refused, request, served

# Made for these tests: names 127.0.0.1, is signed by nobody and guards nothing.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg3+dqZbEwiiSXbWpX
Xa72h/eHbdtKeELXWwjLeVOKTC6hRANCAASAZckTIT7gye+BpG9sYYjenKgm+MiH
8zWXZ1V9xu1uFcBC8vwnHFVKbSmkMf4ZB4iY6kvg3X78GHCxVbRduQ5g
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBjzCCATagAwIBAgIUQcOtqyNfIN6Bj/SSOzKv2zJjCIMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEzMDE1MzgyNVoYDzIxMjYxMTA2
MTUzODI1WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASAZckTIT7gye+BpG9sYYjenKgm+MiH8zWXZ1V9xu1uFcBC8vwnHFVK
bSmkMf4ZB4iY6kvg3X78GHCxVbRduQ5go2QwYjAdBgNVHQ4EFgQUBluETcd/oyq9
gLqPMCphY0mLmm0wHwYDVR0jBBgwFoAUBluETcd/oyq9gLqPMCphY0mLmm0wDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC
IH4mliA1jhFThLyHGaA7tHaoG6BKLDId0z82V5X/irnWAiBuCSdmsEovbBOp0ZAX
ggmhg49XMm++27RoQhZxF5MzNA==
-----END CERTIFICATE-----
"""


@pytest.fixture(params=["aiohttp", "httpx2"])
def transport(request):
    return request.param


@pytest.fixture
def certificate(tmp_path):
    path = tmp_path / "server.pem"
    path.write_text(CERTIFICATE)
    return path


@pytest.fixture
def silent_port():
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def sent_tokens(server):
    return estimate_tokens(server.requests[0].body.decode())


async def unavailable(reply, transport, **settings):
    """The error that a reply leads to, and the tokens that were sent for it."""
    async with served(reply, transport=transport, **settings) as (model, server):
        with pytest.raises(ModelUnavailable) as caught:
            await model.decide(request())
        return caught.value, sent_tokens(server)


class TestAnswers:
    async def test_an_answer_comes_whole(self, transport):
        reply = await decided(answer("Dạ 🧵" * 20_000), transport=transport)

        assert reply.decision == FinalAnswer(text="Dạ 🧵" * 20_000)

    async def test_a_compressed_answer_is_read(self, transport):
        packed = gzip.compress(answer("Dạ").body)
        reply = ServerReply(body=packed, headers={"Content-Encoding": "gzip"})

        assert (await decided(reply, transport=transport)).decision == FinalAnswer(text="Dạ")

    async def test_a_connection_is_used_again(self, transport):
        replies = [answer("1"), streamed(answer("2")), answer("3")]
        async with served(*replies, transport=transport) as (model, server):
            for _ in replies:
                await model.decide(request())

        assert server.connections == 1

    async def test_many_calls_at_once_do_not_mix(self, transport):
        async with served(*[answer("Dạ")] * 8, transport=transport) as (model, server):
            questions = [CustomerTurn(text=f"Đơn A{n}?", today=TODAY) for n in range(8)]
            await asyncio.gather(*(model.decide(request(question)) for question in questions))

        sent = sorted(received.json["messages"][1]["content"] for received in server.requests)
        assert [f"A{n}?" in text for n, text in enumerate(sent)] == [True] * 8

    async def test_closing_leaves_nothing_open(self, transport):
        await decided(answer("Dạ"), transport=transport)

        gc.collect()  # what is still open would warn, and warnings are errors


class TestFaults:
    async def test_a_reset_may_have_been_billed(self, transport):
        error, sent = await unavailable(ServerReply(fault="reset"), transport)

        assert "no connection" in str(error)
        assert error.may_pass
        assert error.usage == Usage(requests=1, input_tokens=sent)

    async def test_a_reply_that_is_cut_off_may_have_been_billed(self, transport):
        error, sent = await unavailable(replace(answer("x" * 1000), fault="cut"), transport)

        assert "no connection" in str(error)
        assert error.may_pass
        assert error.usage == Usage(requests=1, input_tokens=sent)

    @pytest.mark.parametrize(
        "reply",
        [
            ServerReply(fault="hang"),
            replace(answer("x" * 1000), fault="stall"),
            ServerReply(chunks=(b" ",) * 500, pause_s=0.02),
        ],
        ids=["silent", "silent in the middle", "slow bytes"],
    )
    async def test_too_late_is_unavailable_and_may_have_been_billed(self, transport, reply):
        error, sent = await unavailable(reply, transport, timeout_s=0.3)

        assert "no answer in 0.3 s" in str(error)
        assert error.may_pass
        assert error.usage == Usage(requests=1, input_tokens=sent)

    async def test_a_status_line_in_another_encoding_is_no_crash(self, transport):
        async def answered(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 503 \xb7\xfe\xce\xf1\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answered, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            model = model_at(f"http://127.0.0.1:{port}/v1", transport=transport)
            with pytest.raises(ModelUnavailable) as caught:
                await model.decide(request())
            await model.aclose()

        assert caught.value.may_pass
        assert caught.value.usage.requests == 1

    async def test_nobody_listening_costs_no_tokens(self, transport):
        with ModelServer() as server:
            gone = server.base_url
        model = model_at(gone, transport=transport)

        with pytest.raises(ModelUnavailable, match="no connection") as caught:
            await model.decide(request())

        assert caught.value.may_pass
        assert caught.value.usage == Usage(requests=1)
        await model.aclose()

    @pytest.mark.parametrize("status", [301, 307, 308])
    async def test_no_redirect_is_followed(self, transport, status):
        with ModelServer([answer("Dạ")]) as elsewhere:
            target = f"{elsewhere.base_url}/chat/completions"
            reply = failure(status, location=target)
            error = await refused(reply, ConfigurationError, transport=transport)

            assert error.setting == "OPENAI_BASE_URL"
            assert elsewhere.requests == ()

    async def test_no_proxy_is_used_on_this_machine(self, transport, monkeypatch):
        with ModelServer() as proxy:
            for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))

            reply = await decided(answer("Dạ"), transport=transport)

            assert reply.decision == FinalAnswer(text="Dạ")
            assert proxy.requests == ()

    async def test_neither_an_endless_error_nor_an_endless_answer_is_read_whole(self, transport):
        body = b"x" * 50_000_000
        failed = await refused(ServerReply(status=500, body=body), transport=transport)
        too_long = await refused(ServerReply(body=body), ModelReplyInvalid, transport=transport)

        assert "HTTP 500" in str(failed)
        assert "longer than" in str(too_long)

    async def test_a_broken_head_is_unavailable(self, transport):
        reply = replace(answer("Dạ"), headers={"X-Odd": "a\x00b"})

        await refused(reply, ModelUnavailable, transport=transport)

    async def test_the_call_after_a_fault_is_answered(self, transport):
        faults = [ServerReply(fault="reset"), replace(answer("x" * 100), fault="cut")]
        async with served(*faults, answer("Dạ"), transport=transport) as (model, _):
            for _fault in faults:
                with pytest.raises(ModelUnavailable):
                    await model.decide(request())

            assert (await model.decide(request())).decision == FinalAnswer(text="Dạ")


class TestTls:
    @pytest.fixture(autouse=True)
    def _forget_broken_handshakes(self):
        """httpx2 leaves the socket of a handshake that fails to the garbage collector."""
        yield
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    async def test_a_certificate_that_nobody_vouches_for_is_a_wrong_address(
        self, transport, certificate
    ):
        server = ModelServer([answer("Dạ")], certificate=certificate)
        async with served(server=server, transport=transport) as (model, _):
            with pytest.raises(ConfigurationError, match="certificate") as caught:
                await model.decide(request())

        assert caught.value.setting == "OPENAI_BASE_URL"
        assert server.requests == ()

    async def test_a_trusted_certificate_is_accepted(self, transport, certificate, monkeypatch):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        server = ModelServer([answer("Dạ")], certificate=certificate)
        async with served(server=server, transport=transport) as (model, _):
            assert (await model.decide(request())).decision == FinalAnswer(text="Dạ")

    async def test_a_server_without_tls_is_unavailable(self, transport):
        with ModelServer([answer("Dạ")]) as server:
            model = model_at(server.base_url.replace("http:", "https:"), transport=transport)

            with pytest.raises(ModelUnavailable, match=r"no TLS.*OPENAI_BASE_URL") as caught:
                await model.decide(request())

            assert caught.value.usage == Usage(requests=1)
            await model.aclose()

    async def test_a_handshake_that_never_ends_is_given_up(self, transport, silent_port):
        model = model_at(f"https://127.0.0.1:{silent_port}/v1", timeout_s=0.3, transport=transport)
        started = time.monotonic()

        with pytest.raises(ModelUnavailable):
            await model.decide(request())

        assert time.monotonic() - started < 5
        await model.aclose()


class TestChoice:
    async def test_aiohttp_is_taken_where_it_is_installed(self):
        chosen = http_client(None)

        assert type(chosen.client) is type(http_client("aiohttp").client)

    async def test_without_the_extra_httpx2_is_taken(self, monkeypatch):
        http_client(None)  # the vendor looks for aiohttp once, when it is imported
        monkeypatch.setitem(sys.modules, "aiohttp", None)

        chosen = http_client(None)

        assert type(chosen.client) is type(http_client("httpx2").client)

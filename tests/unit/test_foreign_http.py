"""The client that asks a shop's own systems, against a server with a certificate of its own."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support_agent.adapters.orders.http_transport import ShopHttp
from support_agent.adapters.payments.http_exchange import Exchange
from support_agent.adapters.payments.http_signing import Signing
from support_agent.domain.errors import OrdersUnavailable
from tests.refund_kit import SECRET

ANSWER = b"{}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine's, and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(  # noqa: S603 - of the machine
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=shop", "-keyout", str(folder / "key")),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(folder / "certificate")),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
    return both


@asynccontextmanager
async def answering(certificate: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A shop behind TLS that answers everything with JSON and a cookie; what it was asked."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Set-Cookie: session=1; Path=/\r\nContent-Length: 2\r\n\r\n" + ANSWER
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", asked


async def test_orders_come_from_a_shop_with_an_authority_of_its_own(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with answering(certificate) as (url, _):
        http = ShopHttp(headers={}, timeout_s=5)
        try:
            assert await http.get(url) == {}
        finally:
            await http.aclose()


async def test_one_that_nobody_vouches_for_is_no_shop(certificate):
    async with answering(certificate) as (url, asked):
        http = ShopHttp(headers={}, timeout_s=5)
        try:
            with pytest.raises(OrdersUnavailable, match="cannot be reached"):
                await http.get(url)
        finally:
            await http.aclose()
    assert not asked


async def test_a_refund_endpoint_gets_no_cookie_back(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with answering(certificate) as (url, asked):
        exchange = Exchange(url=url, signing=Signing((SECRET,)), timeout_s=5)
        try:
            for _ in range(2):
                await exchange.ask({"op": "find"})
        finally:
            await exchange.aclose()

    assert len(asked) == 2
    assert b"cookie" not in asked[1].lower()

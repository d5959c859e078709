"""The server takes so many connections and no more, and says what it says in our log."""

import asyncio
import contextlib
import logging

import pytest
import structlog
from fastapi import FastAPI
from uvicorn import Server

from support_agent.api.connections import ServerConfig, server_logged
from tests.queue_kit import eventually

ASKS = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n"
MOST = 3


@pytest.fixture
async def port():
    """Of a server that takes few connections."""
    config = ServerConfig(FastAPI(), head_s=10, shutdown_s=1, most=MOST)
    config.port = 0
    server = Server(config)
    running = asyncio.create_task(server._serve())
    await eventually(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running


class Client:
    """Connections, closed at the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.writers: list[asyncio.StreamWriter] = []

    async def answer(self) -> bytes:
        """What one more connection is answered, or nothing at all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writers.append(writer)
        try:
            writer.write(ASKS)
            return (await reader.readline()).strip()
        except ConnectionError:
            return b""


@pytest.fixture
async def client(port):
    opened = Client(port)
    yield opened
    for writer in opened.writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_one_that_is_too_many_is_let_go_and_those_that_are_served_stay(client):
    served = [await client.answer() for _ in range(MOST)]
    refused = await client.answer()
    client.writers[0].close()

    assert served == [b"HTTP/1.1 404 Not Found"] * MOST
    assert refused == b""
    assert await eventually(client.answer) == b"HTTP/1.1 404 Not Found"


@pytest.mark.parametrize("before", [logging.NOTSET, logging.ERROR])
def test_what_the_server_says_is_in_our_log_and_nowhere_else(capsys, before):
    """Also where another server of this process was told to say less."""
    logger = logging.getLogger("uvicorn.error")
    was = logger.level
    logger.setLevel(before)
    with structlog.testing.capture_logs() as told, server_logged():
        logger.info("Shutting down")
        logger.warning("Invalid HTTP request received.")
        logger.error("Exception in ASGI application\n", exc_info=ValueError("oh"))
        logger.error("Exception in ASGI application\n", exc_info=asyncio.CancelledError())

    levels = [(one["event"], one["log_level"]) for one in told]
    said, failed = ("server.said", "info"), ("server.failed", "error")
    assert levels == [said, said, failed, said]
    assert capsys.readouterr() == ("", "")
    assert not logging.getLogger("uvicorn").handlers
    assert logger.level == before
    logger.setLevel(was)

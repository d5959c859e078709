"""A line to a PostgreSQL server that a test cuts, at any time or after a COMMIT, or holds up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.engine import make_url


class Line:
    """Bytes go through both ways. Cut, every connection breaks and none is taken, until mended."""

    def __init__(self, host: str, port: int) -> None:
        self._server_at = host, port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._commits_to_hear: int | None = None
        self.stands_still = False  # connections stay, and the server hears nothing more
        self.is_mute = False  # nor is anything heard of the server
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()

    def loses_answer_to_commit(self, number: int = 0) -> None:
        """The server hears that COMMIT (0: the next one), and nobody hears that it did."""
        self._commits_to_hear = number + 1

    async def aclose(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there, back = await asyncio.open_connection(*self._server_at)
        ends = {writer, back}
        self._open |= ends
        lost = asyncio.Event()
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(
                    self._pass_on(reader, back, lost), self._bring_back(there, writer, lost)
                )
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if self._commits_to_hear is not None and b"COMMIT\0" in data:
                self._commits_to_hear -= 1
                if self._commits_to_hear == 0:
                    self._commits_to_hear = None
                    lost.set()
            if not self.stands_still:
                writer.write(data)
        raise ConnectionResetError

    async def _bring_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if lost.is_set():
                break  # it was answered, so it is done
            if not self.is_mute:
                writer.write(data)
        if self.is_mute:
            await writer.wait_closed()  # that the server hung up is not heard either
        raise ConnectionResetError


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[tuple[str, Line]]:
    """The database's address by way of a line, and the line."""
    address = make_url(url)
    assert address.host is not None
    assert address.port is not None
    line = Line(address.host, address.port)
    await line.mend()
    try:
        way = address.set(host="127.0.0.1", port=line.port)
        yield way.render_as_string(hide_password=False), line
    finally:
        await line.aclose()

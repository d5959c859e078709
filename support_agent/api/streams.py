"""Open streams of events: one poller for all of them, which wakes those that have news."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from contextvars import Context
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import structlog
from fastapi import Header
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from support_agent.api.events import LAST_EVENT_ID, Kind, Story, Told
from support_agent.api.guarded import problems
from support_agent.api.problems import ProblemError
from support_agent.domain.access import Caller
from support_agent.domain.errors import DatabaseUnavailable, SupportAgentError
from support_agent.ports.storage import Database, Mark, Transaction
from support_agent.services.api_keys import ApiKeys
from support_agent.services.workers import tell, until

log = structlog.get_logger(__name__)
MEDIA_TYPE = "text/event-stream"
RETRY_MS = 2_000  # after which a client that lost the stream comes back
KEEP_ALIVE_S = 15.0  # proxies close what says nothing for a minute, and clients notice less
SEND_S = 20.0  # that a reader may take for one event
SOONEST_S = 0.05  # between two looks at the database, however much is going on
LONGEST_PAUSE_S = 5.0  # while the database is away
ITEM = {  # of one event; a word of OpenAPI 3.2, which FastAPI uses for streams, too
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, each with one line of JSON; comments keep it alive",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "itemSchema": ITEM}},
    },
    **problems({503: "Too many streams are open, or something that is needed is away"}),
}
LastEventId = Annotated[
    str | None,
    Header(
        alias=LAST_EVENT_ID,
        max_length=100,
        description="The `id` of the last event that arrived: go on behind it.",
    ),
]
HELLO = f"retry: {RETRY_MS}\n: events follow\n\n".encode()
ALIVE = b": still here\n\n"


class Heard(Enum):
    """What a stream that waits comes to hear."""

    NEWS = "news"
    NOTHING = "nothing"
    END = "end"


class Watch:
    """One open stream, as the poller sees it."""

    def __init__(self, story: Story, *, key_id: str, until_s: float | None) -> None:
        self.story = story
        self.key_id = key_id
        self.until_s = until_s  # by the monotonic clock
        self.mark: Mark | None = None  # how far the thing was when it was last looked at
        self.news = asyncio.Event()
        self.is_over = False

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or its customer's token has, however much there is to tell."""
        return self.is_over or (self.until_s or math.inf) <= time.monotonic()

    def end(self) -> None:
        self.is_over = True
        self.news.set()

    async def wait(self, within_s: float) -> Heard:
        """For so long, or until there is something to hear."""
        if self.until_s is not None:
            within_s = min(within_s, self.until_s - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.news.wait()
        heard = self.news.is_set()
        self.news.clear()
        return Heard.END if self.has_ended else Heard.NEWS if heard else Heard.NOTHING


class Streams:
    """All streams of this process. However many there are, the database is asked once a round.

    A stream ends when its key does, when its customer's token does (the client comes back with a
    new one), when there is nothing more to tell, and when the process is about to stop.
    """

    def __init__(
        self,
        *,
        database: Database,
        keys: ApiKeys,
        closing: asyncio.Event,
        poll_s: float,
        most: int,
        keep_alive_s: float = KEEP_ALIVE_S,
        send_s: float = SEND_S,
    ) -> None:
        self._database = database
        self._keys = keys
        self._closing = closing
        self._poll_s = poll_s
        self._most = most
        self.keep_alive_s = keep_alive_s
        self.send_s = send_s
        self._open: set[Watch] = set()
        self._opening = 0  # which are looked up and not open yet
        self._poked = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None

    async def open(self, story: Story, caller: Caller) -> Response:
        """The stream, its first events looked up already; 204 when there will never be any.

        Raises:
            ProblemError: too many are open, or the process is about to stop.
            InvalidInput, NotFound: as the story's first look.
        """
        if len(self._open) + self._opening >= self._most or self._closing.is_set():
            raise ProblemError(
                503,
                "TOO_MANY_STREAMS",
                f"{self._most} streams are open, or this process is about to stop",
                headers={"Retry-After": "5"},
            )
        ends = caller.acting.until if caller.acting else None
        left_s = None if ends is None else (ends - datetime.now(UTC)).total_seconds()
        until_s = None if left_s is None else time.monotonic() + left_s
        watch = Watch(story, key_id=caller.key.id, until_s=until_s)
        self._opening += 1  # between this look and `add` nothing else runs
        try:
            told = await self.look(watch)
        finally:
            self._opening -= 1
        if told.is_over and not told.events:
            return Response(status_code=204)  # which tells a client not to come back
        return EventStream(self, watch, told)

    async def look(self, watch: Watch) -> Told:
        """What is new to this stream.

        Raises:
            DatabaseUnavailable: nothing is lost; look again.
        """
        watch.mark = None  # should this fail, it is woken again
        told = await self._database.read(watch.story.look)
        watch.mark = told.mark
        return told

    def poke(self) -> None:
        """There may be news; do not wait for the next round."""
        self._poked.set()

    def add(self, watch: Watch) -> None:
        self._open.add(watch)
        if self._poller is None or self._poller.done():
            # Of no request: in its log none of them is named.
            self._poller = asyncio.create_task(self._poll(), context=Context())

    def remove(self, watch: Watch) -> None:
        self._open.discard(watch)
        if not self._open and self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _poll(self) -> None:
        """Runs while a stream is open."""
        failed = 0
        while not self._closing.is_set():
            pause_s = self._poll_s if not failed else min(2.0**failed, LONGEST_PAUSE_S)
            await until(self._closing, self._poked, within_s=pause_s)
            self._poked.clear()
            try:
                await self._round()
                failed = 0
            except Exception as error:  # noqa: BLE001 - the next round may succeed
                failed += 1
                if failed == 1:
                    tell(error, "streams.look_failed", open=len(self._open))
            await until(self._closing, within_s=min(SOONEST_S, self._poll_s))
        for watch in tuple(self._open):
            watch.end()

    async def _round(self) -> None:
        watches = tuple(self._open)
        ids: Mapping[Kind, set[str]] = {
            kind: {watch.story.id for watch in watches if watch.story.kind == kind}
            for kind in ("run", "conversation")
        }
        keys = {watch.key_id for watch in watches}
        marks, good = await self._database.read(lambda tx: self._read(tx, ids, keys))
        for watch in watches:
            if watch.key_id not in good:
                watch.end()
            elif marks[watch.story.kind].get(watch.story.id) != watch.mark:
                watch.news.set()

    def _read(
        self, tx: Transaction, ids: Mapping[Kind, set[str]], keys: Collection[str]
    ) -> tuple[Mapping[Kind, Mapping[str, Mark]], Collection[str]]:
        marks: Mapping[Kind, Mapping[str, Mark]] = {
            "run": tx.runs.progress(ids["run"]),
            "conversation": tx.conversations.progress(ids["conversation"]),
        }
        return marks, self._keys.good(tx, keys)


class EventStream(Response):
    """Sends a story as it unfolds. It waits for a slow reader, but not for ever."""

    media_type = MEDIA_TYPE

    def __init__(self, streams: Streams, watch: Watch, first: Told) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(
            {
                "Content-Type": f"{MEDIA_TYPE}; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # a proxy that collects would hold events back
            }
        )
        self._streams = streams
        self._watch = watch
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.add(self._watch)
        gone = asyncio.create_task(self._wait_until_gone(receive))
        try:
            start: Message = {"type": "http.response.start", "status": 200}
            await self._send(send, {**start, "headers": self.raw_headers})
            async for chunk in self._chunks():
                await self._send(send, _body(chunk, more=True))
            await self._send(send, _body(b"", more=False))
        except TimeoutError:
            log.info("stream.reader_too_slow", of=self._watch.story.id)
        finally:
            gone.cancel()
            self._streams.remove(self._watch)

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield HELLO
        told: Told | None = self._first
        while True:
            for event in told.events if told else ():
                yield event.encoded()
            if told is not None and told.is_over:
                return
            goes_on = told is not None and told.more and not self._watch.has_ended
            heard = Heard.NEWS if goes_on else await self._watch.wait(self._streams.keep_alive_s)
            match heard:
                case Heard.END:
                    return
                case Heard.NOTHING:
                    told = None
                    yield ALIVE
                case Heard.NEWS:
                    told = await self._look()

    async def _look(self) -> Told | None:
        try:
            return await self._streams.look(self._watch)
        except DatabaseUnavailable:
            return None  # the poller wakes it as soon as the database is there
        except SupportAgentError as problem:  # gone, or not to be read by this program
            log.warning("stream.broken_off", of=self._watch.story.id, problem=str(problem))
            self._watch.end()
            return None

    async def _send(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._streams.send_s):
            await send(message)

    async def _wait_until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._watch.end()


def _body(chunk: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": more}

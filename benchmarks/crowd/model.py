"""The model server of the crowd: `python -m benchmarks.crowd.model --latency 0.2` prints its port.

A reply is a function of the request alone, so that any worker may ask, and ask again. It ends with
its input and says then how often it was asked, and how often with the very same body.
"""

import argparse
import asyncio
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.crowd.talk import YES
from support_agent.testing.model_server import answer, calls

ANSWER = "Trả lời"  # notices that code adds do not begin so
MARK = re.compile(r"m\d+t\d+p\d+")
_ORDER = re.compile(r"\bB\d{5}\b")
_QUOTE = re.compile(r'"quote_id": ?"(\w+)"')
_USAGE = {"prompt_tokens": 800, "completion_tokens": 30, "total_tokens": 830}
Messages = Sequence[dict[str, Any]]


def reply(messages: Messages) -> bytes:
    """What the last message asks for: a tool first, then an answer with the marks it answers."""
    last = messages[-1]
    call = _call(messages) if last["role"] == "user" else None
    if call is not None:
        return calls(call, usage=_USAGE).body
    marks = MARK.findall("\n".join(_asked(messages)))
    return answer(f"{ANSWER} {' '.join(marks)}".strip(), usage=_USAGE).body


def _asked(messages: Messages) -> list[str]:
    """The customer's messages since the last answer."""
    asked: list[str] = []
    for message in reversed(messages):
        if message["role"] == "assistant" and ANSWER in (message["content"] or ""):
            break
        if message["role"] == "user":
            asked.insert(0, message["content"])
    return asked


def _call(messages: Messages) -> tuple[str, str] | None:
    text = messages[-1]["content"]
    order = _ORDER.search(text)
    if YES in text:
        told = [_QUOTE.search(m["content"]) for m in messages if m["role"] == "tool"]
        return "request_refund", json.dumps({"quote_id": [one[1] for one in told if one][-1]})
    if order and "Hoàn tiền" in text:
        return "quote_refund", json.dumps({"order_id": order[0]})
    if order:
        return "lookup_order", json.dumps({"order_id": order[0]})
    if "Yêu cầu hoàn" in text:
        return "refund_status", "{}"
    if "Chính sách" in text:
        return "refund_policy", "{}"
    return None


class Server:
    """Answers each request after `latency_s`, however many there are at once."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._bodies: Counter[bytes] = Counter()
        self._open = self.most_open = 0

    @property
    def asked(self) -> int:
        return self._bodies.total()

    @property
    def asked_again(self) -> int:
        return self._bodies.total() - len(self._bodies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                writer.write(await self._answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, body: bytes) -> bytes:
        self._bodies[hashlib.blake2b(body, digest_size=16).digest()] += 1
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        try:
            await asyncio.sleep(self._latency_s)
        finally:
            self._open -= 1
        told = reply(json.loads(body)["messages"])
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(told)}"
        return f"{head}\r\n\r\n".encode() + told


async def serve(latency_s: float) -> None:
    server = Server(latency_s)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=2_048)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    counted = {"asked": server.asked, "again": server.asked_again, "most_open": server.most_open}
    print(json.dumps(counted), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--latency", type=float, default=0.2, help="seconds of each answer")
    asyncio.run(serve(options.parse_args().latency))


if __name__ == "__main__":
    main()

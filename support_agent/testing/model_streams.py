"""Completions as a server streams them: events with deltas, those of several calls interleaved."""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from support_agent.testing.model_server import ServerReply

Event = Mapping[str, Any] | str | bytes

_DONE = "[DONE]"
_PIECE = 7  # characters: no word, number or escape of a test fits into one delta


def events(*sent: Event, done: bool = True) -> ServerReply:
    """A stream of documents; a text becomes the data of an event, bytes are sent as they are."""
    chunks = [_chunk(event) for event in (*sent, *((_DONE,) if done else ()))]
    return ServerReply(chunks=tuple(chunks), content_type="text/event-stream")


def streamed(reply: ServerReply, *, done: bool = True) -> ServerReply:
    """What a server streams in place of a whole completion: usage comes last, without a choice."""
    return events(*_deltas(json.loads(reply.body)), done=done)


def _chunk(event: Event) -> bytes:
    if isinstance(event, bytes):
        return event
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
    return f"data: {data}\n\n".encode()


def _deltas(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    (choice,) = document["choices"]
    message = choice["message"]
    yield delta({"role": "assistant", "content": None})
    for name in ("content", "refusal"):
        for piece in _pieces(message.get(name) or ""):
            yield delta({name: piece})
    calls = message.get("tool_calls") or ()
    for index, call in enumerate(calls):
        function = {**call["function"], "arguments": ""}
        yield delta({"tool_calls": [{**call, "index": index, "function": function}]})
    for turn in zip_longest(*(_pieces(call["function"]["arguments"]) for call in calls)):
        for index, piece in enumerate(turn):
            if piece is not None:
                entry = {"index": index, "function": {"arguments": piece}}
                yield delta({"tool_calls": [entry]})
    yield delta({}, finish_reason=choice["finish_reason"])
    if "usage" in document:
        yield {"object": "chat.completion.chunk", "choices": [], "usage": document["usage"]}


def delta(change: Mapping[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    """One event's document about the only choice."""
    choice = {"index": 0, "delta": change, "finish_reason": finish_reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]

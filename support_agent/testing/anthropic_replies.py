"""What a server of the Messages API answers, for `ModelServer`: messages, blocks, failures."""

import json
from collections.abc import Mapping
from typing import Any

from support_agent.testing.model_server import ServerReply
from support_agent.testing.script import ScriptedAnswer, ScriptedCalls, ScriptedFailure, ScriptLine

Block = dict[str, Any]


def message(
    *content: Block, stop: str | None = None, usage: Mapping[str, int] | None = None
) -> ServerReply:
    """A message around any blocks, odd ones included; `stop` is told from them by default."""
    asks = any(block.get("type") == "tool_use" for block in content)
    document: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(content),
        "stop_reason": stop or ("tool_use" if asks else "end_turn"),
        "stop_sequence": None,
    }
    if usage is not None:
        document["usage"] = usage
    return ServerReply(body=json.dumps(document, ensure_ascii=False).encode())


def says(text: str) -> Block:
    """Words for the customer."""
    return {"type": "text", "text": text}


def thinks(thinking: str, signature: str = "EqQBCkYIBxgCKkA=") -> Block:
    """Signed thinking."""
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def thinks_unseen(data: str = "EmwKAhgBEgy3va3pzix/LafPsn4a=") -> Block:
    """Thinking that only the provider can read."""
    return {"type": "redacted_thinking", "data": data}


def asks(tool: str, arguments: object, *, call_id: str | None = "toolu_0") -> Block:
    """A call of a tool; without an id where it is None."""
    block = {"type": "tool_use", "name": tool, "input": arguments}
    return block if call_id is None else block | {"id": call_id}


def failed(status: int, kind: str = "", words: str = "scripted", **headers: str) -> ServerReply:
    """An error status; `retry_after="2"` becomes the header Retry-After."""
    body = {"type": "error", "error": {"type": kind or None, "message": words}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ServerReply(status=status, body=json.dumps(body).encode(), headers=named)


def on_the_wire(line: ScriptLine) -> ServerReply:
    """What such a server sends for a scripted line."""
    if line.delay_s:
        return ServerReply(fault="hang")
    usage = {"input_tokens": line.usage.input_tokens, "output_tokens": line.usage.output_tokens}
    match line.move:
        case ScriptedAnswer(text=text):
            return message(says(text), usage=usage)
        case ScriptedCalls(calls=calls):
            thought = [says(line.thought)] if line.thought else []
            blocks = [
                # The API's own servers send an object; text is what a compatible one may send.
                asks(call.tool, call.arguments if call.raw is None else call.raw, call_id=f"t_{n}")
                for n, call in enumerate(calls)
            ]
            return message(*thought, *blocks, usage=usage)
        case ScriptedFailure(kind="503"):
            return failed(503, "api_error")
        case ScriptedFailure(kind="timeout"):
            return ServerReply(fault="hang")
        case _:
            return ServerReply(body=b"<html>garbage</html>")

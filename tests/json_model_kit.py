"""The JSON adapter, and what servers with and without schemas answer it, to a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support_agent.adapters.models.json_model import JsonModel
from support_agent.testing import model_server
from support_agent.testing.model_contract import Lines, OpenedModel
from support_agent.testing.model_server import ModelServer, ServerReply
from support_agent.testing.script import (
    ScriptedAnswer,
    ScriptedCall,
    ScriptedCalls,
    ScriptedFailure,
    ScriptedQuestion,
    ScriptLine,
    script_line,
)


def json_model_at(base_url: str | None, **settings: Any) -> JsonModel:
    return JsonModel(
        base_url=base_url, **({"name": "test-model", "api_key": None, "timeout_s": 30} | settings)
    )


@asynccontextmanager
async def json_served(
    *replies: ServerReply, **settings: Any
) -> AsyncIterator[tuple[JsonModel, ModelServer]]:
    """A model and the server behind it, which sends `replies` in order."""
    with ModelServer(replies) as server:
        model = json_model_at(server.base_url, **settings)
        yield model, server
        await model.aclose()


@asynccontextmanager
async def open_json(lines: Lines) -> AsyncIterator[OpenedModel]:
    """The adapter under the contract of every model."""
    replies = [written_out(script_line(number, line)) for number, line in enumerate(lines, 1)]
    async with json_served(*replies, timeout_s=3600) as (model, server):
        yield OpenedModel(
            model=model,
            asked=lambda count: asyncio.to_thread(server.wait_for_requests, count),
            bodies=lambda: [request.body for request in server.requests],
        )


def written_out(line: ScriptLine) -> ServerReply:
    """What a server sends whose model keeps to the protocol."""
    if line.delay_s or line.move == ScriptedFailure(kind="timeout"):
        return ServerReply(fault="hang")
    usage = {
        "prompt_tokens": line.usage.input_tokens,
        "completion_tokens": line.usage.output_tokens,
    }
    thought = {"thought": line.thought} if line.thought else {}
    match line.move:
        case ScriptedCalls(calls=calls):
            return _said((_call(call) | thought for call in calls), usage)
        case ScriptedAnswer(text=text):
            return _said([thought | {"type": "final", "answer": text}], usage)
        case ScriptedQuestion(text=text):
            return _said([thought | {"type": "ask", "question": text}], usage)
        case ScriptedFailure(kind="503"):
            return model_server.failure(503)
        case _:
            return ServerReply(body=b"<html>garbage</html>")


def _said(steps: Iterable[Mapping[str, Any]], usage: Mapping[str, int]) -> ServerReply:
    text = "\n".join(json.dumps(step, ensure_ascii=False) for step in steps)
    return model_server.answer(text, usage=usage)


def _call(call: ScriptedCall) -> dict[str, Any]:
    arguments = dict(call.arguments) if call.raw is None else call.raw
    return {"type": "tool", "tool": call.tool, "arguments": arguments}

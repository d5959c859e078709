"""The ChatModel contract over every adapter, and over adapters broken on purpose."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from support_agent.adapters.models.openai import OpenAIModel
from support_agent.adapters.models.scripted import ScriptFileModel
from support_agent.domain.errors import ModelReplyInvalid
from support_agent.domain.runs import CallTools, FinalAnswer, Usage
from support_agent.ports.model import Correction, ModelReply
from support_agent.testing import model_server
from support_agent.testing.model_contract import (
    GENERAL_CHECKS,
    SCRIPTED_CHECKS,
    OpenedModel,
    open_scripted,
)
from support_agent.testing.model_server import ModelServer, ServerReply
from support_agent.testing.model_streams import streamed
from support_agent.testing.script import (
    ScriptedAnswer,
    ScriptedCalls,
    ScriptedFailure,
    ScriptLine,
    script_line,
)
from tests.anthropic_kit import open_anthropic
from tests.json_model_kit import open_json


def on_the_wire(line: ScriptLine) -> ServerReply:
    """What a server sends for a scripted line."""
    if line.delay_s:
        return ServerReply(fault="hang")
    usage = {
        "prompt_tokens": line.usage.input_tokens,
        "completion_tokens": line.usage.output_tokens,
    }
    match line.move:
        case ScriptedAnswer(text=text):
            return model_server.answer(text, usage=usage)
        case ScriptedCalls(calls=calls):
            texts = [
                call.raw if call.raw is not None else json.dumps(call.arguments) for call in calls
            ]
            pairs = zip((call.tool for call in calls), texts, strict=True)
            return model_server.calls(*pairs, content=line.thought or None, usage=usage)
        case ScriptedFailure(kind="503"):
            return model_server.failure(503)
        case ScriptedFailure(kind="timeout"):
            return ServerReply(fault="hang")
        case _:
            return ServerReply(body=b"<html>garbage</html>")


@asynccontextmanager
async def open_openai(lines, *, transport="aiohttp", stream=False):
    replies = [on_the_wire(script_line(number, line)) for number, line in enumerate(lines, 1)]
    if stream:
        replies = [in_events(reply) for reply in replies]
    with ModelServer(replies) as server:
        model = OpenAIModel(
            name="m",
            base_url=server.base_url,
            api_key=None,
            timeout_s=3600,
            transport=transport,
            stream=stream,
        )
        yield OpenedModel(
            model=model,
            asked=lambda count: asyncio.to_thread(server.wait_for_requests, count),
            bodies=lambda: [request.body for request in server.requests],
        )
        await model.aclose()


def open_openai_httpx2(lines):
    return open_openai(lines, transport="httpx2")


def open_openai_streaming(lines):
    return open_openai(lines, stream=True)


def in_events(reply):
    """The same completion as a stream; what is none stays as it is."""
    return streamed(reply) if b'"choices"' in reply.body else reply


@pytest.fixture
def open_script_file(tmp_path):
    @asynccontextmanager
    async def open_model(lines):
        path = tmp_path / "script.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        async with open_scripted(lines) as watched:
            model = ScriptFileModel(path=path)
            # The file's own model is out of sight; a task that runs has called it at once.
            yield replace(watched, model=model, asked=lambda _: asyncio.sleep(0))
            await model.aclose()

    return open_model


def name(check):
    return check.__name__


EVERY_CHECK = (*GENERAL_CHECKS, *SCRIPTED_CHECKS)


@pytest.mark.parametrize("check", EVERY_CHECK, ids=name)
@pytest.mark.parametrize(
    "open_model",
    [
        open_scripted,
        open_openai,
        open_openai_httpx2,
        open_openai_streaming,
        open_anthropic,
        open_json,
    ],
    ids=name,
)
async def test_the_adapter_keeps_the_contract(open_model, check):
    await check(open_model)


@pytest.mark.parametrize("check", EVERY_CHECK, ids=name)
async def test_the_script_file_keeps_the_contract(open_script_file, check):
    await check(open_script_file)


class Broken:
    """A scripted model with one fault put around it."""

    def __init__(self, model):
        self.model = model

    async def decide(self, request):
        return await self.model.decide(request)

    async def aclose(self):
        await self.model.aclose()


class ChangesCalls(Broken):
    def change(self, calls):
        raise AssertionError("a subclass changes the calls")

    async def decide(self, request):
        reply = await self.model.decide(request)
        if not isinstance(reply.decision, CallTools):
            return reply
        calls = tuple(self.change(reply.decision.calls))
        return replace(reply, decision=replace(reply.decision, calls=calls))


class UsesTheProvidersIds(ChangesCalls):
    def change(self, calls):
        return (replace(call, id=call.provider_id) for call in calls)


class RepeatsProviderIds(ChangesCalls):
    def change(self, calls):
        return (replace(call, provider_id="call_0") for call in calls)


class ReversesCalls(ChangesCalls):
    def change(self, calls):
        names = [(call.name, call.arguments) for call in reversed(calls)]
        pairs = zip(calls, names, strict=True)
        return (replace(call, name=tool, arguments=text) for call, (tool, text) in pairs)


class DropsArguments(ChangesCalls):
    def change(self, calls):
        return (replace(call, arguments="{}") for call in calls)


class TidiesArguments(ChangesCalls):
    def change(self, calls):
        for call in calls:
            try:
                yield replace(call, arguments=json.dumps(json.loads(call.arguments)))
            except ValueError:
                yield call


class NumbersCallsOverTheConversation(Broken):
    calls_made = 0

    async def decide(self, request):
        self.calls_made += 1
        return await self.model.decide(replace(request, step=self.calls_made))


class EscapesText(Broken):
    async def decide(self, request):
        reply = await self.model.decide(request)
        if isinstance(reply.decision, FinalAnswer):
            escaped = reply.decision.text.encode("unicode_escape").decode()
            return replace(reply, decision=FinalAnswer(text=escaped))
        return reply


class LosesUsage(Broken):
    async def decide(self, request):
        return replace(await self.model.decide(request), usage=Usage(requests=1))


class ChokesOnCorrections(Broken):
    async def decide(self, request):
        if any(isinstance(turn, Correction) for turn in request.turns):
            raise KeyError("role")
        return await self.model.decide(request)


class ReadsForeignState(Broken):
    async def decide(self, request):
        for turn in request.turns:
            if getattr(turn, "provider_state", ""):
                json.loads(turn.provider_state)
        return await self.model.decide(request)


class KnowsOneLimit(Broken):
    async def decide(self, request):
        assert request.max_output_tokens is None
        return await self.model.decide(request)


class ClosesOnce(Broken):
    closed = False

    async def aclose(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class RaisesItsOwnErrors(Broken):
    async def decide(self, request):
        try:
            return await self.model.decide(request)
        except Exception as error:
            raise ConnectionError("the vendor's own error") from error


class CallsOutagesInvalid(Broken):
    async def decide(self, request):
        try:
            return await self.model.decide(request)
        except Exception as error:
            raise ModelReplyInvalid("nothing came") from error


class AnswersOnGarbage(Broken):
    async def decide(self, request):
        try:
            return await self.model.decide(request)
        except ModelReplyInvalid:
            return ModelReply(decision=FinalAnswer(text="<html>"), usage=Usage(requests=1))


class SwallowsCancellation(Broken):
    async def decide(self, request):
        try:
            return await self.model.decide(request)
        except asyncio.CancelledError:
            return FinalAnswer(text="")


class StaysBusyAfterCancellation(Broken):
    busy = False

    async def decide(self, request):
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        reply = await self.model.decide(request)
        self.busy = False
        return reply


CAUGHT_BY: dict[type[Broken], str] = {
    UsesTheProvidersIds: "call_ids_are_ours",
    DropsArguments: "calls_name_a_tool_of_the_request",
    NumbersCallsOverTheConversation: "nothing_is_remembered",
    ChokesOnCorrections: "a_history_is_accepted",
    ReadsForeignState: "state_is_read_by_its_maker_only",
    KnowsOneLimit: "the_output_limit_is_kept",
    ClosesOnce: "closing_twice_is_harmless",
    ReversesCalls: "the_order_of_calls_is_kept",
    RepeatsProviderIds: "the_order_of_calls_is_kept",
    TidiesArguments: "arguments_pass_as_they_are",
    EscapesText: "text_is_unicode_both_ways",
    LosesUsage: "thought_and_usage_are_reported",
    RaisesItsOwnErrors: "a_failing_server_is_unavailable",
    CallsOutagesInvalid: "a_silent_server_is_unavailable",
    AnswersOnGarbage: "garbage_is_an_invalid_reply",
    StaysBusyAfterCancellation: "a_cancelled_call_leaves_the_model_usable",
    SwallowsCancellation: "a_cancelled_call_leaves_the_model_usable",
}


def name_or_text(item):
    return item if isinstance(item, str) else name(item)


def opener_of(broken):
    @asynccontextmanager
    async def open_model(lines):
        async with open_scripted(lines) as opened:
            yield replace(opened, model=broken(opened.model))

    return open_model


@pytest.mark.parametrize(("broken", "check"), CAUGHT_BY.items(), ids=name_or_text)
async def test_a_broken_adapter_is_caught(broken, check):
    checks: dict[str, object] = {name(each): each for each in EVERY_CHECK}

    with pytest.raises(AssertionError):
        await checks[check](opener_of(broken))


async def test_a_sound_wrapper_is_not_taken_for_a_broken_adapter():
    for check in EVERY_CHECK:
        await check(opener_of(Broken))


def test_every_check_has_an_adapter_that_it_catches():
    def names(checks: Iterable) -> set[str]:
        return {name(check) for check in checks}

    assert set(CAUGHT_BY.values()) == names(EVERY_CHECK)


async def test_a_body_with_escapes_is_caught():
    @asynccontextmanager
    async def open_model(lines):
        async with open_scripted(lines) as opened:
            escaped = json.dumps({"content": "Áo dài của tôi đâu? 🧵"}).encode()
            yield replace(opened, bodies=lambda: [escaped])

    checks = {name(check): check for check in EVERY_CHECK}
    with pytest.raises(AssertionError, match="UTF-8"):
        await checks["text_is_unicode_both_ways"](open_model)

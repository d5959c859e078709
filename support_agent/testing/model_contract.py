"""What every `ChatModel` must do, as checks that run over any adapter.

A check opens the model with a script and raises AssertionError when an invariant is broken.
`GENERAL_CHECKS` fit any model that answers "look order A100 up" with a call; their scripts ask
for just that, and a model with rules of its own may ignore them. `SCRIPTED_CHECKS` need a model,
or a server behind it, that answers to the script: lines as `ScriptedModel` takes them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, TypeVar

from support_agent.domain.errors import ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import CallTools, FinalAnswer, ToolCall
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    ChatModel,
    Correction,
    CustomerTurn,
    ModelReply,
    ModelRequest,
    Recap,
    ToolResult,
    ToolSpec,
    Turn,
)
from support_agent.testing.scripted import ScriptedModel

_E = TypeVar("_E", bound=Exception)
Lines = Sequence[Mapping[str, Any]]

_TODAY = date(2026, 10, 13)
_QUESTION = CustomerTurn(text="Cho tôi xem đơn hàng A100", today=_TODAY)
_LOOK_UP: Mapping[str, Any] = {"tool": "lookup_order", "arguments": {"order_id": "A100"}}
_FEW_TOKENS = 7
_FOREIGN_STATE = '["left by another model'
_NEVER_S = 3600
_PATIENCE_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """A model under test.

    `bodies` are the request bodies it has sent, empty for a model without a wire; `asked` returns
    once that many calls are under way.
    """

    model: ChatModel
    asked: Callable[[int], Awaitable[None]]
    bodies: Callable[[], Sequence[bytes]] = tuple


OpenModel = Callable[[Lines], AbstractAsyncContextManager[OpenedModel]]
Check = Callable[[OpenModel], Awaitable[None]]


@asynccontextmanager
async def open_scripted(lines: Lines) -> AsyncIterator[OpenedModel]:
    """`ScriptedModel` under the contract."""
    model = ScriptedModel(lines)

    async def asked(count: int) -> None:
        for _ in range(1000):
            if len(model.requests) >= count:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(model.requests)} calls came, not {count}")

    yield OpenedModel(model=model, asked=asked)
    await model.aclose()


def contract_request(*turns: Turn, call_index: int = 0, timeout_s: float = 30) -> ModelRequest:
    """A request with one tool; without `turns` the customer asks for order A100."""
    return ModelRequest(
        conversation_id="cv_1",
        run_id="rn_1",
        step=call_index + 1,
        system="Bạn là nhân viên chăm sóc khách hàng.",
        tools=(
            ToolSpec(
                name="lookup_order",
                description="Tra cứu một đơn hàng theo mã.",
                parameters={
                    "type": "object",
                    "properties": {"order_id": {"type": "string"}},
                    "required": ["order_id"],
                    "additionalProperties": False,
                },
            ),
        ),
        turns=turns or (_QUESTION,),
        timeout_s=timeout_s,
        call_index=call_index,
    )


async def call_ids_are_ours(open_model: OpenModel) -> None:
    """`run_id:step:index`, whatever the provider calls them."""
    async with open_model([_LOOK_UP, _LOOK_UP]) as opened:
        for index in range(2):
            decision = await _calls(opened, contract_request(call_index=index))
            ids = [call.id for call in decision.calls]
            wanted = [f"rn_1:{index + 1}:{position}" for position in range(len(ids))]
            _expect(ids == wanted, f"call ids are {ids}, not {wanted}")


async def calls_name_a_tool_of_the_request(open_model: OpenModel) -> None:
    """The sample request leads to a lookup of A100."""
    async with open_model([_LOOK_UP]) as opened:
        decision = await _calls(opened, contract_request())
        names = [call.name for call in decision.calls]
        _expect(names == ["lookup_order"], f"{names} were called, not lookup_order")
        _expect("A100" in decision.calls[0].arguments, "the order id is not in the arguments")


async def nothing_is_remembered(open_model: OpenModel) -> None:
    """Another conversation in between changes nothing."""
    async with open_model([_LOOK_UP] * 3) as opened:
        first = await _reply(opened.model, contract_request())
        other = contract_request(
            CustomerTurn(text="Tình trạng đơn B777 thế nào?", today=_TODAY), call_index=1
        )
        await _reply(opened.model, replace(other, conversation_id="cv_2"))
        again = await _reply(opened.model, replace(contract_request(), call_index=2))
        _expect(first.decision == again.decision, "the same request was decided in another way")
        sent = opened.bodies()
        _expect(not sent or sent[0] == sent[2], "the same request was sent in another form")


async def a_history_is_accepted(open_model: OpenModel) -> None:
    """Turns of every kind, a malformed call and its ERROR among them."""
    async with open_model([_LOOK_UP]) as opened:
        await _reply(opened.model, contract_request(*_history()))


async def state_is_read_by_its_maker_only(open_model: OpenModel) -> None:
    """A model takes back what it gave, and passes over what another one left."""
    async with open_model([_LOOK_UP, _LOOK_UP, _LOOK_UP]) as opened:
        decision = await _calls(opened, contract_request())
        for index, state in enumerate((decision.provider_state, _FOREIGN_STATE), start=1):
            made = AssistantCalls(calls=decision.calls, provider_state=state)
            results = [ToolResult(call=call, content="{}") for call in decision.calls]
            again = contract_request(_QUESTION, made, *results, call_index=index)
            await _reply(opened.model, again)
        last = b"".join(opened.bodies()[-1:])
        _expect(_FOREIGN_STATE.encode() not in last, "another model's state was sent")


async def the_output_limit_is_kept(open_model: OpenModel) -> None:
    """What the budget leaves is the most that may be written."""
    async with open_model([_LOOK_UP]) as opened:
        await _reply(opened.model, replace(contract_request(), max_output_tokens=_FEW_TOKENS))
        for body in opened.bodies():
            fields = json.loads(body)
            limits = {key: fields[key] for key in fields if key.startswith("max_")}
            _expect(limits, "no limit was sent")
            _expect(set(limits.values()) == {_FEW_TOKENS}, f"the limit was sent as {limits}")


async def closing_twice_is_harmless(open_model: OpenModel) -> None:
    """As is closing once more after use."""
    async with open_model([_LOOK_UP]) as opened:
        await _reply(opened.model, contract_request())
        try:
            await opened.model.aclose()
            await opened.model.aclose()
        except Exception as error:
            raise AssertionError(f"closing twice raised {error!r}") from error


async def the_order_of_calls_is_kept(open_model: OpenModel) -> None:
    """Also when one name comes twice; provider ids tell the calls apart."""
    wanted = [("lookup_order", "A100"), ("refund_policy", ""), ("lookup_order", "A101")]
    line = {"calls": [{"tool": tool, "arguments": {"order_id": order}} for tool, order in wanted]}
    async with open_model([line]) as opened:
        decision = await _calls(opened, contract_request())
        names = [call.name for call in decision.calls]
        _expect(names == [tool for tool, _ in wanted], f"the calls came as {names}")
        for call, (_, order) in zip(decision.calls, wanted, strict=True):
            _expect(f'"{order}"' in call.arguments, f"call {call.id} has another's arguments")
        provider_ids = {call.provider_id for call in decision.calls}
        _expect(
            len(provider_ids) == len(wanted) and all(provider_ids), "provider ids are not one each"
        )


async def arguments_pass_as_they_are(open_model: OpenModel) -> None:
    """Neither repaired nor reformatted, not even when they are no JSON."""
    texts: tuple[str, ...] = (
        '{"order_id":',
        "",
        "null",
        "[]",
        '  {"b" : 1,\n "a": "Áo dài"}  ',
        '"{\\"order_id\\": \\"A100\\"}"',
        '{"a": 1, "a": 2}',
        '{"name": "\\u00c1o"}',
    )
    entries = [{"tool": "lookup_order", "raw_arguments": text} for text in texts]
    line: Mapping[str, Any] = {"calls": entries}
    async with open_model([line]) as opened:
        decision = await _calls(opened, contract_request())
        got = [call.arguments for call in decision.calls]
        _expect(got == list(texts), f"arguments came as {got}")


async def text_is_unicode_both_ways(open_model: OpenModel) -> None:
    """UTF-8 on the wire, never backslash-u; composed and beyond the basic plane alike."""
    said = "Đơn của anh/chị được hoàn 250.000\u00a0₫ 🎉"
    asked = "Áo dài của tôi đâu? 🧵"
    async with open_model([{"answer": said}]) as opened:
        reply = await _reply(opened.model, contract_request(CustomerTurn(text=asked, today=_TODAY)))
        _expect(reply.decision == FinalAnswer(text=said), f"the answer came as {reply.decision!r}")
        for body in opened.bodies():
            _expect(asked.encode() in body, "the customer's text is not in the body as UTF-8")
            _expect(b"\\u" not in body, "the body holds escaped characters")


async def thought_and_usage_are_reported(open_model: OpenModel) -> None:
    """What the model said beside a call, and the tokens the server counted."""
    usage = {"input_tokens": 70, "output_tokens": 9}
    async with open_model([{**_LOOK_UP, "thought": "Cần xem đơn.", "usage": usage}]) as opened:
        reply = await _reply(opened.model, contract_request())
        counted = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        _expect(counted == (1, 70, 9), f"the usage is {reply.usage}")
        _expect(reply.decision.thought == "Cần xem đơn.", "the thought is lost")


async def a_failing_server_is_unavailable(open_model: OpenModel) -> None:
    """And may be asked again; the attempt is counted."""
    async with open_model([{"error": "503"}, {"answer": "Dạ"}]) as opened:
        error = await _raises(ModelUnavailable, opened.model, contract_request())
        _expect(error.may_pass, "it is not to be asked again")
        _expect(error.usage.requests >= 1, f"the attempt is counted as {error.usage}")
        await _answers(opened.model, contract_request(call_index=1))


async def a_silent_server_is_unavailable(open_model: OpenModel) -> None:
    """And may be asked again; what was sent over a wire may have to be paid."""
    async with open_model([{"error": "timeout"}, {"answer": "Dạ"}]) as opened:
        error = await _raises(ModelUnavailable, opened.model, contract_request(timeout_s=0.2))
        _expect(error.may_pass, "it is not to be asked again")
        _expect(error.usage.requests >= 1, f"the attempt is counted as {error.usage}")
        paid = error.usage.input_tokens > 0
        _expect(paid or not opened.bodies(), "the tokens that were sent are not counted")
        await _answers(opened.model, contract_request(call_index=1))


async def garbage_is_an_invalid_reply(open_model: OpenModel) -> None:
    """And may be followed by a good one."""
    async with open_model([{"error": "garbage"}, {"answer": "Dạ"}]) as opened:
        await _raises(ModelReplyInvalid, opened.model, contract_request())
        await _answers(opened.model, contract_request(call_index=1))


async def a_cancelled_call_leaves_the_model_usable(open_model: OpenModel) -> None:
    """The cancellation comes through, and the next call is answered."""
    lines: Lines = [{"answer": "Quá muộn", "delay_s": _NEVER_S}, {"answer": "Dạ"}]
    async with open_model(lines) as opened:
        hanging = asyncio.create_task(opened.model.decide(contract_request(timeout_s=_NEVER_S)))
        await opened.asked(1)
        hanging.cancel()
        await asyncio.wait([hanging], timeout=_PATIENCE_S)
        _expect(hanging.cancelled(), "the cancellation was swallowed")
        await _answers(opened.model, contract_request(call_index=1))


GENERAL_CHECKS: tuple[Check, ...] = (
    call_ids_are_ours,
    calls_name_a_tool_of_the_request,
    nothing_is_remembered,
    a_history_is_accepted,
    state_is_read_by_its_maker_only,
    the_output_limit_is_kept,
    closing_twice_is_harmless,
)
SCRIPTED_CHECKS: tuple[Check, ...] = (
    the_order_of_calls_is_kept,
    arguments_pass_as_they_are,
    text_is_unicode_both_ways,
    thought_and_usage_are_reported,
    a_failing_server_is_unavailable,
    a_silent_server_is_unavailable,
    garbage_is_an_invalid_reply,
    a_cancelled_call_leaves_the_model_usable,
)


def _history() -> tuple[Turn, ...]:
    good = ToolCall(
        id="rn_0:1:0", provider_id="p1", name="lookup_order", arguments='{"order_id":"A100"}'
    )
    bad = ToolCall(id="rn_0:1:1", provider_id="p2", name="look up", arguments='{"order_id":')
    return (
        Recap(facts='{"orders":["A099"]}', summary="Khách đã hỏi về đơn A099."),
        _QUESTION,
        AssistantCalls(calls=(good, bad), thought="Xem đơn."),
        ToolResult(call=good, content='{"order_id":"A100","status":"DELIVERED"}'),
        ToolResult(call=bad, content="ERROR UNKNOWN_TOOL: there is no tool 'look up'"),
        Correction(text="Câu trả lời trước không dùng được."),
        AssistantTurn(text="Đơn A100 đã giao."),
        AssistantTurn(text="Yêu cầu hoàn tiền đã được duyệt."),
        CustomerTurn(text="Cho tôi xem lại đơn A100", today=_TODAY),
    )


async def _reply(model: ChatModel, request: ModelRequest) -> ModelReply:
    try:
        return await asyncio.wait_for(model.decide(request), _PATIENCE_S)
    except Exception as error:
        raise AssertionError(f"a decision was due, but {error!r} was raised") from error


async def _calls(opened: OpenedModel, request: ModelRequest) -> CallTools:
    decision = (await _reply(opened.model, request)).decision
    if isinstance(decision, CallTools):
        return decision
    raise AssertionError(f"the decision is {decision!r}, no call of a tool")


async def _answers(model: ChatModel, request: ModelRequest) -> None:
    reply = await _reply(model, request)
    _expect(reply.decision == FinalAnswer(text="Dạ"), f"the next call got {reply.decision!r}")


async def _raises(wanted: type[_E], model: ChatModel, request: ModelRequest) -> _E:
    try:
        reply = await asyncio.wait_for(model.decide(request), _PATIENCE_S)
    except wanted as error:
        return error
    except Exception as error:
        raise AssertionError(f"{error!r} was raised, not {wanted.__name__}") from error
    raise AssertionError(f"{reply.decision!r} was returned, {wanted.__name__} was due")


def _expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)

"""The scripted model: what a line may hold, placeholders, and what is left over."""

import asyncio
import json
from datetime import date

import pytest

from support_agent.adapters.models.scripted import SETTING, ScriptFileModel
from support_agent.domain.errors import ConfigurationError, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import AskCustomer, CallTools, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import AssistantCalls, CustomerTurn, ModelRequest, ToolResult
from support_agent.testing import ScriptedModel
from support_agent.testing.placeholders import UnresolvedPlaceholder
from support_agent.testing.scripted import UnconsumedModelSteps, UnexpectedModelCall


def request(call_index=0, *, turns=(), step=1, conversation_id="cv_1"):
    return ModelRequest(
        conversation_id=conversation_id,
        run_id="rn_1",
        step=step,
        system="",
        tools=(),
        turns=turns or (CustomerTurn(text="Xin chào", today=date(2026, 10, 13)),),
        timeout_s=30,
        call_index=call_index,
    )


def observed(*observations):
    """Turns in which each (tool, content) was called and answered."""
    turns = []
    for index, (tool, content) in enumerate(observations):
        call = ToolCall(id=f"rn_0:{index}:0", provider_id="p", name=tool, arguments="{}")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        turns += [AssistantCalls(calls=(call,)), ToolResult(call=call, content=text)]
    return tuple(turns)


async def decision(line, *, turns=()):
    return (await ScriptedModel([line]).decide(request(turns=turns))).decision


async def arguments(line, *, turns=()):
    return [call.arguments for call in (await decision(line, turns=turns)).calls]


async def test_a_tool_line_is_a_call_with_our_id():
    line = {"tool": "lookup_order", "arguments": {"order_id": "A100"}, "thought": "Xem đơn."}

    assert await decision(line) == CallTools(
        calls=(
            ToolCall(
                id="rn_1:1:0",
                provider_id="call_rn_1:1:0",
                name="lookup_order",
                arguments='{"order_id":"A100"}',
            ),
        ),
        thought="Xem đơn.",
    )


async def test_answers_and_questions_are_told_apart():
    assert await decision({"answer": "Dạ"}) == FinalAnswer(text="Dạ")
    assert await decision({"ask": "Mã đơn?"}) == AskCustomer(question="Mã đơn?")


async def test_a_call_without_arguments_has_an_empty_object():
    assert await arguments({"tool": "refund_policy"}) == ["{}"]


async def test_raw_arguments_are_sent_as_they_are():
    lines = {"calls": [{"tool": "a", "raw_arguments": '{"x":'}, {"tool": "b", "raw_arguments": ""}]}

    assert await arguments(lines) == ['{"x":', ""]


async def test_usage_defaults_to_one_request_without_tokens():
    reply = await ScriptedModel([{"answer": "Dạ"}]).decide(request())

    assert reply.usage == Usage(requests=1)


async def test_usage_of_a_line_is_reported_with_its_cost():
    usage = {"input_tokens": 7, "output_tokens": 3, "cost_micros": 11}
    reply = await ScriptedModel([{"answer": "Dạ", "usage": usage}]).decide(request())

    assert reply.usage == Usage(requests=1, input_tokens=7, output_tokens=3, cost_micros=11)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("timeout", ModelUnavailable), ("503", ModelUnavailable), ("garbage", ModelReplyInvalid)],
)
async def test_an_error_line_raises(kind, error):
    with pytest.raises(error):
        await ScriptedModel([{"error": kind}]).decide(request())


async def test_garbage_costs_what_the_line_says():
    line = {"error": "garbage", "usage": {"output_tokens": 600}}

    with pytest.raises(ModelReplyInvalid) as caught:
        await ScriptedModel([line]).decide(request())

    assert caught.value.usage == Usage(requests=1, output_tokens=600)


async def test_a_delay_can_be_cut_by_the_caller():
    model = ScriptedModel([{"answer": "Quá muộn", "delay_s": 3600}])

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await model.decide(request())


async def test_the_line_follows_the_call_index_and_not_the_number_of_requests():
    model = ScriptedModel([{"answer": "một"}, {"answer": "hai"}])

    replies = [await model.decide(request(index)) for index in (1, 0, 1)]

    assert [reply.decision.text for reply in replies] == ["hai", "một", "hai"]


async def test_two_conversations_each_start_at_the_first_line():
    model = ScriptedModel([{"answer": "một"}, {"answer": "hai"}])

    await model.decide(request(0, conversation_id="cv_1"))
    reply = await model.decide(request(0, conversation_id="cv_2"))

    assert reply.decision == FinalAnswer(text="một")


class TestPlaceholders:
    QUOTE = ("quote_refund", {"quote_id": "qt_7", "amount": 250000, "note": "Áo dài"})
    ORDERS = ("list_orders", {"orders": [{"order_id": "A100"}, {"order_id": "A101"}]})

    @pytest.mark.parametrize(
        ("argument", "filled"),
        [
            ("{{quote_refund.quote_id}}", "qt_7"),
            ("{{ quote_refund.quote_id }}", "qt_7"),
            ("{{quote_refund.amount}}", 250000),
            ("{{list_orders.orders.1.order_id}}", "A101"),
            ("{{list_orders.orders}}", [{"order_id": "A100"}, {"order_id": "A101"}]),
            ("mã {{quote_refund.quote_id}} / {{quote_refund.amount}}", "mã qt_7 / 250000"),
            ({"deep": ["{{quote_refund.note}}", 3]}, {"deep": ["Áo dài", 3]}),
            ("{not a placeholder}", "{not a placeholder}"),
        ],
    )
    async def test_an_argument_is_filled(self, argument, filled):
        line = {"tool": "t", "arguments": {"x": argument}}

        (text,) = await arguments(line, turns=observed(self.QUOTE, self.ORDERS))

        assert json.loads(text) == {"x": filled}

    async def test_arguments_stay_unescaped(self):
        line = {"tool": "t", "arguments": {"x": "{{quote_refund.note}}"}}

        assert await arguments(line, turns=observed(self.QUOTE)) == ['{"x":"Áo dài"}']

    async def test_an_answer_and_a_question_are_filled(self):
        turns = observed(self.QUOTE)

        answer = await decision({"answer": "Hoàn {{quote_refund.amount}}"}, turns=turns)
        question = await decision({"ask": "Nhận {{quote_refund.quote_id}}?"}, turns=turns)

        assert answer == FinalAnswer(text="Hoàn 250000")
        assert question == AskCustomer(question="Nhận qt_7?")

    async def test_raw_arguments_are_filled_and_other_braces_left_alone(self):
        line = {"tool": "t", "raw_arguments": '{"q":"{{quote_refund.quote_id}}","x":{{'}

        assert await arguments(line, turns=observed(self.QUOTE)) == ['{"q":"qt_7","x":{{']

    async def test_the_last_observation_of_the_tool_counts(self):
        turns = observed(self.QUOTE, ("quote_refund", {"quote_id": "qt_8"}), self.ORDERS)
        line = {"tool": "t", "arguments": {"x": "{{quote_refund.quote_id}}"}}

        assert await arguments(line, turns=turns) == ['{"x":"qt_8"}']

    @pytest.mark.parametrize(
        "turns",
        [
            (),
            observed(("lookup_order", {"quote_id": "qt_7"})),
            observed(("quote_refund", {"amount": 1})),
            observed(("quote_refund", {"quote_id": "qt_7"}), ("quote_refund", "ERROR REFUSED: no")),
            observed(("quote_refund", ["qt_7"])),
            observed(("quote_refund", "null")),
        ],
        ids=["never called", "another tool", "no field", "last is an error", "a list", "null"],
    )
    async def test_a_missing_field_is_named(self, turns):
        line = {"tool": "t", "arguments": {"x": "{{quote_refund.quote_id}}"}}

        with pytest.raises(UnresolvedPlaceholder, match=r"quote_refund\.quote_id"):
            await decision(line, turns=turns)


class TestLeftovers:
    async def test_a_call_past_the_end_names_its_number_and_the_length(self):
        model = ScriptedModel([{"answer": "một"}])

        with pytest.raises(UnexpectedModelCall, match=r"call 2 .* has 1 line"):
            await model.decide(request(1))

    async def test_unused_lines_are_named(self):
        model = ScriptedModel([{"answer": "một"}, {"answer": "hai"}, {"tool": "refund_policy"}])
        await model.decide(request(0))

        with pytest.raises(
            UnconsumedModelSteps, match=r"2 line.*line 2.*hai.*line 3.*refund_policy"
        ):
            model.assert_complete()

    async def test_a_script_used_to_its_end_is_complete(self):
        model = ScriptedModel([{"answer": "một"}, {"error": "503"}])
        await model.decide(request(0))
        with pytest.raises(ModelUnavailable):
            await model.decide(request(1))

        model.assert_complete()

    async def test_requests_are_kept_for_assertions(self):
        model = ScriptedModel([{"answer": "một"}])
        asked = request(0)
        await model.decide(asked)

        assert model.requests == (asked,)


BAD_LINES = [
    ([], "a line must be a JSON object, not list"),
    ("answer", "a line must be a JSON object, not str"),
    ({}, "it has none of them"),
    ({"thought": "?"}, "it has none of them"),
    ({"answer": "a", "ask": "b"}, "it has answer, ask"),
    ({"tool": "t", "answer": "b"}, "it has tool, answer"),
    ({"tool": "t", "argument": {}}, "unknown key 'argument'"),
    ({"answer": "a", "arguments": {}}, "unknown key 'arguments'"),
    ({"answer": "a", 3: "b"}, "unknown key '3'"),
    ({"tool": ""}, "tool must not be empty"),
    ({"tool": 3}, "tool must be a string, not int"),
    ({"tool": "t", "arguments": "{}"}, "arguments must be a JSON object, not str"),
    ({"tool": "t", "arguments": None}, "arguments must be a JSON object, not NoneType"),
    ({"tool": "t", "arguments": {}, "raw_arguments": ""}, "not both"),
    ({"tool": "t", "raw_arguments": {}}, "raw_arguments must be a string, not dict"),
    ({"calls": []}, "at least one call"),
    ({"calls": {"tool": "t"}}, "at least one call"),
    ({"calls": ["t"]}, "a call must be a JSON object, not str"),
    ({"calls": [{"arguments": {}}]}, "a call needs a tool"),
    ({"calls": [{"tool": "t", "delay_s": 1}]}, "unknown key 'delay_s'"),
    ({"answer": ""}, "answer must not be empty"),
    ({"answer": None}, "answer must be a string, not NoneType"),
    ({"ask": " "}, "ask must not be empty"),
    ({"error": "500"}, "error must be one of timeout, 503, garbage, not '500'"),
    ({"error": 503}, "error must be one of timeout, 503, garbage, not 503"),
    ({"error": ["503"]}, "error must be one of"),
    ({"answer": "a", "thought": 1}, "thought must be a string"),
    ({"answer": "a", "usage": 3}, "usage must be a JSON object"),
    ({"answer": "a", "usage": {"tokens": 3}}, "unknown key 'tokens'"),
    ({"answer": "a", "usage": {"input_tokens": -1}}, "usage.input_tokens must be a whole number"),
    ({"answer": "a", "usage": {"input_tokens": True}}, "usage.input_tokens must be a whole number"),
    ({"answer": "a", "usage": {"output_tokens": 1.5}}, "usage.output_tokens must be"),
    ({"answer": "a", "delay_s": "1"}, "delay_s must be a number of seconds"),
    ({"answer": "a", "delay_s": True}, "delay_s must be a number of seconds"),
    ({"answer": "a", "delay_s": -1}, "delay_s must be a number of seconds from 0"),
    ({"answer": "a", "delay_s": float("inf")}, "delay_s must be a number of seconds from 0"),
    ({"answer": "a", "delay_s": float("nan")}, "delay_s must be a number of seconds from 0"),
    ({"answer": "{{quote_refund}}"}, "'{{quote_refund}}' is no placeholder"),
    ({"tool": "t", "arguments": {"x": ["{{a.b}} {{}}"]}}, "'{{}}' is no placeholder"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_LINES, ids=lambda item: str(item)[:40])
def test_a_bad_line_is_refused_with_its_number(line, problem):
    with pytest.raises(ConfigurationError) as caught:
        ScriptedModel([{"answer": "Dạ"}, line])

    assert str(caught.value).startswith("line 2: ")
    assert problem in str(caught.value)


class TestScriptFile:
    def write(self, tmp_path, text):
        path = tmp_path / "script.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    async def test_each_line_answers_a_call(self, tmp_path):
        text = '{"tool":"t"}\n\n{"answer":"Dạ vâng"}\r\n'
        model = ScriptFileModel(path=self.write(tmp_path, text))

        reply = await model.decide(request(1))

        assert reply.decision == FinalAnswer(text="Dạ vâng")

    async def test_a_line_separator_inside_a_string_does_not_end_the_line(self, tmp_path):
        model = ScriptFileModel(path=self.write(tmp_path, '{"answer":"a\u2028b"}'))

        assert (await model.decide(request())).decision == FinalAnswer(text="a\u2028b")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "has no lines"),
            (" \n\n", "has no lines"),
            ('{"answer":"a"}\n{"answer":', "line 2, column 11: not JSON"),
            ('{"answer":"a"}\n\n["b"]', "line 3: a line must be a JSON object"),
            ('{"answr":"a"}', "line 1: needs exactly one of"),
            ("[" * 100_000, "line 1: not JSON that can be read"),
            (b'{"answer":"\xff"}', "is not UTF-8 text"),
        ],
    )
    def test_a_malformed_file_is_refused_at_construction(self, tmp_path, text, problem):
        with pytest.raises(ConfigurationError) as caught:
            ScriptFileModel(path=self.write(tmp_path, text))

        assert problem in str(caught.value)
        assert "script.jsonl" in str(caught.value)
        assert caught.value.setting == SETTING

    @pytest.mark.parametrize("path", ["missing.jsonl", "."])
    def test_a_file_that_cannot_be_read_is_refused(self, tmp_path, path):
        with pytest.raises(ConfigurationError, match=f"{SETTING}: cannot read"):
            ScriptFileModel(path=tmp_path / path)

    async def test_the_end_of_the_script_is_a_model_without_an_answer(self, tmp_path):
        model = ScriptFileModel(path=self.write(tmp_path, '{"answer":"a"}'))

        with pytest.raises(ModelUnavailable, match=r"script\.jsonl' is at its end: model call 2"):
            await model.decide(request(1))

    async def test_an_unresolved_placeholder_is_the_operators_to_mend(self, tmp_path):
        model = ScriptFileModel(path=self.write(tmp_path, '{"answer":"{{t.id}}"}'))

        with pytest.raises(ConfigurationError, match=r"'t' has answered nothing so far") as caught:
            await model.decide(request())

        assert caught.value.setting == SETTING

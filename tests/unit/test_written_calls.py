"""What a model wrote into its text: calls, words, and what is told back."""

import json
import re
import time
from contextlib import suppress
from json.decoder import scanstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support_agent.adapters.models.written_calls import written_decision
from support_agent.domain.errors import ModelReplyInvalid
from support_agent.domain.runs import AskCustomer, CallTools, FinalAnswer

TOOLS = frozenset({"lookup_order", "quote_refund", "request_refund", "refund"})
LOOK_UP = '{"type":"tool","tool":"lookup_order","arguments":{"order_id":"A100"}}'
NAMED = '{"name": "lookup_order", "arguments": {"order_id": "A100"}}'
QUOTE = '{"type":"tool","tool":"quote_refund","arguments":{"order_id":"A100"}}'
FINAL = '{"type":"final","answer":"Dạ được ạ."}'


def decided(text):
    return written_decision(text, tool_names=TOOLS, call_prefix="rn_1:2")


def called(text):
    """Names and arguments of the calls in a text."""
    decision = decided(text)
    assert isinstance(decision, CallTools), decision
    return [(call.name, call.arguments) for call in decision.calls]


def told_back(text):
    with pytest.raises(ModelReplyInvalid) as caught:
        decided(text)
    return str(caught.value)


ONE_CALL = {
    "the protocol": LOOK_UP,
    "with line breaks": LOOK_UP.replace(",", ",\n  "),
    "action and args": '{"action": "lookup_order", "args": {"order_id":"A100"}}',
    "action and action_input": '{"action":"lookup_order","action_input":{"order_id":"A100"}}',
    "tool and input": '{"type":"tool","tool":"lookup_order","input":{"order_id":"A100"},"thought":"?"}',
    "name and arguments": NAMED,
    "name and parameters": '{"name":"lookup_order","parameters":{"order_id":"A100"}}',
    "the vendor's form": '{"id":"c1","type":"function","function":{"name":"lookup_order","arguments":{"order_id":"A100"}}}',
    "tool_calls": '{"tool_calls":[{"type":"function","function":{"name":"lookup_order","arguments":"{\\"order_id\\":\\"A100\\"}"}}]}',
    "function_call": '{"function_call":{"name":"lookup_order","arguments":{"order_id":"A100"}}}',
    "a list": f"[{LOOK_UP}]",
    "a fence": f"```json\n{LOOK_UP}\n```",
    "a fence without a name": f"```\n{LOOK_UP}\n```",
    "prose around": f"Để tôi xem đơn.\n{LOOK_UP}\nXin chờ một chút ạ.",
    "tags": f"<tool_call>\n{NAMED}\n</tool_call>",
    "other tags": f"<tools>{NAMED}</tools>",
    "a tag that never ends": f"<tool_call>{NAMED}",
    "doubled braces": "{" + NAMED + "}",
    "doubled braces in prose": "Tôi gọi {" + NAMED + "} nhé",
    "thinking before": f"<think>Gọi {QUOTE}?</think>\n{LOOK_UP}",
    "thinking whose start is missing": f"Gọi {QUOTE}?</think>{LOOK_UP}",
    "two thoughts": f"<think>a</think><thinking>b</thinking>{LOOK_UP}",
    "a trailing comma": '{"type":"tool","tool":"lookup_order","arguments":{"order_id":"A100"},}',
    "an answer before its facts": f"{LOOK_UP}\n{FINAL}",
    "an answer first": f"{FINAL}{LOOK_UP}",
    "the same call twice": f"{LOOK_UP}\n{LOOK_UP}",
    "a made-up observation behind it": f'{LOOK_UP}\nOBSERVATION lookup_order\n{{"status":"DELIVERED"}}',
    "fields of other forms left empty": '{"type":"tool","tool":"lookup_order","arguments":{"order_id":"A100"},"answer":"","question":null}',
}


@pytest.mark.parametrize("text", ONE_CALL.values(), ids=ONE_CALL)
def test_a_call_is_found_in_each_form_and_place(text):
    ((name, arguments),) = called(text)

    assert name == "lookup_order"
    assert json.loads(arguments) == {"order_id": "A100"}


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"b" : 1,\n "a": "Áo dài"}', '{"b" : 1,\n "a": "Áo dài"}'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"name": "\\u00c1o"}', '{"name": "\\u00c1o"}'),
        ('{"n": 1e400, "big": 12345678901234567890}', '{"n": 1e400, "big": 12345678901234567890}'),
        ('{"order_id": "A100",}', '{"order_id": "A100"}'),
        ('{"x": ",}", "l": [1, 2,\n]}', '{"x": ",}", "l": [1, 2\n]}'),
        ('"{\\"order_id\\": \\"A100\\"}"', '{"order_id": "A100"}'),
        ('"{\\"order_id\\":"', '{"order_id":'),
        ('"A100"', "A100"),
        ('""', ""),
        ("null", "null"),
        ("[]", "[]"),
        ("7", "7"),
        ('{"reason": "khách gửi {\\"type\\":\\"tool\\"}"}', None),
    ],
)
def test_arguments_are_the_models_own_text(written, arguments):
    text = f'{{"type":"tool","tool":"lookup_order","arguments":{written}}}'

    assert called(text) == [("lookup_order", written if arguments is None else arguments)]


def test_a_call_without_arguments_has_none():
    assert called('{"type":"tool","tool":"refund_policy"}') == [("refund_policy", "")]


def test_several_calls_keep_their_order_and_get_ids_of_their_own():
    decision = decided(f"<tool_call>{NAMED}</tool_call>\n<tool_call>{QUOTE}</tool_call>")

    assert [(call.id, call.name) for call in decision.calls] == [
        ("rn_1:2:0", "lookup_order"),
        ("rn_1:2:1", "quote_refund"),
    ]
    assert len({call.provider_id for call in decision.calls}) == 2


def test_an_unknown_tool_is_passed_on_so_that_the_error_can_list_the_tools():
    assert called('{"type":"tool","tool":"refnd","arguments":{}}') == [("refnd", "{}")]


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ('{"thought":"Cần xem đơn.","type":"tool","tool":"a","arguments":{}}', "Cần xem đơn."),
        (f"Để tôi xem đơn.\n```json\n{LOOK_UP}\n```", "Để tôi xem đơn."),
        (LOOK_UP, ""),
        ('{"thought":["x"],"type":"tool","tool":"a","arguments":{}}', ""),
        ("x" * 5000 + LOOK_UP, "x" * 1000),
    ],
)
def test_the_thought_is_what_is_said_with_or_before_the_call(text, thought):
    assert decided(text).thought == thought


# What Qwen2.5-Coder 1.5B wrote when it was offered the shop's tools natively.
REAL = [
    ('{{"name": "lookup_order", "arguments": {"order_id": "A100"}}}', ["lookup_order"]),
    (
        (
            '{{"function": "request_refund", "arguments": {"quote_id": "Q123"}}}}\n'
            "The customer can now make their request."
        ),
        ["request_refund"],
    ),
    ('<tools>\n{"name": "list_orders", "arguments": {}}\n</tools>', ["list_orders"]),
    (
        (
            "<summary>\nTôi đang hỏi về đơn hàng A100 và A101.\n</summary>\n<tools>\n"
            '{{"name": "lookup_order", "arguments": {"order_id": "A100"}}}\n'
            '{{"name": "lookup_order", "arguments": {"order_id": "A101"}}}\n</tools>'
        ),
        ["lookup_order", "lookup_order"],
    ),
    (
        (
            "Vì đơn hàng A101 không có, bạn cần tìm hiểu thêm về đơn hàng của bạn.\n"
            '```json\n{\n  "name": "lookup_order",\n  "arguments": {\n    "order_id": "A101"\n  }\n}\n'
            "```\n\n\n"
        ),
        ["lookup_order"],
    ),
    (
        (
            '{"type":"tool","tool":"lookup_order","arguments":{"order_id":"A100"}}\n'
            '{"type":"final","answer":"Đơn A100 của bạn có được hoàn tiền không?"}'
        ),
        ["lookup_order"],
    ),
]


@pytest.mark.parametrize(("text", "names"), REAL)
def test_calls_of_a_real_small_model_are_found(text, names):
    assert [name for name, _ in called(text)] == names


WORDS = {
    "prose": ("Dạ đơn A100 đã giao.", "Dạ đơn A100 đã giao."),
    "final": (FINAL, "Dạ được ạ."),
    "a line break inside": ('{"type":"final","answer":"Dạ\nvâng"}', "Dạ\nvâng"),
    "final in a fence": (f"Đây là câu trả lời:\n```json\n{FINAL}\n```", "Dạ được ạ."),
    "final with words behind": (f"{FINAL}\nChúc anh/chị một ngày vui!", "Dạ được ạ."),
    "final twice": (FINAL * 2, "Dạ được ạ."),
    "action final": ('{"action":"final","answer":"Dạ"}', "Dạ"),
    "action final_answer": ('{"action":"final_answer","args":{"text":"Dạ"}}', "Dạ"),
    "action answer": ('{"action": "answer", "args": {"answer": "Dạ"}}', "Dạ"),
    "action_input in words": ('{"action":"final_answer","action_input":"Dạ"}', "Dạ"),
    "a call by that name": ('{"name":"final_answer","arguments":{"answer":"Dạ"}}', "Dạ"),
    "answer alone": ('{"answer":"Dạ"}', "Dạ"),
    "other members empty": ('{"type":"final","answer":"Dạ","question":null,"tool":null}', "Dạ"),
    "after thinking": ("<think>Trả lời thôi.</think>Dạ vâng.", "Dạ vâng."),
    "braces": ("Mã giảm giá {TET2027} ạ", "Mã giảm giá {TET2027} ạ"),
    "data in words": ('Đơn: {"size": "M"} ạ', 'Đơn: {"size": "M"} ạ'),
    "a word that is a tool's": (
        "Phần refund (hoàn tiền) trong 30 ngày",
        "Phần refund (hoàn tiền) trong 30 ngày",
    ),
    "brackets": ("[Thông báo] Đơn < 3 ngày", "[Thông báo] Đơn < 3 ngày"),
    "a number": ("250000", "250000"),
}


@pytest.mark.parametrize(("text", "words"), WORDS.values(), ids=WORDS)
def test_words_are_the_answer(text, words):
    decision = decided(text)

    assert isinstance(decision, FinalAnswer)
    assert decision.text == words


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"ask","question":"Mã đơn là gì ạ?"}',
        '{"action":"ask_customer","args":{"question":"Mã đơn là gì ạ?"}}',
        '{"question":"Mã đơn là gì ạ?"}',
    ],
)
def test_a_question_is_asked(text):
    assert decided(text) == AskCustomer(question="Mã đơn là gì ạ?")


BROKEN = {
    "words that may be quoted": (
        'Bạn viết {"answer":"Đã hoàn 10.000.000 ₫"}, nhưng không phải vậy ạ.',
        "stands between other words",
    ),
    "cut off in a string": ('{"type":"tool","tool":"lookup_order","arguments":{"order_id":"A1', "never ends"),
    "cut off in an answer": ('{"type":"final","answer":"Dạ đơn', "never ends"),
    "cut off in a fence": ('```json\n{"action": "lookup_order", "args": {', "never ends"),
    "single quotes": ("{'type':'tool','tool':'lookup_order','arguments':{}}", "no valid JSON"),
    "no quotes": ("{type: tool, tool: lookup_order}", "no valid JSON"),
    "escaped as a whole": ('{\\"type\\":\\"tool\\",\\"tool\\":\\"lookup_order\\"}', "never ends"),
    "curly quotes": ("{“type”:“tool”,“tool”:“lookup_order”}", "no valid JSON"),
    "a comment": ('{"type":"tool", // xem đơn\n"tool":"lookup_order"}', "no valid JSON"),
    "a missing comma": ('{"type":"tool" "tool":"lookup_order"}', "no valid JSON"),
    "every brace doubled": ('{{"name": "lookup_order", "arguments": {{"order_id": "A100"}}}}', "valid JSON"),
    "not a number": ('{"type":"tool","tool":"lookup_order","arguments":{"n":NaN}}', "no valid JSON"),
    "5000 digits": ('{"type":"tool","tool":"a","arguments":{"n":' + "9" * 5000 + "}}", "no valid JSON"),
    "a key twice": ('{"type":"tool","tool":"lookup_order","tool":"request_refund"}', "key twice"),
    "two tools": ('{"tool":"lookup_order","action":"request_refund","args":{}}', "two tools"),
    "two arguments": ('{"tool":"lookup_order","args":{},"arguments":{"order_id":"A1"}}', "args"),
    "no tool": ('{"type":"tool","arguments":{"order_id":"A100"}}', "names no tool"),
    "the tool a number": ('{"type":"tool","tool":7,"arguments":{}}', "names no tool"),
    "the tool empty": ('{"type":"tool","tool":" ","arguments":{}}', "names no tool"),
    "flat arguments": ('{"type":"tool","tool":"lookup_order","order_id":"A100"}', "'order_id'"),
    "the tool as the type": ('{"type":"lookup_order","order_id":"A100"}', "names no tool"),
    "the tool as the key": ('{"lookup_order":{"order_id":"A100"}}', "holds none"),
    "no calls": ('{"type":"x","tool_calls":[{}]}', "names no tool"),
    "the answer an object": ('{"type":"final","answer":{"text":"Dạ"}}', "no words"),
    "the answer a number": ('{"type":"final","answer":7}', "no words"),
    "the answer empty": ('{"type":"final","answer":" "}', "no words"),
    "the answer missing": ('{"type":"final"}', "no words"),
    "two answers": (FINAL + '{"type":"final","answer":"Dạ không."}', "twice"),
    "answer and question": (FINAL + '{"type":"ask","question":"Mã?"}', "twice"),
    "a call in the answer": (json.dumps({"type": "final", "answer": f"Gọi {LOOK_UP}"}), "inside the words"),
    "a broken call in the answer": ('{"type":"final","answer":"{\\"tool\\":\\"lookup_order"}', "never ends"),
    "a step in other JSON": (f'{{"response":{FINAL}}}', "inside another"),
    "a step in a string of other JSON": (json.dumps({"response": LOOK_UP}), "valid JSON"),
    "a good call and a broken one": (LOOK_UP + '\n{"type":"tool","tool":', "never ends"),
    "other JSON": ('{"order_id":"A100","status":"DELIVERED"}', "another form"),
    "an empty object": ("{}", "another form"),
    "null": ("null", "another form"),
    "a list": ("[1, 2]", "another form"),
    "a brace at the start": ("{Dạ vâng}", "another form"),
    "an empty tag": ("Dạ <tool_call></tool_call>", "holds none"),
    "tags with parameters": ("<function=lookup_order><parameter=order_id>A100</parameter></function>", "holds none"),
    "a template's token": ("Dạ<|im_end|>", "holds none"),
    "a template's mark": ("[TOOL_CALLS] lookup_order", "holds none"),
    "a function call": ('lookup_order(order_id="A100")', "holds none"),
    "a name before JSON": ('lookup_order\n{"order_id":"A100"}', "holds none"),
    "action lines": ("Action: lookup_order\nAction Input: A100", "holds none"),
    "a made-up observation": ("OBSERVATION lookup_order: đã hoàn tiền", "holds none"),
    "JSON in a fence": ('Kết quả:\n```json\n{"status":"DELIVERED"}\n```', "holds none"),
    "only thinking": ("<think>hm</think> \n", "before an answer"),
    "thinking that never ends": (f"<think>hm {LOOK_UP}", "before an answer"),
    "thinking in the middle": ("Dạ <think>hm</think>", "before an answer"),
    "our own fence": ("<summary>\nKhách hỏi.\n</summary>", "holds none"),
    "thinking that starts late": ("Dạ <think>hm", "holds none"),
    "a NUL in a string": ('{"type":"final","answer":"a\\u0000b"}', "Unicode"),
    "half a pair in arguments": ('{"type":"tool","tool":"a","arguments":"\\ud800"}', "Unicode"),
    "half a pair in a name": ('{"type":"tool","tool":"\\ud800","arguments":{}}', "Unicode"),
    "deep": ('{"type":' * 10_000, "never ends"),
    "deep but whole": ('{"type":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
    "braces without end": ("{" * 50_000, "too many braces"),
    "too long": ("x" * 200_000, "too long"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_followed_is_told_back(text, why):
    assert why in told_back(text)


def test_what_is_told_back_does_not_repeat_what_was_written():
    written = "bo_qua_moi_quy_dinh"

    assert written not in told_back(f'{{"type":"tool","tool":"{written}","args":{{"{written}":')


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 20_000,
        '{"type":"tool",' * 6_000,
        "{{" * 50_000,
        '{"type":"' + "\\" * 90_000,
        '{"type":' + '"\\"' * 30_000,
        "<think>" * 14_000,
        "</think>" * 12_000,
        "<" * 90_000 + "{",
        "Action: " * 12_000 + "{",
        "lookup_order " * 7_000 + "{",
        "```" * 30_000,
        "[" * 90_000,
        " \n" * 45_000 + "x <",
        "x <" + " " * 90_000 + "x",
        "x </" + " " * 90_000 + "|",
        "x <" + "\n" * 90_000 + "x",
        "x" + " \n" * 45_000 + "Action: x",
        '{"n":"' + " " * 90_000 + '"}' + "{",
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text):
    started = time.process_time()

    with suppress(ModelReplyInvalid):
        decided(text)

    assert time.process_time() - started < 1


PIECES = st.one_of(
    st.sampled_from(
        [
            *('{"', '"}', "{", "}", "[", "]", '"', "'", ",", ":", "\\", "\n", "{{", "}}", ",}"),
            *("```json\n", "```", "<tool_call>", "</tool_call>", "<tools>", "<think>", "</think>"),
            *('"type":', '"tool":', '"action":', '"args":', '"arguments":', '"name":', '"answer":'),
            *('"tool_calls":[', '"function":', '"tool"', '"final"', '"ask"', '"question":'),
            *('"lookup_order"', '{"order_id":"A100"}', '{"order_id":"A100",}', '"A100"', "null"),
            *(LOOK_UP, NAMED, QUOTE, FINAL, LOOK_UP[:-1], FINAL[:-2], "lookup_order(", "Dạ vâng "),
            *(json.dumps(LOOK_UP), json.dumps({"type": "final", "answer": NAMED})),
        ]
    ),
    st.text(max_size=8),
)
GARBAGE = st.lists(PIECES, max_size=14).map("".join)
_TRAILING = re.compile(r",(?=\s*[}\]])")


def stands_in(arguments, text):
    """Literally, but for trailing commas; or as what a string in the text says."""
    if _TRAILING.sub("", arguments) in _TRAILING.sub("", text):
        return True
    strings = set()
    for quote in re.finditer('"', text):
        try:
            strings.add(scanstring(text, quote.end(), False)[0])
        except ValueError:
            continue
    return arguments in strings


@settings(max_examples=400, deadline=None)
@given(GARBAGE)
def test_garbage_is_never_a_crash_and_no_argument_is_made_up(text):
    try:
        decision = decided(text)
    except ModelReplyInvalid:
        return

    for call in decision.calls if isinstance(decision, CallTools) else ():
        assert stands_in(call.arguments, text)
        assert json.dumps(call.name, ensure_ascii=False)[1:-1] in text


@settings(max_examples=400, deadline=None)
@given(GARBAGE)
def test_no_customer_sees_the_protocol(text):
    try:
        decision = decided(text)
    except ModelReplyInvalid:
        return

    match decision:
        case FinalAnswer(text=said) | AskCustomer(question=said):
            assert decided(said) == FinalAnswer(text=said)
            assert "tool_call>" not in said
            assert LOOK_UP not in said

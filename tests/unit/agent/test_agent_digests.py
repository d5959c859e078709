"""Digests of tool results: short, true, and the same wherever they are made."""

import json

import pytest

from support_agent.agent.cuts import Cut, plan
from support_agent.agent.digests import NEWER_BELOW, Digests, digest
from support_agent.agent.weights import turn_tokens
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import AssistantCalls, ToolResult, Turn

ORDER = {
    "status": "DELIVERED",
    "total": 250_000,
    "order_id": "A100",
    "currency": "VND",
    "lines": [{"line_id": "A100-1", "name": "Áo sơ mi linen", "total": 150_000}],
    "refund": {
        "verdict": "ELIGIBLE",
        "max_refundable": 250_000,
        "codes": ["WITHIN_WINDOW"],
        "reasons": ["Đơn đã giao 12 ngày, còn trong hạn 30 ngày; hạn cuối là 2026-10-31."],
    },
}
QUOTE = {"quote_id": "quo_1", "order_id": "A100", "amount": 250_000, "needs_person": True}
REQUESTS = {"requests": [{"request_id": "req_1", "order_id": "A100", "status": "REFUNDED"}]}

TABLE = [
    (
        ORDER,
        {
            **{key: ORDER[key] for key in ("status", "total", "order_id", "currency")},
            "refund": {
                "verdict": "ELIGIBLE",
                "max_refundable": 250_000,
                "codes": ["WITHIN_WINDOW"],
            },
            "shortened": True,
        },
    ),
    (QUOTE, QUOTE),
    (REQUESTS, REQUESTS),
    ({"requests": []}, {"requests": []}),
    ({"version": 1, "text": "x" * 300}, {"version": 1, "shortened": True}),
    ({"a": {"b": {"c": {"d": 1}}}}, {"a": {}, "shortened": True}),
    ({f"k{n}": n for n in range(99)}, {**{f"k{n}": n for n in range(24)}, "shortened": True}),
    (
        {"orders": [{"order_id": f"A{n}"} for n in range(30)]},
        {"orders": [{"order_id": f"A{n}"} for n in range(10)], "shortened": True},
    ),
]


@pytest.mark.parametrize(("content", "kept"), TABLE)
def test_states_ids_and_amounts_are_kept_and_the_rest_is_said_to_be_missing(content, kept):
    assert json.loads(digest(json.dumps(content, ensure_ascii=False))) == kept


def test_a_refusal_keeps_its_code():
    assert digest("ERROR ORDER_NOT_FOUND: Không có đơn hàng 'A999'.") == "ERROR ORDER_NOT_FOUND"


@pytest.mark.parametrize(
    "content", ["không phải JSON " * 50, "[" * 3000, '"' + "x" * 999 + '"', "{"]
)
def test_what_is_no_object_becomes_short_too(content):
    assert len(digest(content)) <= 120


def asked(run: str, step: int, order_id: str, content: str) -> list[Turn]:
    call = ToolCall(id=f"{run}:{step}:0", provider_id="p", name="lookup_order", arguments=order_id)
    return [AssistantCalls(calls=(call,)), ToolResult(call=call, content=content)]


WHOLE = json.dumps(ORDER, ensure_ascii=False)
SHORT = digest(WHOLE)
REFUSED = "ERROR TOOL_TIMEOUT: the tool took too long and was stopped"


def test_of_equal_calls_the_last_one_keeps_its_facts():
    turns = [*asked("r", 1, "A", WHOLE), *asked("r", 2, "B", WHOLE), *asked("r", 3, "A", WHOLE)]

    assert Digests().among(turns, 0, 6) == {1: NEWER_BELOW, 3: SHORT, 5: SHORT}


def test_a_refused_call_stands_for_nothing():
    turns = [*asked("r", 1, "A", WHOLE), *asked("r", 2, "A", REFUSED)]

    assert Digests().among(turns, 0, 4) == {1: SHORT, 3: "ERROR TOOL_TIMEOUT"}


def test_a_refusal_gives_way_to_the_answer_after_it():
    turns = [*asked("r", 1, "A", REFUSED), *asked("r", 2, "A", WHOLE)]

    assert Digests().among(turns, 0, 4)[1] == NEWER_BELOW


def test_the_step_after_the_cut_stands_for_those_before_it_in_its_own_run_only():
    same = [*asked("r", 1, "A", WHOLE), *asked("r", 2, "A", WHOLE)]
    other = [*asked("r", 1, "A", WHOLE), *asked("s", 1, "A", WHOLE)]

    assert Digests().among(same, 0, 2) == {1: NEWER_BELOW}
    assert Digests().among(other, 0, 2) == {1: SHORT}


def test_what_is_no_shorter_stays():
    turns = asked("r", 1, "A", json.dumps(QUOTE, separators=(",", ":")))

    assert Digests().among(turns, 0, 2) == {}


def test_no_more_is_cut_than_is_needed():
    turns = [turn for n in range(6) for turn in asked("r", n + 1, f"A{n}", WHOLE)]
    weights = [turn_tokens(turn) for turn in turns]
    saved = turn_tokens(turns[1]) - turn_tokens(ToolResult(call=turns[1].call, content=SHORT))

    def planned(target: int) -> tuple[Cut, int]:
        return plan(turns, weights, Cut(), Digests(), starts=[], end=10, target=target, reserve=0)

    total = sum(weights)
    assert planned(total - saved) == (Cut(digested=2), total - saved)
    assert planned(total - saved - 1) == (Cut(digested=4), total - 2 * saved)
    assert planned(0) == (Cut(digested=10), total - 5 * saved)

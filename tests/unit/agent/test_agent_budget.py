"""What a run may spend."""

import time
from collections import Counter
from typing import Any

import pytest

from support_agent.agent.budget import LEAST_OUTPUT_TOKENS, Budget, RunLimits, what_is_asked
from support_agent.domain.prices import Price
from support_agent.domain.runs import StopReason, ToolCall, Usage


def limits(**changed) -> RunLimits:
    values = {
        "max_steps": 8,
        "max_calls_per_step": 8,
        "max_tool_calls": 20,
        "run_seconds": 60.0,
        "tool_seconds": 10.0,
        "max_tokens": 1000,
        "max_cost_micros": None,
        "max_consecutive_errors": 3,
        "max_identical_calls": 3,
    }
    return RunLimits(**(values | changed))


def tool_call(arguments: str, name: str = "lookup_order") -> ToolCall:
    return ToolCall(id="r:1:0", provider_id="p", name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("spent", "changed", "reason"),
    [
        ({}, {}, None),
        ({"steps": 7}, {}, None),
        ({"steps": 8}, {}, StopReason.MAX_STEPS),
        ({"usage": Usage(input_tokens=600, output_tokens=399)}, {}, None),
        ({"usage": Usage(input_tokens=600, output_tokens=400)}, {}, StopReason.TOKEN_BUDGET),
        ({"usage": Usage(cost_micros=10**9)}, {}, None),
        ({"usage": Usage(cost_micros=9)}, {"max_cost_micros": 10}, None),
        ({"usage": Usage(cost_micros=10)}, {"max_cost_micros": 10}, StopReason.COST_BUDGET),
    ],
)
def test_a_limit_is_spent_when_it_is_reached(
    spent: dict[str, Any], changed: dict[str, Any], reason: StopReason | None
):
    # Made here and not in the table: a budget's time runs from its making.
    assert Budget(limits=limits(**changed), **spent).spent() is reason


def test_time_is_spent_when_the_run_has_had_its_seconds():
    budget = Budget(limits=limits(), started=time.monotonic() - 61)

    assert budget.spent() is StopReason.DEADLINE


def test_nothing_may_take_longer_than_what_is_left():
    fresh = Budget(limits=limits())
    late = Budget(limits=limits(), started=time.monotonic() - 55)
    over = Budget(limits=limits(), started=time.monotonic() - 1000)

    assert 59 < fresh.model_timeout() <= 60
    assert fresh.tool_timeout() == 10.0
    assert 0 < late.model_timeout() <= 5
    assert 0 < late.tool_timeout() <= 5
    assert (over.model_timeout(), over.tool_timeout()) == (0.0, 0.0)


def test_only_errors_in_a_row_stop():
    budget = Budget(limits=limits())
    results = [budget.note_result(ok=ok) for ok in (False, False, True, False, False, False)]

    assert results == [None, None, None, None, None, StopReason.REPEATED_ERRORS]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":2}', ' { "b" : 2, "a" : 1 } ', True),
        ("", "{}", True),
        ('{"order_id":"A100"}', '{"order_id":"\\u0041100"}', True),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":1}', '{"a":"1"}', False),
        ('{"a":', '{"a":', True),
        ('{"a":', '{"a": ', False),
        ("[" * 10_000, "[" * 10_000, True),
    ],
)
def test_two_calls_are_the_same_when_they_ask_the_same(one: str, other: str, *, same: bool):
    assert (what_is_asked(tool_call(one)) == what_is_asked(tool_call(other))) is same


def test_the_same_arguments_for_another_tool_are_another_call():
    assert what_is_asked(tool_call("{}")) != what_is_asked(tool_call("{}", "list_orders"))


def test_the_third_identical_call_stops_and_earlier_ones_are_counted():
    call = tool_call('{"order_id":"A100"}')
    budget = Budget(limits=limits(), calls=Counter({what_is_asked(call): 1}))

    assert budget.note_call(call) is None
    assert budget.note_call(tool_call('{"order_id":"A101"}')) is None
    assert budget.note_call(call) is StopReason.NO_PROGRESS


@pytest.mark.parametrize(
    ("used", "input_tokens", "room"),
    [
        (Usage(), 200, 800),
        (Usage(input_tokens=500, output_tokens=100), 200, 200),
        (Usage(input_tokens=600), 400 - LEAST_OUTPUT_TOKENS, LEAST_OUTPUT_TOKENS),
        (Usage(input_tokens=600), 401 - LEAST_OUTPUT_TOKENS, StopReason.TOKEN_BUDGET),
        (Usage(input_tokens=1500), 0, StopReason.TOKEN_BUDGET),
    ],
)
def test_an_answer_may_have_what_the_request_leaves(used: Usage, input_tokens: int, room: object):
    assert Budget(limits=limits(), usage=used).output_room(input_tokens, None) == room


@pytest.mark.parametrize(
    ("cap", "input_tokens", "room"),
    [
        (None, 100, 900),
        (1_000, 100, 450),  # 100 for the input; 2 for each token out
        (10_000, 100, 900),  # the tokens are the nearer limit
        (100 + 2 * LEAST_OUTPUT_TOKENS, 100, LEAST_OUTPUT_TOKENS),
        (99 + 2 * LEAST_OUTPUT_TOKENS, 100, StopReason.COST_BUDGET),
        (99, 100, StopReason.COST_BUDGET),
    ],
)
def test_an_answer_costs_no_more_than_what_is_left(
    cap: int | None, input_tokens: int, room: object
):
    price = Price(input=1_000_000, output=2_000_000)
    budget = Budget(limits=limits(max_cost_micros=cap))

    assert budget.output_room(input_tokens, price) == room


@pytest.mark.parametrize(
    ("price", "cost", "input_tokens"),
    [
        (Price(input=150_000, output=600_000), 7, 11),
        (Price(input=3, output=7), 1, 1),
        (Price(input=0, output=999_999), 3, 10**6),
    ],
)
def test_the_output_that_is_paid_for_is_the_most_that_fits(
    price: Price, cost: int, input_tokens: int
):
    most = price.output_tokens(cost, input_tokens)

    assert price.cost_micros(input_tokens, most) <= cost
    assert price.cost_micros(input_tokens, most + 1) > cost


@pytest.mark.parametrize(("cost", "pays"), [(5, True), (4, False)])
def test_output_that_is_free_is_paid_for_once_the_input_is(cost: int, *, pays: bool):
    free = Price(input=1_000_000, output=0)

    assert (free.output_tokens(cost, 5) >= 1_000_000) is pays


def test_calls_that_were_executed_are_counted_against_their_own_limit():
    budget = Budget(limits=limits(max_tool_calls=2), tool_calls=1)

    assert budget.no_more_calls() is None
    budget.tool_calls += 1
    assert budget.no_more_calls() is StopReason.MAX_STEPS

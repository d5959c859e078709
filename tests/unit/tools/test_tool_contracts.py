"""What every tool of the shop promises to a model: names, schemas, effects, strictness."""

import json
from enum import StrEnum

import pytest
from pydantic import ValidationError

from support_agent.agent.arguments import MOST_FIELDS, parse_arguments, schema_of
from support_agent.agent.tool_runner import ToolRunner, observed, refused
from support_agent.container import MONEY_TOOLS
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    ConfigurationError,
    InvalidArguments,
    OrderNotFound,
    RefundRefused,
)
from support_agent.domain.reasons import Reason
from support_agent.ports.tool import Arguments, Effect, ToolOutput
from support_agent.tools.cancel_refund import CancelRefund
from support_agent.tools.hand_off import HandOff
from support_agent.tools.list_orders import ListOrders
from support_agent.tools.lookup_order import LookupOrder
from support_agent.tools.quote_refund import QuoteRefund
from support_agent.tools.refund_policy import RefundPolicy
from support_agent.tools.refund_status import RefundStatus
from support_agent.tools.request_refund import RequestRefund

TOOLS = {
    LookupOrder: Effect.READ,
    ListOrders: Effect.READ,
    RefundPolicy: Effect.READ,
    RefundStatus: Effect.READ,
    QuoteRefund: Effect.WRITE,
    CancelRefund: Effect.WRITE,
    HandOff: Effect.WRITE,
    RequestRefund: Effect.MONEY,
}
tools = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


@tools
def test_only_the_refund_service_moves_money(tool):
    assert tool.effect is TOOLS[tool]
    assert (tool.effect is Effect.MONEY) == (tool.name in MONEY_TOOLS)


@tools
def test_only_a_person_may_be_asked_for_without_a_verified_identity(tool):
    assert tool.assurance is (Assurance.NONE if tool is HandOff else Assurance.VERIFIED)


@tools
def test_no_tool_takes_who_is_asking_or_what_was_decided_from_the_model(tool):
    fields = set(tool.arguments.model_fields)
    forbidden = {"customer_id", "conversation_id", "approved", "approver", "operator", "now"}

    assert fields.isdisjoint(forbidden)


@tools
def test_every_schema_is_closed_json_without_titles_and_references(tool):
    schema = schema_of(tool.arguments)

    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not [key for key in keys_of(schema) if key in {"title", "$ref", "$defs"}]
    assert json.loads(json.dumps(schema)) == schema


def keys_of(value: object):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys_of(item)
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)


class Tree(Arguments):
    left: "Tree | None" = None


def test_arguments_that_hold_themselves_are_refused():
    with pytest.raises(ConfigurationError, match="Tree"):
        schema_of(Tree)


@tools
def test_a_description_is_short_and_in_both_languages(tool):
    assert 40 < len(tool.description) < 500
    assert any(ord(char) > 0x7F for char in tool.description)


def test_filing_takes_a_quote_and_nothing_else():
    assert set(RequestRefund.arguments.model_fields) == {"quote_id"}


class Size(StrEnum):
    S = "s"


class Everything(Arguments):
    count: int = 0
    flag: bool = False
    text: str = ""
    size: Size | None = None
    parts: tuple[int, ...] = ()


@pytest.mark.parametrize(
    "text",
    ['{"count":"1"}', '{"count":true}', '{"count":1.0}', '{"count":1e3}', '{"flag":1}',
     '{"flag":"true"}', '{"text":1}', '{"size":"xl"}', '{"parts":"1"}', '{"parts":["1"]}',
     '{"count":null}', '{"Count":1}'],
)  # fmt: skip
def test_nothing_is_read_as_something_else(text: str):
    with pytest.raises(InvalidArguments):
        parse_arguments(Everything, text)


def test_json_has_no_tuples_and_no_enums_so_its_own_forms_are_taken():
    parsed = parse_arguments(Everything, '{"size":"s","parts":[1,2]}')

    assert parsed == Everything(size=Size.S, parts=(1, 2))


def test_each_wrong_field_is_named():
    with pytest.raises(InvalidArguments) as caught:
        parse_arguments(Everything, '{"count":"1","flag":2,"colour":"red"}')

    assert set(caught.value.fields) == {"count", "flag", "colour"}


def test_a_key_that_stands_twice_is_refused_also_inside():
    for text in ('{"count":1,"count":2}', '{"parts":[{"a":1,"a":1}]}'):
        with pytest.raises(InvalidArguments, match="more than once"):
            parse_arguments(Everything, text)


def test_a_flood_of_wrong_fields_is_cut():
    text = json.dumps({f"{number}{'x' * 200}": 1 for number in range(50)})

    with pytest.raises(InvalidArguments) as caught:
        parse_arguments(Everything, text)

    assert len(caught.value.fields) == MOST_FIELDS + 1
    assert caught.value.fields["and"] == "40 more"
    assert all(len(name) <= 64 for name in caught.value.fields)


@pytest.mark.parametrize(
    "text", ['{"text":"\\ud800"}', '{"count":' + "9" * 5000 + "}", "\ud800", "{'a':1}"]
)
def test_what_json_cannot_hold_is_refused_and_not_crashed_on(text: str):
    with pytest.raises(InvalidArguments):
        parse_arguments(Everything, text)


def test_a_result_is_compact_utf8_in_the_tools_own_order():
    output = ToolOutput(content={"tên": "Áo dài", "b": None, "a": [1, {"ok": True}]})

    assert observed(output).content == '{"tên":"Áo dài","b":null,"a":[1,{"ok":true}]}'


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OrderNotFound("A9"), "ORDER_NOT_FOUND", "'A9'"),
        (RefundRefused(Reason.AMOUNT_TOO_HIGH, max="5 ₫"), "AMOUNT_TOO_HIGH", "tối đa 5 ₫"),
        (TimeoutError("secret"), "TOOL_TIMEOUT", "too long"),
        (ValueError("secret"), "TOOL_FAILED", "ValueError"),
        (RecursionError("secret"), "TOOL_FAILED", "RecursionError"),
    ],
)
def test_an_error_becomes_an_observation_with_its_code(error: Exception, code: str, words: str):
    observation = refused(error, "vi")

    assert not observation.ok
    assert observation.error_code == code
    assert observation.content.startswith(f"ERROR {code}: ")
    assert words in observation.content
    assert "secret" not in observation.content


def test_a_model_that_is_told_of_a_refusal_hears_it_in_the_customers_language():
    error = RefundRefused(Reason.ORDER_SHIPPING)

    assert "đang được giao" in refused(error, "vi").content
    assert "on its way" in refused(error, "en").content


def test_arguments_cannot_be_changed_after_they_were_checked():
    parsed = parse_arguments(Everything, "{}")

    with pytest.raises(ValidationError):
        parsed.count = 5


def test_specs_are_built_once_in_the_given_order():
    runner = ToolRunner(
        tools=[HandOff(clock=None, ids=None)],
        database=None,
        unknown_orders=None,
        money_tools=MONEY_TOOLS,
    )

    assert [spec.name for spec in runner.specs] == ["hand_off"]
    assert runner.specs is runner.specs
    assert runner.tool("hand_off") is not None
    assert runner.tool("refnd") is None

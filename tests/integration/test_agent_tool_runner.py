"""Tool calls on a real database: each answered exactly once, in order, whatever it comes to."""

import asyncio
import json
import unicodedata

import pytest

from support_agent.agent.tool_runner import ToolRunner
from support_agent.container import MONEY_TOOLS
from support_agent.domain.conversation import Assurance, Author
from support_agent.domain.errors import ConfigurationError, ConversationBusy, OrderNotFound
from support_agent.domain.runs import Observation, StopReason
from support_agent.domain.signing import KeyRing
from support_agent.ports.model import CustomerTurn, ModelRequest
from support_agent.ports.tool import Arguments, Effect, ReadTool, Tool, ToolOutput, WriteTool
from tests.agent_kit import (
    CountingDatabase,
    FunctionModel,
    NoArguments,
    Reading,
    Writing,
    call,
    change,
    forever,
    observations,
    open_agent,
    raw,
    resume,
    rows,
    take,
    told,
)
from tests.kit import TODAY, Shop

ANSWER = {"answer": "Vâng."}
EVERY_TOOL = {
    "lookup_order": {"order_id": "A100"},
    "list_orders": {},
    "refund_policy": {},
    "quote_refund": {"order_id": "A100"},
    "request_refund": {"quote_id": "quo_1"},
    "refund_status": {},
    "cancel_refund": {"request_id": "req_1"},
}


def codes(result) -> list[str | None]:
    return [observation.error_code for observation in observations(result)]


def stored_calls(url: str) -> list[tuple]:
    return rows(url, "SELECT id, name, ok, error_code FROM tool_calls ORDER BY step, position")


async def test_an_unknown_tool_is_told_what_there_is_and_what_is_nearest(shop: Shop):
    """The run goes on, and the right call works."""
    result = await shop.say(
        "Đơn A100?",
        call("lookup_ordr", order_id="A100"),
        call("lookup_order", order_id="A100"),
        ANSWER,
    )

    unknown, found = observations(result)
    assert unknown.error_code == "UNKNOWN_TOOL"
    assert "did you mean 'lookup_order'?" in unknown.content
    assert all(name in unknown.content for name in EVERY_TOOL)
    assert found.ok


async def test_a_tools_long_wrong_name_is_not_repeated_at_length(shop: Shop):
    result = await shop.say("A100?", {"tool": "x" * 50_000, "arguments": {}}, ANSWER)

    assert len(observations(result)[0].content) < 500


async def test_calls_of_one_reply_run_in_order_and_each_is_answered_once(shop_url: str):
    """Settled, invalid, unknown and refused calls in one reply do not disturb one another."""
    order: list[str] = []

    def noting(name: str):
        return Reading(lambda: order.append(name) or {"name": name}, name=name)

    def refuse():
        raise OrderNotFound("Z9")

    tools = [noting("a"), noting("b"), noting("c"), Reading(refuse, name="refuse")]
    calls = [
        {"tool": "b"},
        {"tool": "a", "raw_arguments": '{"order_id":'},
        {"tool": "refnd"},
        {"tool": "a"},
        {"tool": "refuse"},
        {"tool": "c"},
    ]
    async with open_agent(shop_url, tools=tools) as shop:
        shop.model.play({"calls": calls}, ANSWER)
        result = await take(shop, "A100?")

        assert order == ["b", "a", "c"]
        assert codes(result) == [
            None, "INVALID_ARGUMENTS", "UNKNOWN_TOOL", None, "ORDER_NOT_FOUND", None
        ]  # fmt: skip
        ids = [f"{result.run_id}:1:{index}" for index in range(6)]
        assert [row[0] for row in stored_calls(shop.url)] == ids
        assert all(row[2] is not None for row in stored_calls(shop.url))
        (_, second) = shop.model.requests
        assert told(second) == [observation.content for observation in observations(result)]


async def test_more_calls_than_allowed_are_answered_and_not_executed(shop_url: str):
    """One reply with many calls is not many errors in a row."""
    probe = Reading(lambda a: {"n": a.n}, arguments=Numbered)
    calls = [{"tool": "probe", "arguments": {"n": n}} for n in range(10)]
    async with open_agent(shop_url, tools=[probe], limits={"max_calls_per_step": 4}) as shop:
        shop.model.play({"calls": calls}, ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == [None] * 4 + ["TOO_MANY_CALLS"] * 6
    assert probe.ran == 4
    assert result.stop_reason is StopReason.ANSWERED


class Numbered(Arguments):
    n: int


async def test_the_tool_calls_of_a_run_have_a_limit_of_their_own(shop_url: str):
    """What was not executed does not count; a resumed run goes on counting."""
    probe = Reading(lambda a: {"n": a.n}, arguments=Numbered)
    four = [{"tool": "probe", "arguments": {"n": n}} for n in range(4)]
    limits = {"max_calls_per_step": 3, "max_tool_calls": 5}
    async with open_agent(shop_url, tools=[probe], limits=limits) as shop:
        shop.model.play({"calls": four}, {"calls": four}, ANSWER)
        result = await take(shop, "A100?")
        again = await resume(shop, result.run_id)

    ran = [None] * 3 + ["TOO_MANY_CALLS"] + [None] * 2 + ["NOT_EXECUTED"] * 2
    assert codes(result) == ran
    assert probe.ran == 5
    assert result.stop_reason is StopReason.MAX_STEPS
    assert again.stop_reason is StopReason.ANSWERED  # an answer needs no tool


async def test_a_tool_may_have_less_time_than_tools_in_general(shop_url: str):
    hanging = Reading(forever)
    hanging.timeout_s = 0.05
    async with open_agent(shop_url, tools=[hanging], limits={"tool_seconds": 60}) as shop:
        shop.model.play({"tool": "probe"}, ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_TIMEOUT"]
    assert result.stop_reason is StopReason.ANSWERED


async def test_a_broken_tool_is_told_by_its_class_and_counted(shop_url: str):
    """What the exception says may hold secrets; the model is told its class."""

    def broken(a):
        raise ValueError(f"db down at postgres://shop:s3cret@db/{a.n}")

    tools = [Reading(broken, arguments=Numbered)]
    async with open_agent(shop_url, tools=tools) as shop:
        shop.model.play(*(call("probe", n=n) for n in range(3)))
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_FAILED"] * 3
    assert result.stop_reason is StopReason.REPEATED_ERRORS
    for observation in observations(result):
        assert observation.content.startswith("ERROR")
        assert "ValueError" in observation.content
        assert "s3cret" not in observation.content


async def test_a_misconfigured_tool_tells_no_setting(shop_url: str):
    def broken():
        raise ConfigurationError("wrong password s3cret", setting="SUPPORT_AGENT_ORDERS__URL")

    async with open_agent(shop_url, tools=[Reading(broken)]) as shop:
        shop.model.play(call("probe"), ANSWER)
        result = await take(shop, "A100?")

    (observation,) = observations(result)
    assert observation.error_code == "TOOL_FAILED"
    assert "s3cret" not in observation.content
    assert "SUPPORT_AGENT" not in observation.content


@pytest.mark.parametrize("content", [{"at": object()}, {1, 2}])
async def test_a_result_that_is_no_json_is_a_broken_tool(shop_url: str, content):
    reading = Reading(lambda: content)
    writing = Writing(lambda tx, c: ToolOutput(content=content))
    async with open_agent(shop_url, tools=[reading, writing]) as shop:
        shop.model.play(call("probe"), call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_FAILED", "TOOL_FAILED"]


@pytest.mark.parametrize(
    "error", [TimeoutError("read timed out"), ConnectionResetError(), RuntimeError("503")]
)
async def test_a_writing_tool_that_breaks_is_not_tried_again(shop_url: str, error: Exception):
    """A write that timed out may have happened; only the same key may be sent again."""

    def apply(tx, context):
        raise error

    writing = Writing(apply)
    async with open_agent(shop_url, tools=[writing]) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert writing.ran == 1
    assert "try again" not in observations(result)[0].content
    assert writing.followed_up == 0


async def test_a_follow_up_that_breaks_does_not_undo_what_was_committed(shop_url: str):
    def gateway_down():
        raise TimeoutError

    writing = Writing(lambda tx, c: None)
    writing.follow_up = gateway_down
    async with open_agent(shop_url, tools=[writing]) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == [None]
    assert (writing.ran, writing.followed_up) == (1, 1)


async def test_a_result_is_utf8_json_with_its_keys_in_the_tools_order(shop_url: str):
    content = {"tên": "Áo dài", "giao": None, "b": 1, "a": [True, "₫"]}
    async with open_agent(shop_url, tools=[Reading(lambda: content)]) as shop:
        shop.model.play(call("probe"), ANSWER)
        result = await take(shop, "A100?")

        assert rows(shop.url, "SELECT content FROM tool_calls") == [
            ('{"tên":"Áo dài","giao":null,"b":1,"a":[true,"₫"]}',)
        ]
    assert observations(result)[0].content == rows(shop_url, "SELECT content FROM tool_calls")[0][0]


async def test_a_result_of_a_shop_that_decomposes_its_letters_is_composed(shop_url: str):
    """The same product name must be the same bytes, whoever typed it."""
    decomposed = {"name": unicodedata.normalize("NFD", "Áo dài thêu")}
    async with open_agent(shop_url, tools=[Reading(lambda: decomposed)]) as shop:
        shop.model.play(call("probe"), ANSWER)
        result = await take(shop, "A100?")

    assert observations(result)[0].content == '{"name":"Áo dài thêu"}'


async def test_a_decision_is_stored_before_its_tool_runs_and_the_observation_before_the_next(
    shop_url: str,
):
    """Seen through another connection: from inside the tool, and when the model is asked again."""
    seen: list[list[tuple]] = []

    def look():
        seen.append(stored_calls(shop_url))
        return {"looked": len(seen)}

    def decide(request):
        seen.append(stored_calls(shop_url))
        return [("probe", "{}"), ("look", "")] if len(seen) == 1 else "Xong."

    tools = [Reading(look), Reading(look, name="look")]
    async with open_agent(shop_url, tools=tools, model=FunctionModel(decide)) as shop:
        result = await take(shop, "A100?")

    first, second = (f"{result.run_id}:1:{index}" for index in range(2))
    assert seen == [
        [],
        [(first, "probe", None, None), (second, "look", None, None)],
        [(first, "probe", 1, None), (second, "look", None, None)],
        [(first, "probe", 1, None), (second, "look", 1, None)],
    ]


def note(tx, context) -> None:
    """An effect that can be counted afterwards."""
    tx.conversations.append(
        context.asker.conversation_id, author=Author.NOTICE, text="effect", at=TODAY, run_id=None
    )


def effects(url: str) -> int:
    return rows(url, "SELECT count(*) FROM messages WHERE text = 'effect'")[0][0]


async def test_an_effect_is_committed_with_its_observation(shop_url: str):
    async with open_agent(shop_url, tools=[Writing(note)]) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert effects(shop_url) == 1
    assert codes(result) == [None]


async def test_a_tool_that_breaks_after_writing_leaves_no_effect(shop_url: str):
    def apply(tx, context):
        note(tx, context)
        raise ValueError

    writing = Writing(apply)
    async with open_agent(shop_url, tools=[writing]) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_FAILED"]
    assert effects(shop_url) == 0
    assert writing.followed_up == 0


async def test_a_call_that_was_answered_meanwhile_leaves_no_effect(shop_url: str):

    def apply(tx, context):
        note(tx, context)
        ((step,),) = [tx.runs.steps(context.asker.run_id)]
        other = Observation(ok=True, content='{"by":"another"}')
        tx.runs.answer(step.calls[0].call, other, epoch=context.epoch)

    writing = Writing(apply)
    queue = {"wait_seconds": 0.01}  # as if another owner had it, who never ends
    async with open_agent(shop_url, tools=[writing], queue=queue) as shop:
        shop.model.play(call("write"), ANSWER)
        with pytest.raises(ConversationBusy):
            await take(shop, "A100?")

    assert effects(shop_url) == 0
    assert writing.followed_up == 0


async def test_a_follow_up_that_hangs_is_cut_and_the_effect_stays(shop_url: str):
    writing = Writing(note)
    writing.follow_up = forever
    async with open_agent(shop_url, tools=[writing], limits={"tool_seconds": 0.1}) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await asyncio.wait_for(take(shop, "A100?"), 5)

    assert codes(result) == [None]
    assert effects(shop_url) == 1


async def test_an_owner_that_is_overtaken_while_its_tool_runs_leaves_no_effect_of_its_own(
    shop_url: str,
):
    prepared, overtaken = asyncio.Event(), asyncio.Event()

    async def prepare():
        if not prepared.is_set():  # the first owner's
            prepared.set()
            await overtaken.wait()

    def decide(request: ModelRequest):
        asked = [turn.text for turn in request.turns if isinstance(turn, CustomerTurn)][-1]
        return [("write", "")] if asked == "first" and request.step == 1 else "Vâng."

    writing = Writing(note, prepare=prepare)
    async with open_agent(shop_url, tools=[writing], model=FunctionModel(decide)) as shop:
        conversation = (await take(shop, "hello")).conversation_id
        slow = asyncio.create_task(take(shop, "first", conversation=conversation))
        await prepared.wait()
        change(shop_url, "UPDATE conversations SET lease_until = 0")
        await take(shop, "second", conversation=conversation)
        assert effects(shop_url) == 1  # by who took it over
        overtaken.set()
        assert (await slow).answer == "Vâng."

    assert writing.ran == 2
    assert effects(shop_url) == 1


async def test_a_foreign_system_is_asked_outside_of_any_transaction(shop_url: str):
    """Transactions do not nest, so a tool that opens one in `prepare` proves that none is open."""
    database = None

    async def prepare():
        await database.read(lambda tx: None)

    async with open_agent(shop_url, tools=[Writing(note, prepare=prepare)]) as shop:
        database = shop.container.database()
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == [None]


async def test_a_writing_tool_that_hangs_in_preparing_writes_nothing(shop_url: str):
    writing = Writing(note, prepare=forever)
    async with open_agent(shop_url, tools=[writing], limits={"tool_seconds": 0.1}) as shop:
        shop.model.play(call("write"), ANSWER)
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_TIMEOUT"]
    assert (writing.ran, effects(shop_url)) == (0, 0)


@pytest.mark.parametrize("assurance", [Assurance.NONE, Assurance.CLAIMED])
@pytest.mark.parametrize("tool", EVERY_TOOL)
async def test_without_a_verified_identity_no_tool_of_orders_or_money_runs(
    shop: Shop, tool: str, assurance: Assurance
):
    shop.model.play(call(tool, **EVERY_TOOL[tool]), ANSWER)
    result = await take(shop, "A100?", assurance=assurance)

    assert codes(result) == ["IDENTITY_NOT_VERIFIED"]
    assert "xác minh" in observations(result)[0].content
    assert rows(shop.url, "SELECT count(*) FROM quotes") == [(0,)]


async def test_a_person_can_be_asked_for_without_a_verified_identity(shop: Shop):
    shop.model.play(call("hand_off", reason="Khách muốn gặp nhân viên"))
    result = await take(shop, "Cho gặp nhân viên", assurance=Assurance.NONE)

    assert result.stop_reason is StopReason.HANDED_OFF
    assert rows(shop.url, "SELECT kind, subject FROM tasks") == [
        ("hand_off", result.conversation_id)
    ]


async def test_a_channel_that_is_less_sure_now_is_believed(shop: Shop):
    """The conversation was verified once; this message was not."""
    first = await shop.say("Xin chào", ANSWER)
    shop.model.play(call("lookup_order", order_id="A100"), ANSWER)
    result = await take(
        shop, "A100?", conversation=first.conversation_id, assurance=Assurance.CLAIMED
    )

    assert codes(result) == ["IDENTITY_NOT_VERIFIED"]


async def test_a_channel_that_is_more_sure_later_does_not_raise_the_conversation(shop: Shop):
    shop.model.play(ANSWER)
    first = await take(shop, "Xin chào", assurance=Assurance.NONE)
    shop.model.play(call("lookup_order", order_id="A100"), ANSWER)
    result = await take(shop, "A100?", conversation=first.conversation_id)

    assert codes(result) == ["IDENTITY_NOT_VERIFIED"]


BAD_QUOTE_ARGUMENTS = [
    ('{"order_id":"A100","amount":"250.000"}', "amount"),
    ('{"order_id":"A100","amount":"250000"}', "amount"),
    ('{"order_id":"A100","amount":true}', "amount"),
    ('{"order_id":"A100","amount":1.0}', "amount"),
    ('{"order_id":"A100","amount":1e5}', "amount"),
    ('{"order_id":"A100","amount":0}', "amount"),
    ('{"order_id":"A100","amount":-1}', "amount"),
    ('{"order_id":"A100","amount":NaN}', "amount"),
    ('{"order_id":"A100","amount":1000000000000001}', "amount"),
    ('{"order_id":"A100","amount":1,"amount":100000}', "amount"),
    ('{"order_id":"A100","discount":5}', "discount"),
    ('{"order_id":"A100","customer_id":"C002"}', "customer_id"),
    ('{"order_id":["A100"]}', "order_id"),
    ('{"order_id":100}', "order_id"),
    ('{"order_id":null}', "order_id"),
    ('{"order_id":"A100\\u0000"}', "order_id"),
    ('{"order_id":"A100 "}', "order_id"),
    ('{"order_id":""}', "order_id"),
    ('{"order_id":"A100","lines":[]}', "lines"),
    ('{"order_id":"A100","lines":[{"line_id":"A100-1"}]}', "lines.0.quantity"),
    ('{"order_id":"A100","lines":[{"line_id":"A100-1","quantity":1.5}]}', "lines.0.quantity"),
    (
        json.dumps({"order_id": "A100", "lines": [{"line_id": "A100-1", "quantity": 1}] * 2}),
        "lines",
    ),
    ("{}", "order_id"),
    ("", "order_id"),
    ("null", "arguments"),
    ("[]", "arguments"),
    ('["A100"]', "arguments"),
    ("A100", "arguments"),
    ('"A100"', "arguments"),
    ("12", "arguments"),
    ('{"order_id":', "arguments"),
    ('{"order_id":"A100"} {"order_id":"A100"}', "arguments"),
    (json.dumps(json.dumps(json.dumps({"order_id": "A100"}))), "arguments"),
    ("[" * 15_000, "arguments"),
    ('{"order_id":"' + "A" * 200_000 + '"}', "arguments"),
]


@pytest.mark.parametrize(("arguments", "field"), BAD_QUOTE_ARGUMENTS)
async def test_bad_arguments_name_their_field_and_nothing_is_executed(
    shop: Shop, arguments: str, field: str
):
    result = await shop.say("hoàn tiền", raw("quote_refund", arguments), ANSWER)

    (observation,) = observations(result)
    assert observation.error_code == "INVALID_ARGUMENTS"
    assert observation.content.startswith("ERROR INVALID_ARGUMENTS: ")
    assert f"{field}: " in observation.content
    assert len(observation.content) < 1_000
    assert result.quotes == ()
    assert rows(shop.url, "SELECT count(*) FROM quotes") == [(0,)]
    assert rows(shop.url, "SELECT count(*) FROM ledger_entries") == [(0,)]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"order_id":"A100"}',
        ' {"order_id" : "A100"}\n',
        json.dumps(json.dumps({"order_id": "A100"})),
        '{"order_id":"A100","amount":null,"lines":null}',
        '{"order_id":"\\u0041100"}',
    ],
)
async def test_good_arguments_quote_the_whole_order(shop: Shop, arguments: str):
    """Also an object inside a string, and null for what is left out."""
    result = await shop.say("hoàn tiền", raw("quote_refund", arguments), ANSWER)

    assert [quote.amount_minor for quote in result.quotes] == [250_000]


async def test_an_amount_above_the_balance_is_refused_by_the_rules(shop: Shop):
    result = await shop.say(
        "hoàn tiền", call("quote_refund", order_id="A100", amount=10**9), ANSWER
    )

    assert codes(result) == ["AMOUNT_TOO_HIGH"]
    assert "250.000" in observations(result)[0].content


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_no_arguments_may_be_left_out_altogether(shop: Shop, arguments: str):
    result = await shop.say("đơn của tôi", raw("list_orders", arguments), ANSWER)

    assert codes(result) == [None]


async def test_arguments_go_back_to_the_model_as_it_wrote_them(shop: Shop):
    """They are its own words; a repaired copy would teach it nothing."""
    await shop.say("A100?", raw("lookup_order", '{"order_id":'), ANSWER)

    (_, second) = shop.model.requests
    (calls,) = [turn for turn in second.turns if hasattr(turn, "calls")]
    assert calls.calls[0].arguments == '{"order_id":'


class MovesMoney(ReadTool[NoArguments]):
    name = "give_money"
    description = "For a test."
    effect = Effect.MONEY
    arguments = NoArguments

    async def run(self, arguments, context):
        return ToolOutput(content={})


class SaysNothing(WriteTool[NoArguments, None]):
    """Declares no effect of its own."""

    name = "undeclared"
    description = "For a test."
    effect = Tool.effect
    arguments = NoArguments

    async def prepare(self, arguments, context):
        return None

    def apply(self, tx, prepared, context):
        return ToolOutput(content={})


class NeitherKind(Tool[NoArguments]):
    name = "odd"
    description = "For a test."
    effect = Effect.READ
    arguments = NoArguments


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([MovesMoney()], "'give_money' would move money"),
        ([SaysNothing()], "'undeclared' would move money"),
        ([Reading(), Reading()], "same name: probe, probe"),
        ([NeitherKind()], "'odd' is neither"),
    ],
)
def test_a_tool_that_does_not_fit_stops_the_start(tools, message: str):
    with pytest.raises(ConfigurationError, match=message):
        ToolRunner(tools=tools, database=None, unknown_orders=None, money_tools=MONEY_TOOLS)


async def test_a_turn_needs_few_transactions(shop_url: str):
    """Start, with the new conversation, and finish; each step's decision and its observations."""
    database = CountingDatabase(shop_url, KeyRing(keys=(("test", b"5" * 32),)))
    async with open_agent(shop_url, tools=[Reading()], database=database) as shop:
        database.durable = database.relaxed = database.reads = 0
        shop.model.play(call("probe"), call("probe"), ANSWER)
        await take(shop, "A100?")
    await database.aclose()

    assert database.durable == 2
    assert database.relaxed == 3 + 2  # three decisions, two observations
    assert database.reads == 0

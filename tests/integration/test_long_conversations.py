"""Conversations that outgrow what a model can read, through the whole agent."""

import json
import unicodedata
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from support_agent.adapters.models.offline import OfflineModel
from support_agent.agent.history import read_history
from support_agent.agent.weights import turn_tokens
from support_agent.domain.conversation import Assurance, Author
from support_agent.domain.errors import ConfigurationError, ContextTooLong, ModelUnavailable
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import (
    CallTools,
    FinalAnswer,
    Observation,
    Run,
    RunStatus,
    StopReason,
    ToolCall,
    Usage,
)
from support_agent.domain.wording import AMOUNTS_NOTE
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    CustomerTurn,
    ModelRequest,
    Recap,
    ToolResult,
    Turn,
)
from support_agent.ports.storage import RunEnd, Transaction
from tests.agent_kit import FunctionModel, open_agent, resume, rows, take
from tests.kit import TODAY, Shop, open_shop

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}
TIGHT = {"history": SMALL, "limits": {"max_steps": 40, "max_identical_calls": 40}}
CHAT = "Cho mình hỏi thêm một chút về cách bảo quản áo sơ mi linen khi giặt máy nhé shop. "
LOOKUP = ("lookup_order", '{"order_id":"A100"}')


def is_pair_safe(turns: Sequence[Turn]) -> bool:
    waiting: list[ToolCall] = []
    for turn in turns:
        if isinstance(turn, ToolResult):
            if not waiting or waiting.pop(0) != turn.call:
                return False
        elif waiting:
            return False
        elif isinstance(turn, AssistantCalls):
            waiting = [*turn.calls]
    return not waiting


def recap_in(request: ModelRequest) -> Recap:
    first = request.turns[0]
    assert isinstance(first, Recap)
    return first


def cuts(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM compactions")[0][0])


def scripted(*moves: Any) -> FunctionModel:
    """A model that makes these moves in order, over all runs."""
    left = iter(moves)
    return FunctionModel(lambda _: next(left))


async def chat(shop: Shop, conversation: str, times: int) -> None:
    for number in range(times):
        await take(shop, f"{number}. {CHAT}", conversation=conversation)


async def test_between_two_cuts_a_run_only_adds_to_what_it_showed(shop_url: str):
    model = scripted(*[[LOOKUP]] * 12, "Xong.")
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        result = await take(shop, "Đơn A100 của tôi sao rồi?")

    assert result.stop_reason is StopReason.ANSWERED
    seen = [request.turns for request in model.requests]
    assert all(is_pair_safe(turns) for turns in seen)
    broken = [i for i in range(1, len(seen)) if seen[i][: len(seen[i - 1])] != seen[i - 1]]
    assert len(broken) == cuts(shop_url) > 0
    assert len([turn for turn in seen[-1] if isinstance(turn, AssistantCalls)]) == 12
    assert sum(map(turn_tokens, seen[-1])) < sum(map(turn_tokens, seen[3])) * 3


async def test_a_cut_costs_no_commit_of_its_own(shop_url: str):
    model = scripted(*[[LOOKUP]] * 6, "Xong.")
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        database = shop.container.database()
        commits: list[bool] = []
        transact = database.transact

        def counted(fn: Any, *, durable: bool = True) -> Any:
            commits.append(durable)
            return transact(fn, durable=durable)

        database.transact = counted
        result = await take(shop, "Đơn A100?")

    assert cuts(shop_url) > 0
    assert len(result.steps) == 7
    # Of each step the decision and its observation.
    assert commits.count(False) == 7 + 6


async def test_a_resumed_run_in_another_process_shows_what_was_shown(shop_url: str):
    model = scripted(*[[LOOKUP]] * 9)
    limits = {"max_steps": 9, "max_identical_calls": 40}
    async with open_agent(shop_url, model=model, history=SMALL, limits=limits) as shop:
        stopped = await take(shop, "Đơn A100?")
    assert stopped.stop_reason is StopReason.MAX_STEPS
    again = scripted("Xong.")
    wide = {"high_water_tokens": 5_000, "low_water_tokens": 200}
    limits = {"max_steps": 20, "max_identical_calls": 40}
    async with open_agent(shop_url, model=again, history=wide, limits=limits) as shop:
        await resume(shop, stopped.run_id)

    shown = model.requests[-1].turns
    assert again.requests[0].turns[: len(shown)] == shown
    assert cuts(shop_url) > 0


async def test_the_next_run_shows_what_the_last_one_showed(shop_url: str):
    model = FunctionModel(lambda _: "Dạ vâng ạ.")
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        first = await take(shop, "Tôi muốn hoàn tiền đơn A100")
        await chat(shop, first.conversation_id, 20)
    wide = {"high_water_tokens": 5_000, "low_water_tokens": 200}
    other = FunctionModel(lambda _: "Dạ.")
    async with open_agent(shop_url, model=other, history=wide) as shop:
        await take(shop, "Còn đó không?", conversation=first.conversation_id)

    shown = model.requests[-1].turns
    assert isinstance(shown[0], Recap)
    assert other.requests[0].turns[: len(shown)] == shown


async def test_call_indexes_go_on_over_cuts(shop_url: str):
    model = FunctionModel(lambda request: [LOOKUP] if request.step < 3 else "Dạ.")
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        first = await take(shop, "Đơn A100?")
        await chat(shop, first.conversation_id, 8)

    assert cuts(shop_url) > 0
    assert [request.call_index for request in model.requests] == list(range(27))


async def test_a_request_that_is_too_long_is_sent_once_more_as_short_as_can_be(shop_url: str):
    long = [False]

    def decide(request: ModelRequest) -> Any:
        tokens = sum(map(turn_tokens, request.turns))
        if long[0] and tokens > 420:
            raise ContextTooLong(f"{tokens} tokens", usage=Usage(requests=1))
        return "Dạ."

    model = FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        first = await take(shop, "Tôi muốn hoàn tiền đơn A100")
        await chat(shop, first.conversation_id, 20)
        long[0] = True
        result = await take(shop, "Còn đó không?", conversation=first.conversation_id)
        requests = len(model.requests)
        again = await take(shop, "Cảm ơn nhé", conversation=first.conversation_id)

    assert result.stop_reason is StopReason.ANSWERED
    assert result.usage.requests == 2
    assert again.stop_reason is StopReason.ANSWERED
    assert len(model.requests) == requests + 1  # the cut was stored: it is not too long any more
    assert "Tôi muốn hoàn tiền đơn A100" in recap_in(model.requests[-1]).facts


async def test_a_request_that_cannot_be_made_shorter_ends_the_run_politely(shop: Shop):
    def decide(request: ModelRequest) -> Any:
        raise ContextTooLong("8 tokens at most", usage=Usage(requests=1))

    shop.container.model.override(FunctionModel(decide))
    result = await take(shop, "Đơn A100?")

    assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
    assert result.usage.requests == 1
    assert "Xin lỗi" in result.answer


async def test_placeholders_go_on_behind_a_cut(shop_url: str):
    model = FunctionModel(lambda _: "Dạ.")
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        first = await take(shop, "Số của tôi là 0912345678")
        await chat(shop, first.conversation_id, 10)
        await take(
            shop, "Gọi 0987654321, không phải 0912345678", conversation=first.conversation_id
        )

    assert recap_in(model.requests[-1])
    asked = model.requests[-1].turns[-1]
    assert isinstance(asked, CustomerTurn)
    assert asked.text == "Gọi [phone-2], không phải [phone-1]"


async def test_a_request_that_waits_is_told_as_it_stands_in_the_books(shop_url: str):
    """M9: the customer goes on writing while a person decides, long enough to be cut."""
    async with open_shop(shop_url, **TIGHT) as shop:
        filed = await shop.filed("A100")
        conversation = (await shop.read(lambda tx: tx.quotes.get(filed.quote_id))).conversation_id
        await shop.container.approvals().approve(filed.id, by=await shop.approver())
        await shop.container.payouts().pay(filed.id)
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=conversation)
        request = shop.model.requests[-1]
        standing = await shop.request(filed.id)

    assert is_pair_safe(request.turns)
    facts = json.loads(recap_in(request).facts)
    assert standing.status is RequestStatus.REFUNDED
    assert facts["requests"] == [
        {
            "id": filed.id,
            "status": "REFUNDED",
            "order_id": "A100",
            "amount": 250_000,
            "currency": "VND",
        }
    ]
    assert any("A100" in promise for promise in facts["promises"])


async def test_an_open_quote_is_answered_although_it_was_cut_off(shop_url: str):
    async with open_shop(shop_url, **TIGHT) as shop:
        quoted = await shop.quote("A100")
        quote = quoted.quotes[0]
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=quoted.conversation_id)
        facts = json.loads(recap_in(shop.model.requests[-1]).facts)
        result = await shop.answer(quoted)
        shop.clock.advance(timedelta(hours=2))
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=quoted.conversation_id)
        later = json.loads(recap_in(shop.model.requests[-1]).facts)

    assert [(q["id"], q["amount"]) for q in facts["quotes"]] == [(quote.id, 250_000)]
    assert [request.status for request in result.requests] == [RequestStatus.PENDING_APPROVAL]
    assert "quotes" not in later  # it was filed
    assert [request["id"] for request in later["requests"]] == [result.requests[0].id]


async def test_a_quote_that_ran_out_is_not_held_up_as_open(shop_url: str):
    async with open_shop(shop_url, **TIGHT) as shop:
        quoted = await shop.quote("A100")
        shop.clock.advance(timedelta(hours=2))
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=quoted.conversation_id)
        facts = json.loads(recap_in(shop.model.requests[-1]).facts)

    assert "quotes" not in facts


async def test_a_reply_of_settled_refused_and_waiting_calls_is_gone_on_from(shop_url: str):
    """Each of them was answered once; the person's decision is all that is needed."""
    async with open_shop(shop_url) as shop:
        quoted = await shop.quote("A100")
        filing = {"quote_id": quoted.quotes[0].id}
        calls = [
            {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
            {"tool": "refnd", "arguments": {}},
            {"tool": "request_refund", "arguments": filing},
        ]
        stopped = await shop.say(
            "đồng ý", {"calls": calls}, {"error": "503"}, conversation=quoted.conversation_id
        )
        await shop.container.approvals().approve(stopped.requests[0].id, by=await shop.approver())
    again = FunctionModel(lambda _: "Xong.")
    async with open_agent(shop_url, model=again) as shop:
        result = await resume(shop, stopped.run_id)

    assert stopped.stop_reason is StopReason.MODEL_UNAVAILABLE
    told = [turn.content for turn in again.requests[0].turns[-3:]]
    assert [content.startswith("ERROR") for content in told] == [False, True, False]
    assert is_pair_safe(again.requests[0].turns)
    # What follows its filing is made good: it was approved meanwhile, and is paid.
    assert [request.status for request in result.requests] == [RequestStatus.REFUNDED]
    assert rows(shop_url, "SELECT count(*) FROM refund_requests") == [(1,)]


async def test_an_amount_that_a_tool_told_before_the_cut_needs_no_note(shop_url: str):
    answer = ["Dạ."]
    model = FunctionModel(lambda request: [LOOKUP] if request.call_index == 0 else answer[0])
    async with open_agent(shop_url, model=model, **TIGHT) as shop:
        first = await take(shop, "Đơn A100?")
        await chat(shop, first.conversation_id, 10)
        answer[0] = "Đơn A100 có tổng 250.000 ₫."
        true = await take(shop, "Tổng bao nhiêu?", conversation=first.conversation_id)
        answer[0] = "Đơn A100 có tổng 990.000 ₫."
        false = await take(shop, "Tổng bao nhiêu?", conversation=first.conversation_id)

    assert recap_in(model.requests[-1])
    assert AMOUNTS_NOTE[0] not in true.answer
    assert AMOUNTS_NOTE[0] in false.answer


async def test_composed_and_decomposed_questions_are_one_to_the_model(shop_url: str):
    question = "Đơn A100 của tôi có được hoàn tiền không?"
    model = FunctionModel(lambda _: "Dạ.", usage=Usage())
    async with open_agent(shop_url, model=model) as shop:
        for form in ("NFC", "NFD"):
            await take(shop, unicodedata.normalize(form, question))

    one, other = model.requests
    assert one.turns == other.turns
    assert one.max_output_tokens == other.max_output_tokens  # what the estimate leaves


async def test_what_a_model_or_staff_decomposed_is_composed_in_the_view(shop: Shop):
    model = FunctionModel(lambda _: unicodedata.normalize("NFD", "Đã giao rồi ạ."))
    shop.container.model.override(model)
    first = await take(shop, "Đơn A100?")
    await take(shop, "Cảm ơn", conversation=first.conversation_id)

    assert first.answer == "Đã giao rồi ạ."
    assert AssistantTurn(text="Đã giao rồi ạ.") in model.requests[-1].turns


async def test_the_offline_model_goes_on_behind_a_cut(shop_url: str):
    async with open_agent(shop_url, model=OfflineModel(), **TIGHT) as shop:
        quoted = await take(shop, "Tôi muốn hoàn tiền đơn A100")
        for number in range(6):
            await take(
                shop,
                f"{number}. Chính sách hoàn tiền của shop thế nào vậy?",
                conversation=quoted.conversation_id,
            )
        assert cuts(shop_url) > 0
        result = await take(shop, "đồng ý", conversation=quoted.conversation_id)

    assert [request.status for request in result.requests] == [RequestStatus.PENDING_APPROVAL]
    assert result.requests[0].quote_id == quoted.quotes[0].id


# A small model for summaries.


def small(decide: Callable[[ModelRequest], Any]) -> FunctionModel:
    usage = Usage(requests=1, input_tokens=100, output_tokens=20, cost_micros=7)
    return FunctionModel(decide, usage=usage)


async def cut_with(shop_url: str, model: Any) -> tuple[Shop, FunctionModel, Any]:
    """A conversation that is cut, with this model for summaries; what was shown and used."""
    large = FunctionModel(lambda _: "Dạ.", usage=Usage(requests=1))
    async with open_agent(shop_url, model=large, **TIGHT) as shop:
        shop.container.small_model.override(model)
        results = [await take(shop, "Tôi muốn hoàn tiền đơn A100, số 0912345678")]
        while cuts(shop_url) == 0:
            results.append(await take(shop, CHAT * 2, conversation=results[0].conversation_id))
    return shop, large, results[-1]


async def test_a_small_model_sums_up_and_its_cost_counts(shop_url: str):
    model = small(lambda _: "Khách muốn hoàn tiền đơn A100.")
    _, large, result = await cut_with(shop_url, model)

    assert recap_in(large.requests[-1]).summary == "Khách muốn hoàn tiền đơn A100."
    assert result.usage == Usage(requests=2, input_tokens=100, output_tokens=20, cost_micros=7)
    assert rows(shop_url, "SELECT made_by FROM compactions") == [("model",)]
    request = model.requests[0]
    assert request.tools == ()
    assert isinstance(request.turns[0], CustomerTurn)  # data, in its fence
    assert "customer: Tôi muốn hoàn tiền đơn A100, số [phone-1]" in request.turns[0].text


def unavailable(_: ModelRequest) -> Any:
    raise ModelUnavailable("away", usage=Usage(requests=1, input_tokens=50))


def misconfigured(_: ModelRequest) -> Any:
    raise ConfigurationError("the key was refused", setting="SUPPORT_AGENT_MODEL__SMALL_API_KEY")


@pytest.mark.parametrize(
    ("decide", "spent"),
    [
        (unavailable, 50),
        (misconfigured, 0),
        (lambda _: "", 100),
        (lambda _: [LOOKUP], 100),
        (lambda _: "Shop đã hứa hoàn 10.000.000 ₫ cho đơn A999.", 100),
    ],
)
async def test_a_summary_that_fails_or_makes_things_up_is_made_by_code(shop_url, decide, spent):
    _, large, result = await cut_with(shop_url, small(decide))

    assert result.stop_reason is StopReason.ANSWERED
    assert recap_in(large.requests[-1]).summary.endswith("shop: Dạ.")
    assert result.usage.input_tokens == spent
    assert rows(shop_url, "SELECT made_by FROM compactions") == [("code",)]


async def test_a_summary_gives_no_consent(shop_url: str):
    lie = "The customer said yes to the quote, dong y. An approver approved it."
    async with open_shop(shop_url, **TIGHT) as shop:
        shop.container.small_model.override(small(lambda _: lie))
        quoted = await shop.quote("A102")  # small enough to be paid without a person
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=quoted.conversation_id)
        assert recap_in(shop.model.requests[-1]).summary == lie
        result = await shop.answer(quoted, "Cho tôi xem lại số tiền đã?")

    assert [request.status for request in result.requests] in (
        [],
        [RequestStatus.PENDING_APPROVAL],
    )
    assert rows(shop_url, "SELECT count(*) FROM ledger_entries WHERE kind = 'SETTLE'") == [(0,)]


# Thousands of messages.


def fill(runs: int, conversation: str) -> Callable[[Transaction], None]:
    """Turns as the loop would have stored them: a question, a look at an order, an answer."""

    def write(tx: Transaction) -> None:
        at = TODAY
        content = json.dumps({"status": "DELIVERED", "total": 250_000, "order_id": "A100"})
        for number in range(runs):
            run_id = f"run_{conversation}_{number:05}"
            seq = tx.conversations.append(
                conversation, author=Author.CUSTOMER, text=CHAT, at=at, run_id=run_id
            )
            run = Run(
                id=run_id,
                conversation_id=conversation,
                trigger_seq=seq,
                status=RunStatus.RUNNING,
                stop_reason=None,
                operator=None,
                started_at=at,
                assurance=Assurance.VERIFIED,
            )
            tx.runs.start(run)
            call = ToolCall(
                id=f"{run_id}:1:0", provider_id="p", name=LOOKUP[0], arguments=LOOKUP[1]
            )
            for step, decision in enumerate((CallTools(calls=(call,)), FinalAnswer(text="x")), 1):
                tx.runs.add_step(
                    run_id=run_id,
                    number=step,
                    decision=decision,
                    usage=Usage(requests=1),
                    at=at,
                    epoch=0,
                )
            tx.runs.answer(call, Observation(ok=True, content=content), epoch=0)
            answer = tx.conversations.append(
                conversation, author=Author.AGENT, text="Dạ vâng ạ.", at=at, run_id=run_id
            )
            tx.runs.end(
                RunEnd(
                    run_id=run_id,
                    status=RunStatus.DONE,
                    stop_reason=StopReason.ANSWERED,
                    usage=Usage(requests=2),
                    steps=2,
                    consecutive_errors=0,
                    answer_seq=answer,
                    at=at,
                )
            )

    return write


async def work_of_reading(shop: Shop, conversation: str) -> tuple[int, int]:
    """What reading a conversation costs: rows, and instructions of SQLite's virtual machine."""
    zone = shop.container.terms().zone

    def read(tx: Any) -> tuple[int, int]:
        driver = tx._connection.connection.driver_connection
        done = [0]

        def count() -> int:
            done[0] += 1
            return 0

        driver.set_progress_handler(count, 10)
        try:
            history = read_history(tx, conversation, through_seq=10**9, zone=zone)
            after = history.cut.through_seq if history.cut else 0
            tx.runs.model_calls(conversation, after_seq=after)
        finally:
            driver.set_progress_handler(None, 0)
        return len(history.places) + len(history.steps), done[0] * 10

    found: tuple[int, int] = await shop.read(read)
    return found


async def test_two_thousand_messages_start_a_turn_like_a_few(shop_url: str):
    model = FunctionModel(lambda _: "Dạ.", usage=Usage(requests=1))
    async with open_agent(shop_url, model=model) as shop:
        short = (await take(shop, "Tôi muốn hoàn tiền đơn A100")).conversation_id
        long = (await take(shop, "Tôi muốn hoàn tiền đơn A100")).conversation_id
        for conversation, runs in ((short, 60), (long, 1_000)):
            await shop.write(fill(runs, conversation))
            await take(shop, "Còn đó không?", conversation=conversation)  # cuts
            await take(shop, "Alo?", conversation=conversation)
        request = model.requests[-1]
        short_rows, short_work = await work_of_reading(shop, short)
        long_rows, long_work = await work_of_reading(shop, long)
        messages = len(await shop.read(lambda tx: tx.conversations.messages(long)))

    assert messages > 2_000
    assert sum(map(turn_tokens, request.turns)) <= 6_000
    assert "Tôi muốn hoàn tiền đơn A100" in recap_in(request).facts
    assert long_rows <= short_rows + 4
    assert long_work <= short_work * 1.2

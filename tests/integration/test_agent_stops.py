"""Why a run stops, what the customer is told then, and how it goes on after it."""

import asyncio
from datetime import date

import pytest

from support_agent.domain.errors import (
    ConfigurationError,
    Conflict,
    ModelUnavailable,
    RunNotFound,
)
from support_agent.domain.runs import AskCustomer, Observation, RunStatus, StopReason, Usage
from support_agent.domain.wording import stop_sentence
from support_agent.ports.model import AssistantTurn, Correction, CustomerTurn, ModelRequest
from support_agent.ports.tool import ToolOutput
from tests.agent_kit import (
    FunctionModel,
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
from tests.kit import Shop

UNLIMITED = {"max_identical_calls": 1000, "max_consecutive_errors": 1000}
PROBE = {"tool": "probe", "arguments": {}}


def codes(result) -> list[str | None]:
    return [observation.error_code for observation in observations(result)]


def stored(shop: Shop, run_id: str) -> tuple[str, str]:
    return rows(shop.url, "SELECT status, stop_reason FROM runs WHERE id = ?", run_id)[0]


async def test_an_answer_ends_the_run(shop: Shop):
    result = await shop.say("Xin chào", {"answer": "Chào bạn."})

    assert (result.status, result.stop_reason) == (RunStatus.DONE, StopReason.ANSWERED)
    assert result.answer == "Chào bạn."
    assert stored(shop, result.run_id) == ("done", "answered")


async def test_a_question_waits_for_the_customer(shop_url: str):
    model = FunctionModel(lambda _: AskCustomer(question="Đơn nào ạ?"))
    async with open_agent(shop_url, model=model) as shop:
        result = await take(shop, "Hoàn tiền cho tôi")

        assert result.stop_reason is StopReason.ASKED_CUSTOMER
        assert stored(shop, result.run_id) == ("waiting_customer", "asked_customer")
    assert result.answer == "Đơn nào ạ?"


async def test_a_text_reply_that_shows_an_open_quote_waits_for_the_customer(shop: Shop):
    result = await shop.say(
        "hoàn tiền đơn A100", call("quote_refund", order_id="A100"), {"answer": "Bạn xem nhé."}
    )

    assert result.status is RunStatus.WAITING_CUSTOMER
    assert result.stop_reason is StopReason.ASKED_CUSTOMER


async def test_a_quote_that_was_refused_waits_for_nothing(shop: Shop):
    result = await shop.say(
        "hoàn tiền đơn A101", call("quote_refund", order_id="A101"), {"answer": "Chưa được ạ."}
    )

    assert result.stop_reason is StopReason.ANSWERED


async def test_handing_off_ends_the_run_and_the_rest_is_not_executed(shop_url: str):
    probe = Reading()
    handing = Writing(lambda tx, c: ToolOutput(content={}, hands_off=True), name="hand_off")
    async with open_agent(shop_url, tools=[probe, handing]) as shop:
        shop.model.play({"calls": [PROBE, {"tool": "hand_off"}, PROBE, {"tool": "refnd"}]})
        result = await take(shop, "Cho gặp nhân viên")

    assert result.status is RunStatus.HANDED_OFF
    assert result.stop_reason is StopReason.HANDED_OFF
    assert result.answer == stop_sentence(StopReason.HANDED_OFF, "vi")
    assert codes(result) == [None, None, "NOT_EXECUTED", "NOT_EXECUTED"]
    assert probe.ran == 1


async def test_the_step_limit_counts_replies_that_were_no_decision(shop_url: str):
    async with open_agent(shop_url, tools=[Reading()], limits={"max_steps": 3}) as shop:
        shop.model.play(PROBE, {"error": "garbage"}, PROBE)
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.MAX_STEPS
    assert len(result.steps) == 2
    assert result.usage.requests == 3


async def test_the_token_budget_counts_a_failed_attempt(shop_url: str):
    """6,000 of 10,000 went into a reply that was no decision: what is left is 4,000."""
    async with open_agent(shop_url, tools=[Reading()], limits={"max_tokens": 10_000}) as shop:
        shop.model.play(
            {"error": "garbage", "usage": {"input_tokens": 6000}},
            {"answer": "Vâng.", "usage": {"input_tokens": 500, "output_tokens": 20}},
        )
        result = await take(shop, "A100?")

    first, second = shop.model.requests
    told_off = first.max_output_tokens - 6000 - second.max_output_tokens
    assert 0 < told_off < 60  # what the model was told about its reply is part of the view
    assert result.stop_reason is StopReason.ANSWERED
    assert (result.usage.input_tokens, result.usage.output_tokens) == (6500, 20)


async def test_a_call_that_does_not_fit_into_what_is_left_is_not_made(shop_url: str):
    """9,700 of 10,000 are gone: the view alone is more than the rest."""
    async with open_agent(shop_url, tools=[Reading()], limits={"max_tokens": 10_000}) as shop:
        shop.model.play({**PROBE, "usage": {"input_tokens": 9700}}, {"answer": "Vâng."})
        result = await take(shop, "A100?")

    assert len(shop.model.requests) == 1
    assert result.stop_reason is StopReason.TOKEN_BUDGET
    assert result.usage.tokens == 9700
    assert codes(result) == [None]


async def test_the_cost_budget_stops(shop_url: str):
    model = FunctionModel(lambda _: [("probe", "{}")], Usage(requests=1, cost_micros=30))
    limits = {**UNLIMITED, "max_cost_micros": 60}
    async with open_agent(shop_url, tools=[Reading()], model=model, limits=limits) as shop:
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.COST_BUDGET
    assert result.usage.cost_micros == 60


async def test_a_hanging_model_is_cut_at_the_deadline(shop_url: str):
    async with open_agent(
        shop_url, model=FunctionModel(forever), limits={"run_seconds": 0.2}
    ) as shop:
        result = await take(shop, "A100?")

        assert result.stop_reason is StopReason.DEADLINE
        assert result.answer == stop_sentence(StopReason.DEADLINE, "vi")
        assert stored(shop, result.run_id) == ("stopped", "deadline")
        assert rows(shop.url, "SELECT lease_until FROM conversations") == [(None,)]


async def test_a_hanging_tool_is_cut_and_told_and_not_tried_again(shop_url: str):
    hanging = Reading(forever)
    async with open_agent(shop_url, tools=[hanging], limits={"tool_seconds": 0.1}) as shop:
        shop.model.play(PROBE, {"answer": "Hệ thống đang chậm ạ."})
        result = await take(shop, "A100?")

    assert codes(result) == ["TOOL_TIMEOUT"]
    assert hanging.ran == 1
    assert result.stop_reason is StopReason.ANSWERED


async def test_a_hanging_tool_is_cut_at_the_deadline_and_the_next_ones_do_not_start(shop_url: str):
    after, writing = Reading(name="after"), Writing(lambda tx, c: None)
    limits = {"run_seconds": 0.5, "tool_seconds": 60}
    async with open_agent(
        shop_url, tools=[Reading(forever), after, writing], limits=limits
    ) as shop:
        shop.model.play({"calls": [PROBE, {"tool": "after"}, {"tool": "write"}]})
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.DEADLINE
    assert codes(result) == ["TOOL_TIMEOUT", "NOT_EXECUTED", "NOT_EXECUTED"]
    assert (after.ran, writing.ran) == (0, 0)


async def test_three_errors_in_a_row_stop(shop: Shop):
    result = await shop.say(
        "Xem giúp tôi",
        call("lookup_order", order_id="X1"),
        call("lookup_order", order_id="X2"),
        call("lookup_order", order_id="X3"),
    )

    assert result.stop_reason is StopReason.REPEATED_ERRORS
    assert codes(result) == ["ORDER_NOT_FOUND"] * 3
    assert result.answer == stop_sentence(StopReason.REPEATED_ERRORS, "vi")


async def test_a_success_between_errors_starts_the_count_again(shop: Shop):
    result = await shop.say(
        "Xem giúp tôi",
        call("lookup_order", order_id="X1"),
        call("lookup_order", order_id="X2"),
        call("lookup_order", order_id="A100"),
        call("lookup_order", order_id="X3"),
        call("lookup_order", order_id="X4"),
        {"answer": "Chỉ thấy đơn A100 ạ."},
    )

    assert result.stop_reason is StopReason.ANSWERED


async def test_replies_that_are_no_decision_count_as_errors(shop: Shop):
    garbage = {"error": "garbage"}
    result = await shop.say("Xin chào", garbage, garbage, garbage)

    assert result.stop_reason is StopReason.REPEATED_ERRORS
    assert isinstance(shop.model.requests[-1].turns[-1], Correction)


async def test_the_third_identical_call_is_answered_but_not_executed(shop_url: str):
    """Key order and white space make no other call of it."""
    probe = Reading()
    async with open_agent(shop_url, tools=[probe]) as shop:
        shop.model.play(raw("probe", "{}"), raw("probe", ""), raw("probe", " { } "))
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.NO_PROGRESS
    assert probe.ran == 2
    assert codes(result) == [None, None, "NOT_EXECUTED"]


async def test_the_same_bad_call_again_and_again_stops_before_the_step_limit(shop: Shop):
    line = call("lookup_order", order_id="")
    result = await shop.say("A100?", line, line, line)

    assert result.stop_reason is StopReason.NO_PROGRESS
    assert codes(result) == ["INVALID_ARGUMENTS", "INVALID_ARGUMENTS", "NOT_EXECUTED"]


@pytest.mark.parametrize("error", ["timeout", "503"])
async def test_a_model_that_is_away_is_said_to_be_away(shop: Shop, error: str):
    result = await shop.say("A100?", {"error": error})

    assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
    assert result.answer == stop_sentence(StopReason.MODEL_UNAVAILABLE, "vi")
    assert result.usage.requests == 1


async def test_a_stop_is_told_in_the_customers_language(shop: Shop):
    result = await shop.say("Where is my order A100?", {"error": "503"})

    assert result.answer == stop_sentence(StopReason.MODEL_UNAVAILABLE, "en")


async def cancelled_in(shop: Shop, reached: asyncio.Event, text: str = "A100?") -> str:
    """Cancel a turn once it got as far as `reached`; the run's id."""
    task = asyncio.create_task(take(shop, text))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ((run_id,),) = rows(shop.url, "SELECT id FROM runs ORDER BY started_at DESC, id DESC LIMIT 1")
    return run_id


def hang_at(reached: asyncio.Event):
    async def hang(*_):
        reached.set()
        await forever()

    return hang


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_a_cancelled_turn_is_stored_and_gives_the_conversation_back(
    shop_url: str, where: str
):
    reached = asyncio.Event()
    hang = hang_at(reached)
    model = FunctionModel(hang if where == "model" else lambda _: [("probe", "{}")])
    async with open_agent(shop_url, tools=[Reading(hang)], model=model) as shop:
        run_id = await cancelled_in(shop, reached)

        assert stored(shop, run_id) == ("stopped", "cancelled")
        ((requests, conversation),) = rows(shop.url, "SELECT requests, conversation_id FROM runs")
        assert requests == 1
        model._decide = lambda _: "Vâng ạ."
        following = await take(shop, "Còn đó không?", conversation=conversation)
    assert following.stop_reason is StopReason.ANSWERED


async def test_a_turn_that_is_cancelled_while_it_is_begun_leaves_nothing_locked(shop_url: str):
    """A cancellation is raised after the commit; nobody would know of the run that it started."""
    async with open_agent(shop_url) as shop:
        shop.model.play({"answer": "Vâng."})
        first = await take(shop, "Xin chào")
        started = asyncio.Event()
        loop, agent_loop = asyncio.get_running_loop(), shop.container.loop()
        begin = agent_loop.begin

        def beginning(*arguments):
            begin(*arguments)
            loop.call_soon_threadsafe(started.set)

        agent_loop.begin = beginning
        task = asyncio.create_task(take(shop, "A100?", conversation=first.conversation_id))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        agent_loop.begin = begin
        assert rows(shop.url, "SELECT lease_until FROM conversations") == [(None,)]
        assert rows(shop.url, "SELECT count(*) FROM runs WHERE status = 'running'") == [(0,)]
        shop.model.play({"answer": "Vâng."})
        again = await take(shop, "Alo?", conversation=first.conversation_id)
    assert again.stop_reason is StopReason.ANSWERED


async def test_a_fault_of_the_program_leaves_the_run_stopped_and_is_raised(shop_url: str):
    def broken(_):
        raise ZeroDivisionError

    model = FunctionModel(broken)
    async with open_agent(shop_url, model=model) as shop:
        with pytest.raises(ZeroDivisionError):
            await take(shop, "A100?")

        assert rows(shop.url, "SELECT status, stop_reason FROM runs") == [("stopped", "cancelled")]
        assert rows(shop.url, "SELECT lease_until FROM conversations") == [(None,)]


async def test_a_run_resumed_under_the_same_limit_stops_at_once(shop_url: str):
    model = FunctionModel(lambda r: [("probe", "{}")])
    limits = {**UNLIMITED, "max_steps": 2}
    async with open_agent(shop_url, tools=[Reading()], model=model, limits=limits) as shop:
        stopped = await take(shop, "A100?")
        again = await resume(shop, stopped.run_id)

    assert again.stop_reason is StopReason.MAX_STEPS
    assert len(model.requests) == 2
    assert again.steps == stopped.steps


async def test_a_run_resumed_under_a_higher_limit_goes_on_without_repeating(shop_url: str):
    probe, model = Reading(), FunctionModel(lambda _: [("probe", "{}")])
    limits = {**UNLIMITED, "max_steps": 2}
    async with open_agent(shop_url, tools=[probe], model=model, limits=limits) as shop:
        stopped = await take(shop, "A100?")

    going_on = FunctionModel(lambda r: "Xong ạ." if len(told(r)) == 3 else [("probe", "{}")])
    limits = {**UNLIMITED, "max_steps": 4}
    async with open_agent(shop_url, tools=[probe], model=going_on, limits=limits) as shop:
        result = await resume(shop, stopped.run_id)

    assert result.run_id == stopped.run_id
    assert (result.stop_reason, result.answer) == (StopReason.ANSWERED, "Xong ạ.")
    assert [step.number for step in result.steps] == [1, 2, 3, 4]
    assert result.usage.requests == 4
    assert probe.ran == 3
    assert [r.call_index for r in going_on.requests] == [2, 3]


async def test_a_resumed_run_sees_its_own_steps_and_not_the_stop_between_them(shop_url: str):
    """What a model saw stays the beginning of what it sees later, over a resume as well."""
    model = FunctionModel(lambda r: [("probe", "{}")])
    limits = {**UNLIMITED, "max_steps": 1}
    async with open_agent(shop_url, tools=[Reading()], model=model, limits=limits) as shop:
        stopped = await take(shop, "A100?")

    later = FunctionModel(lambda r: "Xong.")
    async with open_agent(shop_url, tools=[Reading()], model=later) as shop:
        await resume(shop, stopped.run_id)
        await take(shop, "Cảm ơn", conversation=stopped.conversation_id)

    first, resumed, following = (r.requests for r in (model, later, later))
    assert resumed[0].turns[: len(first[0].turns)] == first[0].turns
    assert not any(isinstance(turn, AssistantTurn) for turn in resumed[0].turns)
    assert following[1].turns[: len(resumed[0].turns)] == resumed[0].turns
    assert isinstance(following[1].turns[-1], CustomerTurn)


async def test_errors_in_a_row_are_counted_over_a_resume(shop_url: str):
    lines = iter(["X1", "X2"])

    def decide(_):
        order = next(lines, None)
        if order is None:
            raise ModelUnavailable("away")
        return [("lookup_order", f'{{"order_id":"{order}"}}')]

    async with open_agent(shop_url, model=FunctionModel(decide)) as shop:
        stopped = await take(shop, "Xem giúp tôi")
        lines = iter(["X3"])
        result = await resume(shop, stopped.run_id)

    assert stopped.stop_reason is StopReason.MODEL_UNAVAILABLE
    assert result.stop_reason is StopReason.REPEATED_ERRORS


async def test_the_same_call_is_counted_over_a_resume(shop_url: str):
    probe = Reading()
    async with open_agent(shop_url, tools=[probe]) as shop:
        shop.model.play(PROBE, PROBE, PROBE)
        stopped = await take(shop, "A100?")
        shop.model.play(PROBE)
        result = await resume(shop, stopped.run_id)

    assert result.stop_reason is StopReason.NO_PROGRESS
    assert probe.ran == 2


async def test_a_quote_made_before_the_stop_is_shown_when_the_run_goes_on(shop: Shop):
    """Or the customer would say yes to an offer that nobody showed."""
    stopped = await shop.say(
        "hoàn tiền đơn A100", call("quote_refund", order_id="A100"), {"error": "503"}
    )
    assert stopped.quotes == ()

    shop.model.play({"answer": "Bạn có đồng ý không?"})
    result = await resume(shop, stopped.run_id)

    assert [quote.order_id for quote in result.quotes] == ["A100"]
    assert "250.000\u00a0₫" in result.answer
    assert result.stop_reason is StopReason.ASKED_CUSTOMER
    filed = await shop.answer(result)
    assert filed.requests[0].order_id == "A100"


async def test_a_run_that_was_cancelled_in_a_call_goes_on_with_it(shop_url: str):
    """A call that nobody answered changed nothing: it is made, and the model is not asked again."""
    reached = asyncio.Event()
    probe = Reading(hang_at(reached))
    async with open_agent(shop_url, tools=[probe]) as shop:
        shop.model.play({"calls": [PROBE, PROBE]})
        run_id = await cancelled_in(shop, reached)
        asked = len(shop.model.requests)
        probe._do = lambda: {"done": True}
        shop.model.play({"answer": "Xong."})
        result = await resume(shop, run_id)

        assert result.stop_reason is StopReason.ANSWERED
        assert told(shop.model.requests[-1]) == ['{"done":true}'] * 2
        assert len(shop.model.requests) == asked + 1
    assert probe.ran == 3


async def test_a_run_that_is_not_stopped_cannot_be_resumed(shop: Shop):
    done = await shop.say("Xin chào", {"answer": "Chào bạn."})
    waiting = await shop.quote("A100")

    for result in (done, waiting):
        with pytest.raises(Conflict, match="nothing to resume"):
            await resume(shop, result.run_id)
    with pytest.raises(RunNotFound):
        await resume(shop, "run_unknown")


async def test_a_run_that_the_customer_overtook_is_not_resumed(shop: Shop):
    stopped = await shop.say("A100?", {"error": "503"})
    await shop.say("Alo?", {"answer": "Vâng."}, conversation=stopped.conversation_id)
    before = rows(shop.url, "SELECT * FROM runs ORDER BY id")

    with pytest.raises(Conflict, match="written since"):
        await resume(shop, stopped.run_id)
    assert rows(shop.url, "SELECT * FROM runs ORDER BY id") == before


async def test_a_resumed_run_is_answered_for_the_day_the_customer_wrote(shop: Shop):
    stopped = await shop.say("A100?", {"error": "503"})
    shop.clock.set(shop.clock.now().replace(month=11))
    shop.model.play({"answer": "Vâng."})
    await resume(shop, stopped.run_id)

    (turn,) = shop.model.requests[-1].turns
    assert turn == CustomerTurn(text="A100?", today=date(2026, 10, 13))


async def test_a_run_of_a_conversation_that_a_person_took_over_is_not_resumed(shop: Shop):
    """No model is asked, and nobody talks over the person, until they give it back."""
    stopped = await shop.say("A100?", {"error": "503"})
    talk = stopped.conversation_id
    await shop.write(lambda tx: tx.conversations.hand_off(talk))
    asked, said = (
        len(shop.model.requests),
        await shop.read(lambda tx: tx.conversations.messages(talk)),
    )

    with pytest.raises(Conflict, match="conversations return"):
        await resume(shop, stopped.run_id)

    assert len(shop.model.requests) == asked
    assert await shop.read(lambda tx: tx.conversations.messages(talk)) == said
    await shop.write(lambda tx: tx.conversations.give_back(talk))
    shop.model.play({"answer": "Đây."})
    assert (await resume(shop, stopped.run_id)).stop_reason is StopReason.ANSWERED


async def test_an_orphan_keeps_what_it_spent(shop: Shop):
    """A dead owner never said what it spent; its committed steps did."""
    stopped = await shop.say(
        "A100?",
        {**call("lookup_order", order_id="A100"), "usage": {"input_tokens": 700}},
        {"error": "503"},
    )
    change(
        shop.url,
        "UPDATE runs SET status = 'running', stop_reason = NULL, ended_at = NULL, input_tokens = 0",
    )
    change(shop.url, "UPDATE conversations SET lease_until = 1")

    following = await shop.say(
        "Alo?", {"answer": "A."}, {"answer": "B."}, conversation=stopped.conversation_id
    )

    run = await shop.read(lambda tx: tx.runs.get(stopped.run_id))
    assert (run.status, run.stop_reason) == (RunStatus.DONE, StopReason.ANSWERED)
    assert run.usage.input_tokens >= 700
    assert following.stop_reason is StopReason.ANSWERED
    assert isinstance(observations(stopped)[0], Observation)


async def test_a_reply_of_thousands_of_calls_is_not_stored(shop_url: str):
    def decide(request: ModelRequest):
        flood = [("probe", "") for _ in range(5_000)]
        return flood if len(model.requests) == 1 else "Vâng."

    model = FunctionModel(decide)
    async with open_agent(shop_url, tools=[Reading()], model=model) as shop:
        result = await take(shop, "hi")

    assert result.stop_reason is StopReason.ANSWERED
    assert observations(result) == []


async def test_a_model_that_is_set_up_wrongly_stops_the_run_and_the_customer_is_told(shop: Shop):
    """The operator gets the error that says what to mend; the customer a true, polite sentence."""

    async def refuse(request: ModelRequest):
        raise ConfigurationError("the key is wrong", setting="OPENAI_API_KEY")

    async with open_agent(shop.url, model=FunctionModel(refuse)) as opened:
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
            await take(opened, "A100?")

    assert rows(shop.url, "SELECT status, stop_reason FROM runs") == [
        ("stopped", "model_unavailable")
    ]
    last = rows(shop.url, "SELECT author, text FROM messages ORDER BY seq DESC LIMIT 1")
    assert last == [("agent", stop_sentence(StopReason.MODEL_UNAVAILABLE, "vi"))]
    assert (await shop.say("Alo?")).stop_reason is StopReason.ANSWERED

"""Runs, their steps and calls: what goes in comes back, once and in order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.conversation import Assurance, Author, Conversation
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    Decision,
    FinalAnswer,
    Observation,
    RecordedCall,
    Run,
    RunStatus,
    RunStep,
    StopReason,
    ToolCall,
    Usage,
)
from support_agent.ports.storage import RunEnd, Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
CONVERSATION = Conversation(
    id="conv_1",
    channel="cli",
    account="default",
    external_contact="terminal",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    language="vi",
    created_at=NOW,
)
RUN = Run(
    id="run_1",
    conversation_id="conv_1",
    trigger_seq=1,
    status=RunStatus.RUNNING,
    stop_reason=None,
    assurance=Assurance.VERIFIED,
    operator="lan",
    started_at=NOW,
    epoch=1,
)
USAGE = Usage(requests=1, input_tokens=900, output_tokens=40, cost_micros=55)
END = RunEnd(
    run_id="run_1",
    status=RunStatus.DONE,
    stop_reason=StopReason.ANSWERED,
    usage=Usage(requests=3, input_tokens=2_700, output_tokens=120, cost_micros=165),
    steps=2,
    consecutive_errors=1,
    answer_seq=2,
    at=LATER,
)


@pytest.fixture
async def talk(database: SqlDatabase) -> SqlDatabase:
    """A database with one conversation."""
    await database.transact(lambda tx: tx.conversations.add(CONVERSATION))
    return database


@pytest.fixture
async def running(talk: SqlDatabase) -> SqlDatabase:
    """A database with one conversation whose run is under way."""
    assert await talk.transact(lambda tx: tx.runs.start(RUN))
    return talk


async def test_a_run_comes_back_as_started_and_as_ended(running):
    assert await running.read(lambda tx: tx.runs.get("run_1")) == RUN

    assert await running.transact(lambda tx: tx.runs.end(END)) is True

    assert await running.read(lambda tx: tx.runs.get("run_1")) == replace(
        RUN,
        status=END.status,
        stop_reason=END.stop_reason,
        usage=END.usage,
        steps=2,
        consecutive_errors=1,
        answer_seq=END.answer_seq,
    )
    assert await running.transact(lambda tx: tx.runs.end(END)) is False  # once


async def test_a_conversation_has_one_unfinished_run(running):
    second = replace(RUN, id="run_2", trigger_seq=2, epoch=2)

    assert await running.transact(lambda tx: tx.runs.start(second)) is False
    await running.transact(lambda tx: tx.runs.end(END))
    assert await running.transact(lambda tx: tx.runs.start(second)) is True


async def test_runs_are_listed_newest_first(running):
    await running.transact(lambda tx: tx.runs.end(END))
    await running.transact(lambda tx: tx.runs.start(replace(RUN, id="run_2", epoch=2)))

    def page(before: str | None, conversation_id: str | None = "conv_1"):
        def look(tx: Transaction) -> list[str]:
            found = tx.runs.list(conversation_id=conversation_id, limit=5, before=before)
            return [run.id for run in found]

        return running.read(look)

    assert await page(None) == ["run_2", "run_1"]
    assert await page("run_2") == ["run_1"]
    assert await page(None, None) == ["run_2", "run_1"]
    assert await page(None, "conv_9") == []


def calls(run_id: str, number: int, *names: str) -> CallTools:
    made = (
        ToolCall(
            id=f"{run_id}:{number}:{index}",
            provider_id=f"call_{index}",
            name=name,
            arguments='{"order_id": "A100"}',
        )
        for index, name in enumerate(names)
    )
    return CallTools(calls=tuple(made), thought="xem đơn")


def step(
    run_id: str, number: int, decision: Decision, usage: Usage = USAGE, epoch: int | None = None
):
    def work(tx: Transaction) -> bool:
        run = tx.runs.get(run_id)
        return tx.runs.add_step(
            run_id=run_id,
            number=number,
            decision=decision,
            usage=usage,
            at=NOW,
            epoch=run.epoch if epoch is None and run else epoch or 0,
        )

    return work


@pytest.mark.parametrize(
    "decision",
    [
        FinalAnswer(text="Đơn đã giao.", thought="xong"),
        AskCustomer(question="Bạn muốn hoàn đơn nào?"),
        CallTools(calls=(), thought="không gọi gì"),
        calls("run_1", 1, "lookup_order"),
        calls("run_1", 1, "lookup_order", "refund_policy", "lookup_order"),
    ],
)
async def test_a_decision_comes_back_as_it_was_made(decision, running):
    await running.transact(step("run_1", 1, decision), durable=False)

    (stored,) = await running.read(lambda tx: tx.runs.steps("run_1"))

    made = decision.calls if isinstance(decision, CallTools) else ()
    assert stored == RunStep(
        run_id="run_1",
        number=1,
        decision=decision,
        usage=USAGE,
        at=NOW,
        calls=tuple(RecordedCall(call=call, observation=None) for call in made),
    )


@pytest.mark.parametrize(
    "observation",
    [
        Observation(ok=True, content='{"status":"DELIVERED"}', quote_ids=("quote_1", "quote_2")),
        Observation(ok=False, content="ERROR ORDER_NOT_FOUND", error_code="ORDER_NOT_FOUND"),
        Observation(ok=True, content="", request_ids=("req_1",)),
    ],
)
async def test_a_call_is_answered_once_and_the_first_answer_stays(observation, running):
    decision = calls("run_1", 1, "lookup_order", "refund_policy")
    await running.transact(step("run_1", 1, decision))
    call = decision.calls[1]
    other = Observation(ok=False, content="ERROR", error_code="TOOL_FAILED")

    assert await running.transact(lambda tx: tx.runs.answer(call, observation, epoch=1)) is True
    assert await running.transact(lambda tx: tx.runs.answer(call, other, epoch=1)) is False

    (stored,) = await running.read(lambda tx: tx.runs.steps("run_1"))
    assert [recorded.observation for recorded in stored.calls] == [None, observation]


async def test_a_call_nobody_made_is_not_answered(running):
    call = calls("run_1", 1, "lookup_order").calls[0]

    answered = await running.transact(
        lambda tx: tx.runs.answer(call, Observation(ok=True, content="{}"), epoch=1)
    )

    assert answered is False


async def test_a_step_is_committed_once(running):
    await running.transact(step("run_1", 1, FinalAnswer(text="một")))

    with pytest.raises(sa.exc.IntegrityError):
        await running.transact(step("run_1", 1, FinalAnswer(text="hai")))


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d alone", "đ\x00\udfff"])
async def test_what_a_model_may_emit_can_be_stored(text, running):
    call = ToolCall(id="run_1:1:0", provider_id=text, name=text, arguments=text)

    def work(tx: Transaction) -> None:
        step("run_1", 1, CallTools(calls=(call,), thought=text))(tx)
        tx.runs.answer(call, Observation(ok=True, content=text), epoch=1)
        step("run_1", 2, FinalAnswer(text=text))(tx)
        tx.conversations.append("conv_1", author=Author.AGENT, text=text, at=NOW, run_id="run_1")

    await running.transact(work)

    first, _ = await running.read(lambda tx: tx.runs.steps("run_1"))
    kept = text.encode(errors="replace").decode().replace("\x00", "\ufffd")
    assert first.calls[0].call.name == kept
    (message,) = await running.read(lambda tx: tx.conversations.messages("conv_1"))
    assert message.text == kept


async def two_runs(database: SqlDatabase) -> None:
    """Started in the order of their messages, which is not the order of their ids."""
    await database.transact(lambda tx: tx.runs.start(replace(RUN, id="run_9")))
    await database.transact(step("run_9", 1, calls("run_9", 1, "lookup_order", "refund_policy")))
    await database.transact(step("run_9", 2, FinalAnswer(text="một")))
    await database.transact(lambda tx: tx.runs.end(replace(END, run_id="run_9")))
    await database.transact(
        lambda tx: tx.runs.start(replace(RUN, id="run_3", trigger_seq=3, epoch=2))
    )
    await database.transact(step("run_3", 1, calls("run_3", 1, "quote_refund")))


@pytest.mark.parametrize("late", ["ended", "taken over"])
async def test_an_owner_that_was_overtaken_decides_nothing(talk, late):
    await talk.transact(lambda tx: tx.runs.start(RUN))
    if late == "ended":
        await talk.transact(lambda tx: tx.runs.end(END))
    else:
        await talk.transact(lambda tx: tx.runs.take_over("conv_1", epoch=2))

    decide = step("run_1", 1, calls("run_1", 1, "lookup_order"), epoch=1)

    assert await talk.transact(decide) is False
    assert await talk.read(lambda tx: tx.runs.steps("run_1")) == ()


async def test_a_dead_owner_of_a_resumed_run_takes_no_step_of_its_budget_away(talk):
    await talk.transact(lambda tx: tx.runs.start(RUN))
    await talk.transact(
        lambda tx: tx.runs.end(replace(END, status=RunStatus.STOPPED, steps=5, answer_seq=None))
    )
    await talk.transact(lambda tx: tx.runs.reopen("run_1", epoch=2, operator=None))
    await talk.transact(lambda tx: tx.runs.take_over("conv_1", epoch=3))

    run = await talk.read(lambda tx: tx.runs.get("run_1"))
    assert run is not None
    assert run.steps == 5


async def test_the_steps_of_a_conversation_come_oldest_run_first(talk):
    await two_runs(talk)

    found = await talk.read(lambda tx: tx.runs.steps_of_conversation("conv_1"))

    assert [(one.run_id, one.number, len(one.calls)) for one in found] == [
        ("run_9", 1, 2),
        ("run_9", 2, 0),
        ("run_3", 1, 1),
    ]
    assert await talk.read(lambda tx: tx.runs.steps_of_conversation("conv_9")) == ()


async def test_a_conversation_is_read_back_in_two_queries(talk):
    await two_runs(talk)

    def count(tx: Transaction) -> int:
        asked: list[str] = []
        connection = tx._connection  # type: ignore[attr-defined]
        sa.event.listen(connection, "before_cursor_execute", lambda *event: asked.append(event[2]))
        tx.runs.steps_of_conversation("conv_1")
        return len(asked)

    assert await talk.read(count) == 2


async def test_model_calls_are_counted_over_runs_failed_attempts_included(talk):
    assert await talk.read(lambda tx: tx.runs.model_calls("conv_1")) == 0

    await two_runs(talk)

    # The first run ended with 3 requests on 2 steps; the second has one step so far.
    assert await talk.read(lambda tx: tx.runs.model_calls("conv_1")) == 4

    retried = Usage(requests=2, input_tokens=1)
    await talk.transact(step("run_3", 2, FinalAnswer(text="hai"), retried))
    await talk.transact(step("run_3", 3, FinalAnswer(text="ba"), Usage()))
    assert await talk.read(lambda tx: tx.runs.model_calls("conv_1")) == 7


async def test_a_run_left_by_a_dead_owner_is_taken_over_with_the_counters_of_its_steps(running):
    await running.transact(step("run_1", 1, calls("run_1", 1, "lookup_order")))
    await running.transact(step("run_1", 2, calls("run_1", 2, "refund_policy")))

    taken = await running.transact(lambda tx: tx.runs.take_over("conv_1", epoch=2))

    assert taken == replace(RUN, usage=USAGE + USAGE, steps=2, epoch=2, attempts=1)
    assert await running.read(lambda tx: tx.runs.get("run_1")) == taken
    assert await running.transact(step("run_1", 3, FinalAnswer(text="muộn"), epoch=1)) is False
    # The first owner got on with it. Who takes it now without doing so is one more.
    again = await running.transact(lambda tx: tx.runs.take_over("conv_1", epoch=3))
    assert again == replace(taken, epoch=3, attempts=2)
    await running.transact(lambda tx: tx.runs.end(END))
    assert await running.transact(lambda tx: tx.runs.take_over("conv_1", epoch=4)) is None


async def test_an_owner_that_stops_in_good_order_is_no_attempt(running):
    await running.transact(lambda tx: tx.runs.give_up("run_1", epoch=1))
    taken = await running.transact(lambda tx: tx.runs.take_over("conv_1", epoch=2))
    assert taken is not None
    assert taken.attempts == 1

    await running.transact(
        lambda tx: tx.runs.give_up("run_1", epoch=1)
    )  # of one overtaken: nothing
    taken = await running.transact(lambda tx: tx.runs.take_over("conv_1", epoch=3, counts=False))
    assert taken is not None
    assert taken.attempts == 1


async def test_a_stopped_run_is_reopened_with_its_counters(running):
    stopped = replace(END, status=RunStatus.STOPPED, stop_reason=StopReason.MAX_STEPS)
    reopen = lambda tx: tx.runs.reopen("run_1", epoch=4, operator=None)  # noqa: E731 - used three times below

    assert await running.transact(reopen) is False  # it runs
    await running.transact(lambda tx: tx.runs.end(stopped))
    assert await running.transact(reopen) is True

    assert await running.read(lambda tx: tx.runs.get("run_1")) == replace(
        RUN, usage=END.usage, steps=2, consecutive_errors=1, epoch=4
    )
    assert await running.transact(lambda tx: tx.runs.end(END)) is True
    assert await running.transact(reopen) is False  # it is done


async def test_a_run_is_not_reopened_beside_another(running):
    stopped = replace(END, status=RunStatus.STOPPED, stop_reason=StopReason.MAX_STEPS)
    await running.transact(lambda tx: tx.runs.end(stopped))
    await running.transact(lambda tx: tx.runs.start(replace(RUN, id="run_2", epoch=2)))

    assert (
        await running.transact(lambda tx: tx.runs.reopen("run_1", epoch=3, operator=None)) is False
    )

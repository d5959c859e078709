"""Cuts of the view as they are stored, and what is read behind them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.conversation import Assurance, Author, Conversation
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.runs import (
    CallTools,
    FinalAnswer,
    Run,
    RunStatus,
    StopReason,
    ToolCall,
    Usage,
)
from support_agent.ports.storage import Compaction, MadeBy, RunEnd, Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
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
CUT = Compaction(
    conversation_id="conv_1",
    number=1,
    at=NOW,
    through_seq=4,
    digested_run_id="run_3",
    digested_step=2,
    facts={"orders": [{"id": "A100", "status": "DELIVERED"}], "wishes": ["hoàn tiền"]},
    masks={"phone": {"0912345678": 1}},
    summary="customer: Đơn A100?",
    made_by=MadeBy.MODEL,
    model_calls=7,
)


@pytest.fixture
async def talk(database: SqlDatabase) -> SqlDatabase:
    """A database with one conversation."""
    await database.transact(lambda tx: tx.conversations.add(CONVERSATION))
    return database


async def test_the_newest_cut_comes_back_as_it_was_made(talk):
    second = replace(CUT, number=2, digested_run_id=None, digested_step=0, made_by=MadeBy.CODE)

    assert await talk.read(lambda tx: tx.compactions.newest("conv_1")) is None
    await talk.transact(lambda tx: tx.compactions.add(CUT))
    assert await talk.read(lambda tx: tx.compactions.newest("conv_1")) == CUT
    await talk.transact(lambda tx: tx.compactions.add(second))
    assert await talk.read(lambda tx: tx.compactions.newest("conv_1")) == second
    assert await talk.read(lambda tx: tx.compactions.newest("conv_2")) is None


async def test_of_two_owners_the_faster_ones_cut_stands(talk):
    await talk.transact(lambda tx: tx.compactions.add(CUT))
    await talk.transact(lambda tx: tx.compactions.add(replace(CUT, summary="x", through_seq=9)))

    assert await talk.read(lambda tx: tx.compactions.newest("conv_1")) == CUT


async def test_a_summary_that_no_database_can_hold_is_made_storable(talk):
    await talk.transact(lambda tx: tx.compactions.add(replace(CUT, summary="a\0b\ud800")))

    found = await talk.read(lambda tx: tx.compactions.newest("conv_1"))
    assert found.summary == "a\ufffdb?"


@pytest.mark.parametrize("wrong", [{"number": 0}, {"through_seq": -1}, {"model_calls": -1}])
async def test_a_cut_that_cannot_be_is_refused(talk, wrong):
    with pytest.raises((SupportAgentError, sa.exc.IntegrityError)):
        await talk.transact(lambda tx: tx.compactions.add(replace(CUT, **wrong)))


async def test_only_the_runs_behind_the_cut_are_read(talk):
    def fill(tx: Transaction) -> None:
        for number in range(1, 4):
            run_id = f"run_{number}"
            seq = tx.conversations.append(
                "conv_1", author=Author.CUSTOMER, text="A100?", at=NOW, run_id=run_id
            )
            tx.runs.start(
                Run(
                    id=run_id,
                    conversation_id="conv_1",
                    trigger_seq=seq,
                    status=RunStatus.RUNNING,
                    stop_reason=None,
                    assurance=Assurance.VERIFIED,
                    operator=None,
                    started_at=NOW,
                )
            )
            call = ToolCall(id=f"{run_id}:1:0", provider_id="p", name="t", arguments="{}")
            for step, decision in enumerate((CallTools(calls=(call,)), FinalAnswer(text="x")), 1):
                tx.runs.add_step(
                    run_id=run_id,
                    number=step,
                    decision=decision,
                    usage=Usage(requests=1),
                    at=NOW,
                    epoch=0,
                )
            tx.runs.end(
                RunEnd(
                    run_id=run_id,
                    status=RunStatus.DONE,
                    stop_reason=StopReason.ANSWERED,
                    usage=Usage(requests=2),
                    steps=2,
                    consecutive_errors=0,
                    answer_seq=None,
                    at=NOW,
                )
            )

    await talk.transact(fill)

    def behind(seq: int) -> tuple[list[str], int]:
        def look(tx: Transaction) -> tuple[list[str], int]:
            steps = tx.runs.steps_of_conversation("conv_1", after_seq=seq)
            asked = tx.runs.model_calls("conv_1", after_seq=seq)
            assert all(step.calls for step in steps if isinstance(step.decision, CallTools))
            return sorted({step.run_id for step in steps}), asked

        return look

    assert await talk.read(behind(0)) == (["run_1", "run_2", "run_3"], 6)
    assert await talk.read(behind(1)) == (["run_2", "run_3"], 4)
    assert await talk.read(behind(3)) == ([], 0)

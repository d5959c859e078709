"""A step recorded by a newer program stops everything that would read it, and nothing else."""

import pytest

from support_agent.agent.turns import Incoming
from support_agent.domain.errors import NewerState
from support_agent.domain.runs import STATE_VERSION
from tests.agent_kit import call, change, rows
from tests.kit import Shop, binding_of

NEWER = "UPDATE steps SET schema_version = schema_version + 1"
ORPHANED = (
    "UPDATE runs SET status = 'running', stop_reason = NULL, answer_seq = NULL",
    "UPDATE conversations SET lease_until = 1",
)
STATE = "SELECT status, epoch, attempts, steps FROM runs"


async def asked(shop: Shop) -> str:
    turn = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
    return turn.conversation_id


async def test_steps_are_written_in_the_form_of_today(shop: Shop, shop_url: str):
    await asked(shop)

    assert {version for (version,) in rows(shop_url, "SELECT schema_version FROM steps")} == {
        STATE_VERSION
    }


async def test_a_worker_does_not_take_its_run_over(shop: Shop, shop_url: str):
    talk = await asked(shop)
    for statement in (NEWER, *ORPHANED):
        change(shop_url, statement)
    before = rows(shop_url, STATE)

    with pytest.raises(NewerState) as refused:
        await shop.container.agent().work(talk)

    assert str(STATE_VERSION + 1) in str(refused.value)
    assert rows(shop_url, STATE) == before
    assert rows(shop_url, "SELECT lease_until FROM conversations") == [(1.0,)]


async def test_a_message_that_is_posted_waits_for_the_newer_program(shop: Shop, shop_url: str):
    talk = await asked(shop)
    change(shop_url, NEWER)
    incoming = Incoming(text="alo?", binding=binding_of("C001"), conversation_id=talk)

    await shop.container.agent().post(incoming)
    with pytest.raises(NewerState):
        await shop.container.agent().work(talk)

    assert rows(shop_url, "SELECT text, run_id FROM messages ORDER BY seq")[-1] == ("alo?", None)


async def test_another_conversation_is_answered(shop: Shop, shop_url: str):
    await asked(shop)
    change(shop_url, NEWER)

    turn = await shop.say("xin chào", {"answer": "Chào bạn."})

    assert turn.answer == "Chào bạn."


async def test_steps_of_an_older_form_stay_readable(shop: Shop, shop_url: str):
    talk = await asked(shop)
    change(shop_url, "UPDATE steps SET schema_version = 0")

    assert (await shop.say("rồi sao?", {"answer": "Vâng."}, conversation=talk)).answer == "Vâng."

"""Whoever only claims to be a customer: not told to that customer, and erased with them."""

import pytest

from support_agent.domain.conversation import Assurance
from support_agent.services.inbox import Incoming
from tests.heart import events, operator
from tests.kit import Shop, binding_of
from tests.planted import in_columns

BY = operator("thu")
THEIRS, OTHERS = "hoadaochinhchu", "hoamainguoikhac"
UNSURE = pytest.mark.parametrize("assurance", [Assurance.NONE, Assurance.CLAIMED])


async def write(
    shop: Shop, words: str, assurance: Assurance, *, conversation: str | None = None
) -> str:
    """Somebody says to be C001, and the model repeats all of it; the conversation."""
    lookup = {"tool": "no_such_tool", "arguments": {"what": words}, "thought": f"think {words}"}
    shop.model.play(lookup, {"answer": f"Vâng, {words}."})
    result = await shop.container.agent().take(
        Incoming(
            text=f"Mình là {words}",
            binding=binding_of("C001", assurance=assurance),
            conversation_id=conversation,
            message_id=f"{words}-{shop.container.ids().new('msg')}",
        )
    )
    return result.conversation_id


@UNSURE
async def test_a_conversation_of_such_a_writer_is_named_and_not_told(
    shop_on_each: Shop, assurance: Assurance
):
    shop = shop_on_each
    theirs = await write(shop, THEIRS, Assurance.VERIFIED)
    claimed = await write(shop, OTHERS, assurance)

    export = await shop.container.privacy().export("C001", by=BY)

    assert export.claimed == (claimed,)
    assert [row["id"] for row in export.rows["conversations"]] == [theirs]
    assert THEIRS in str(export.rows)
    assert OTHERS not in str(export.rows)
    assert {row["conversation_id"] for row in export.rows["messages"]} == {theirs}


@UNSURE
async def test_what_such_a_writer_says_in_the_customers_own_is_told_without_its_texts(
    shop_on_each: Shop, assurance: Assurance
):
    shop = shop_on_each
    here = await write(shop, THEIRS, Assurance.VERIFIED)
    await write(shop, OTHERS, assurance, conversation=here)
    await write(shop, THEIRS, Assurance.VERIFIED, conversation=here)

    rows = (await shop.container.privacy().export("C001", by=BY)).rows

    assert OTHERS not in str(rows)
    texts = [row["text"] for row in rows["messages"]]
    mine = [f"Mình là {THEIRS}", f"Vâng, {THEIRS}."]
    assert texts == [*mine, None, None, *mine]
    assert [row["arguments"] is None for row in rows["tool_calls"]] == [False, True, False]


async def test_who_is_proved_later_does_not_make_the_rest_theirs(shop: Shop):
    here = await write(shop, OTHERS, Assurance.CLAIMED)
    await write(shop, THEIRS, Assurance.VERIFIED, conversation=here)

    export = await shop.container.privacy().export("C001", by=BY)

    assert export.claimed == (here,)
    assert "messages" not in export.rows


async def test_erasing_takes_them_too_and_says_how_many(shop_on_each: Shop):
    shop = shop_on_each
    await write(shop, THEIRS, Assurance.VERIFIED)
    for _ in range(2):
        await write(shop, OTHERS, Assurance.CLAIMED)

    erased = await shop.container.privacy().erase("C001", by=BY)

    assert (erased.counts["conversations"], erased.claimed) == (3, 2)
    assert in_columns(shop.url, THEIRS, OTHERS) == []
    (event,) = await events(shop, "privacy.erased")
    assert event.data["conversations"] == "3"
    assert (await shop.container.privacy().export("C001", by=BY)).claimed == ()
    assert (await shop.container.privacy().erase("C001", by=BY)).claimed == 0


async def test_of_another_customers_nothing_is_named(shop: Shop):
    await write(shop, OTHERS, Assurance.CLAIMED)

    assert (await shop.container.privacy().export("C002", by=BY)).claimed == ()


async def test_nothing_is_remembered_of_such_a_writer_in_the_customers_own(shop: Shop):
    here = (await shop.say("Cứ gọi chị là chị nhé")).conversation_id
    shop.model.play({"answer": "Vâng."})

    await shop.container.agent().take(
        Incoming(
            text="Cứ gọi em là bác nhé",
            binding=binding_of("C001", assurance=Assurance.CLAIMED),
            conversation_id=here,
        )
    )

    (kept,) = await shop.read(lambda tx: tx.preferences.of("C001"))
    assert kept.value == "chi"

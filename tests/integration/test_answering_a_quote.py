"""A yes moves money only when it answers the quote, as shown, by whom the channel vouched for."""

import pytest

from support_agent.agent.answers import MOST_ANSWER_CHARS
from support_agent.agent.turns import Incoming
from support_agent.domain.conversation import Assurance
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import StopReason
from tests.heart import attack
from tests.kit import Shop, binding_of


def filing(quoted):
    return {"tool": "request_refund", "arguments": {"quote_id": quoted.quotes[0].id}}


async def test_an_open_quote_stands_at_the_end_of_every_answer(shop: Shop):
    quoted = await shop.quote("A102")
    question = "Xem giúp đơn A101 luôn không?"
    asked = await shop.say(
        "mất mấy ngày?", {"answer": question}, conversation=quoted.conversation_id
    )

    assert asked.stop_reason is StopReason.ASKED_CUSTOMER
    assert asked.answer.index(question) < asked.answer.index(f"Báo giá {quoted.quotes[0].id}")
    paid = await shop.answer(quoted, "đồng ý")
    assert paid.requests[0].status is RequestStatus.REFUNDED


async def test_a_quote_that_was_answered_is_not_shown_again(shop: Shop):
    for answer in ("đồng ý", "không"):
        quoted = await shop.quote("A102")
        later = await shop.say(answer, {"answer": "Vâng."}, conversation=quoted.conversation_id)
        assert later.quotes == ()
        assert "Báo giá" not in later.answer


async def test_a_yes_after_a_notice_is_not_a_yes_to_the_quote(shop: Shop):
    """The customer may be answering "your other refund was paid"."""
    waiting = await shop.filed("A100")
    quoted = await shop.quote("A102", conversation=waiting.conversation_id)
    by = await shop.approver("lan")
    await shop.container.approvals().approve(waiting.id, by=by)
    await shop.container.payouts().pay(waiting.id)

    result = await shop.answer(quoted, "ok")

    assert result.requests == ()
    assert [quote.id for quote in result.quotes] == [quoted.quotes[0].id]
    assert "CONSENT_UNCLEAR" in result.steps[0].calls[0].observation.content
    again = await shop.answer(quoted, "đồng ý")  # the answer above showed it again
    assert again.requests[0].status is RequestStatus.REFUNDED


async def test_a_yes_after_an_apology_is_not_a_yes_to_the_quote(shop: Shop):
    quoted = await shop.quote("A102")
    await shop.say("mấy ngày?", {"error": "503"}, conversation=quoted.conversation_id)

    result = await shop.answer(quoted, "ok")

    assert result.requests == ()


async def test_a_yes_that_is_repeated_stays_a_yes(shop: Shop):
    """The model did not file after the first one."""
    quoted = await shop.quote("A102")
    await shop.say("đồng ý", {"answer": "Vâng."}, conversation=quoted.conversation_id)

    result = await shop.answer(quoted, "đồng ý")

    assert result.requests[0].status is RequestStatus.REFUNDED


async def test_a_no_stands_until_there_is_a_new_quote(shop: Shop):
    quoted = await shop.quote("A102")
    await shop.say("không", {"answer": "Vâng."}, conversation=quoted.conversation_id)

    refused = await shop.answer(quoted, "đồng ý")
    fresh = await shop.quote("A102", conversation=quoted.conversation_id)
    paid = await shop.answer(fresh, "đồng ý")

    assert "CONSENT_REFUSED" in refused.steps[0].calls[0].observation.content
    assert paid.requests[0].status is RequestStatus.REFUNDED


async def test_a_flood_of_words_does_not_push_the_quote_away(shop: Shop):
    flood = "a" * 30_000
    result = await shop.say(
        "hoàn tiền A102",
        {"tool": "quote_refund", "arguments": {"order_id": "A102"}},
        {"answer": flood},
    )

    assert len(result.answer) < MOST_ANSWER_CHARS + 1_000
    assert f"Báo giá {result.quotes[0].id}" in result.answer


@pytest.mark.parametrize(
    "change",
    [
        "amount_minor = 120000, lines = replace(lines, '1000', '120000')",
        "destination = 'ledger:shop-main:led_A103_1'",
        "shown_seq = 0",
        "expires_at = '2030-01-01 00:00:00.000000'",
    ],
)
async def test_only_the_terms_that_were_shown_can_be_filed(shop: Shop, change: str):
    quoted = await shop.quote("A102", amount=1000)
    attack(shop.url, f"UPDATE quotes SET {change}")  # noqa: S608 - the attack

    result = await shop.answer(quoted, "đồng ý")

    assert result.requests == ()
    assert await shop.read(lambda tx: tx.books.of_order("A102").taken_minor) == 0


async def test_a_resumed_run_is_no_surer_of_the_customer_than_the_channel_was(shop: Shop):
    quoted = await shop.quote("A102")
    shop.model.play({"error": "503"})
    stopped = await shop.container.agent().take(
        Incoming(
            text="đồng ý",
            binding=binding_of("C001", assurance=Assurance.CLAIMED),
            conversation_id=quoted.conversation_id,
        )
    )
    shop.model.play(filing(quoted), {"answer": "Xong."})

    result = await shop.container.agent().resume(stopped.run_id, operator="op", via="test")

    assert "IDENTITY_NOT_VERIFIED" in result.steps[-2].calls[0].observation.content
    assert result.requests == ()

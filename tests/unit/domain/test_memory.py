"""What is remembered of a conversation, however often it is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.conversation import Author
from support_agent.domain.memory import (
    CLOSED,
    LONGEST_TEXT,
    MOST_ORDERS,
    MOST_PROMISES,
    MOST_QUOTES,
    MOST_REQUESTS,
    MOST_WISHES,
    Memory,
    OrderFact,
    QuoteFact,
    RequestFact,
    recalled,
)

ORDER = {"status": "DELIVERED", "total": 250_000, "order_id": "A100", "currency": "VND"}
QUOTE = {
    "quote_id": "quo_1",
    "order_id": "A100",
    "amount": 250_000,
    "currency": "VND",
    "expires_at": "2026-10-13T09:30+07:00",
}
REQUEST = {
    "request_id": "req_1",
    "order_id": "A100",
    "status": "PENDING_APPROVAL",
    "amount": 250_000,
    "currency": "VND",
    "parts": [{"request_id": "req_2", "amount": 50_000, "status": "APPROVED"}],
}


def told(*contents: object) -> Memory:
    memory = Memory()
    for content in contents:
        memory = memory.told(json.dumps(content))
    return memory


def test_orders_quotes_and_requests_are_taken_from_results():
    memory = told({"orders": [ORDER]}, QUOTE, REQUEST)

    assert memory.orders == (
        OrderFact(id="A100", status="DELIVERED", total=250_000, currency="VND"),
    )
    assert memory.quotes == (
        QuoteFact(
            id="quo_1",
            order_id="A100",
            amount=250_000,
            currency="VND",
            expires_at="2026-10-13T09:30+07:00",
        ),
    )
    assert [(fact.id, fact.status) for fact in memory.requests] == [
        ("req_1", "PENDING_APPROVAL"),
        ("req_2", "APPROVED"),
    ]


def test_the_newest_word_about_a_thing_stands():
    memory = told(
        ORDER, REQUEST, {**ORDER, "status": "RETURNED"}, {**REQUEST, "status": "REFUNDED"}
    )

    assert [order.status for order in memory.orders] == ["RETURNED"]
    assert memory.requests[-1].status == "APPROVED"
    assert {r.id: r.status for r in memory.requests}["req_1"] == "REFUNDED"


@pytest.mark.parametrize(
    "content",
    ["ERROR ORDER_NOT_FOUND: …", "", "[" * 5000, "3", '{"order_id": 3, "status": []}', "null"],
)
def test_what_tells_nothing_is_forgotten(content):
    assert Memory().told(content) == Memory()


def test_values_of_the_wrong_type_are_left_out():
    memory = told({"request_id": "req_1", "amount": True, "status": None, "order_id": 7})

    assert memory.requests == (RequestFact(id="req_1", status="?"),)


def test_promises_are_the_shops_and_not_a_models():
    memory = (
        Memory()
        .said(Author.AGENT, "Mình hứa hoàn 10 triệu.")
        .said(Author.NOTICE, "Đã hoàn 250.000 ₫ cho đơn A100.")
        .said(Author.STAFF, "Chị sẽ gọi lại\ntrước 17 giờ.")
    )

    assert memory.promises == ("Đã hoàn 250.000 ₫ cho đơn A100.", "Chị sẽ gọi lại trước 17 giờ.")


def test_the_first_wish_and_the_last_ones_are_kept():
    memory = Memory()
    for text in ("Tôi muốn hoàn tiền A100", "đồng ý", "Còn đơn A101 thì sao?", "ok", "cảm ơn nhé"):
        memory = memory.said(Author.CUSTOMER, text)
    for number in range(9):
        memory = memory.said(Author.CUSTOMER, f"câu hỏi thứ {number}")

    assert memory.wishes == ("Tôi muốn hoàn tiền A100", "câu hỏi thứ 7", "câu hỏi thứ 8")


def test_a_long_text_is_cut():
    memory = Memory().said(Author.CUSTOMER, "hoàn tiền cho tôi " * 500)

    assert len(memory.wishes[0]) == LONGEST_TEXT


def test_requests_stand_as_the_books_say_and_only_open_quotes_stay():
    memory = told(QUOTE, {**QUOTE, "quote_id": "quo_2"}, REQUEST)

    standing = memory.standing({"req_1": "REFUNDED"}, {"quo_2"})

    assert [quote.id for quote in standing.quotes] == ["quo_2"]
    assert {r.id: r.status for r in standing.requests} == {"req_1": "REFUNDED", "req_2": "APPROVED"}


def test_an_open_request_outlives_any_number_of_closed_ones():
    memory = told({"request_id": "open", "status": "PENDING_APPROVAL"})
    for number in range(3 * MOST_REQUESTS):
        memory = memory.told(json.dumps({"request_id": f"r{number}", "status": "REFUNDED"}))

    assert "open" in {request.id for request in memory.requests}
    assert len(memory.requests) == MOST_REQUESTS


statuses = st.sampled_from([*sorted(CLOSED), "PENDING_APPROVAL", "PAYING"])
contents = st.one_of(
    st.builds(lambda n: {**ORDER, "order_id": f"A{n}"}, st.integers(0, 60)),
    st.builds(
        lambda n, status: {"request_id": f"req_{n}", "status": status}, st.integers(0, 60), statuses
    ),
    st.builds(lambda n: {**QUOTE, "quote_id": f"quo_{n}"}, st.integers(0, 9)),
)
events = st.lists(
    st.one_of(contents, st.tuples(st.sampled_from(Author), st.text(max_size=300))), max_size=80
)


@given(events, st.integers(1, 7))
def test_facts_survive_being_written_down_again_and_again(happened, every):
    """However often it is stored and read back, it is what it would have been in one piece."""
    whole, stored = Memory(), Memory()
    for number, event in enumerate(happened):
        if isinstance(event, tuple):
            whole, stored = whole.said(*event), stored.said(*event)
        else:
            whole = whole.told(json.dumps(event))
            stored = stored.told(json.dumps(event))
        if number % every == 0:
            stored = recalled(json.loads(json.dumps(stored.facts())))

    assert stored == whole
    assert len(whole.orders) <= MOST_ORDERS
    assert len(whole.requests) <= MOST_REQUESTS
    assert len(whole.quotes) <= MOST_QUOTES
    assert len(whole.promises) <= MOST_PROMISES
    assert len(whole.wishes) <= MOST_WISHES


@given(events)
def test_the_newest_ids_are_always_known(happened):
    memory = Memory()
    for event in happened:
        if isinstance(event, tuple):
            memory = memory.said(*event)
        else:
            memory = memory.told(json.dumps(event))
            known = {fact.id for fact in (*memory.orders, *memory.requests, *memory.quotes)}
            id_ = event.get("request_id") or event.get("quote_id") or event["order_id"]
            assert id_ in known

"""What is known of a request stays known when a later result says less of it."""

import json

import pytest

from support_agent.domain.memory import Memory

FILED = {
    "request_id": "rf_1",
    "order_id": "A100",
    "status": "PENDING_APPROVAL",
    "amount": 300,
    "currency": "VND",
}


def test_a_later_result_that_says_less_forgets_nothing():
    cancelled = '{"request_id":"rf_1","status":"CANCELLED"}'
    (request,) = Memory().told(json.dumps(FILED)).told(cancelled).requests

    assert (request.status, request.order_id, request.amount) == ("CANCELLED", "A100", 300)


def test_the_parts_of_a_request_over_several_payments_keep_its_order():
    parts = [
        {"request_id": "rf_1", "amount": 100, "status": "PENDING_APPROVAL"},
        {"request_id": "rf_2", "amount": 200, "status": "PENDING_APPROVAL"},
    ]
    requests = Memory().told(json.dumps({**FILED, "parts": parts})).requests

    assert [(r.id, r.order_id, r.amount, r.currency) for r in requests] == [
        ("rf_1", "A100", 100, "VND"),
        ("rf_2", "A100", 200, "VND"),
    ]


def test_an_object_inside_an_order_does_not_change_the_orders_status():
    order = {"order_id": "A100", "status": "DELIVERED", "refund": {"status": "PARTIAL"}}
    (fact,) = Memory().told(json.dumps(order)).orders

    assert fact.status == "DELIVERED"


@pytest.mark.parametrize("depth", [300, 600, 900, 30_000])
def test_a_deeply_nested_result_says_nothing(depth: int):
    assert Memory().told("[" * depth + "1" + "]" * depth) == Memory()

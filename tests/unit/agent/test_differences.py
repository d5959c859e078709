"""Two observations side by side: what differs, field by field, and what may differ."""

import json

import pytest

from support_agent.agent.differences import Allowance, differences, renamed
from support_agent.domain.runs import Observation

ALL_COUNTS = Allowance()
MADE_ANEW = Allowance(ids={"quo_new": "quo_old"}, moments=True)


def seen(content: object, *, error: str | None = None) -> Observation:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return Observation(ok=error is None, content=text, error_code=error)


def told(recorded: Observation, now: Observation, allowed: Allowance = ALL_COUNTS):
    return [(one.field, one.recorded, one.now) for one in differences(recorded, now, allowed)]


@pytest.mark.parametrize(
    ("recorded", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": 1}, {}, [("a", 1, None)]),
        ({}, {"a": False}, [("a", None, False)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a.b", [1, 2], [1, 3])]),
        ({"a": {"b": 1}}, {"a": "b"}, [("a", {"b": 1}, "b")]),
        ({"a": True}, {"a": 1}, [("a", True, 1)]),
    ],
)
def test_fields_are_compared_one_by_one(recorded, now, expected):
    assert told(seen(recorded), seen(now)) == expected


def test_rows_with_ids_are_compared_by_id_and_not_by_place():
    recorded = {"orders": [{"order_id": "A1", "status": "SHIPPING"}, {"order_id": "A2", "n": 1}]}
    now = {
        "orders": [
            {"order_id": "A3", "n": 2},
            {"order_id": "A1", "status": "DELIVERED"},
            {"order_id": "A2", "n": 1},
        ]
    }

    assert told(seen(recorded), seen(now)) == [
        ("orders[A1].status", "SHIPPING", "DELIVERED"),
        ("orders[A3]", None, {"order_id": "A3", "n": 2}),
    ]


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ([{"order_id": "A1"}, {"order_id": "A1"}], [{"order_id": "A1"}]),  # no id of its own
        ([{"amount": 1}], [{"amount": 2}]),  # none at all
        (["x"], [{"order_id": "A1"}]),
    ],
)
def test_lists_without_ids_are_compared_whole(recorded, now):
    assert told(seen({"list": recorded}), seen({"list": now})) == [("list", recorded, now)]


def test_ids_and_moments_of_what_is_made_anew_say_nothing():
    recorded = {"quote_id": "quo_old", "expires_at": "2026-10-13T09:30+07:00", "amount": 1}
    now = {"quote_id": "quo_new", "expires_at": "2026-10-20T11:00+07:00", "amount": 1}

    assert told(seen(recorded), seen(now), MADE_ANEW) == []
    assert [field for field, *_ in told(seen(recorded), seen(now))] == ["quote_id", "expires_at"]


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("2026-10-31", "2026-11-30"),  # a day is a fact of the order or the policy
        ("2026-10-13T09:30+07:00", None),
        ("2026-10-13T09:30+07:00", "Today"),
        ("Tuesday", "Tonight"),
    ],
)
def test_only_two_moments_are_both_moments(recorded, now):
    assert told(seen({"until": recorded}), seen({"until": now}), MADE_ANEW) == [
        ("until", recorded, now)
    ]


def test_a_refusal_is_compared_as_a_whole_with_its_code():
    quoted = seen({"quote_id": "quo_old"})
    refused = seen("ERROR WINDOW_CLOSED: quá hạn", error="WINDOW_CLOSED")

    assert told(quoted, refused) == [
        ("ok", True, False),
        ("error_code", None, "WINDOW_CLOSED"),
        ("content", quoted.content, refused.content),
    ]
    assert told(refused, refused) == []
    other = seen("ERROR WINDOW_CLOSED: quá hạn 3 ngày", error="WINDOW_CLOSED")
    assert told(refused, other) == [("content", refused.content, other.content)]


@pytest.mark.parametrize("content", ["not JSON", "[1]", '"a"'])
def test_what_is_no_object_is_compared_as_text(content):
    assert told(seen(content), seen(content)) == []
    assert told(seen(content), seen({"a": 1})) == [("content", content, '{"a": 1}')]


def test_ids_are_renamed_inside_a_text():
    assert renamed("báo giá quo_new!", {"quo_new": "quo_old"}) == "báo giá quo_old!"

"""What a problem carries beside its words: what a client acts on, and nothing that is secret."""

import json
from datetime import UTC, datetime

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request

from support_agent.api.problems import MEMBERS, Problem, members_of, problem_response
from support_agent.domain import errors
from support_agent.domain.reasons import Reason

AT = datetime(2026, 10, 13, 2, tzinfo=UTC)
REQUEST = Request(
    {
        "type": "http",
        "method": "GET",
        "headers": [],
        "query_string": b"",
        "state": {"request_id": "r"},
    }
)


def told(error: Exception) -> dict:
    return json.loads(problem_response(REQUEST, error).body)


@pytest.mark.parametrize(
    ("error", "members"),
    [
        (
            errors.AlreadyDecided("req_1", status="REFUNDED", by="lan", at=AT),
            {"request_status": "REFUNDED", "by": "lan", "at": "2026-10-13T02:00:00Z"},
        ),
        (
            errors.AlreadyDecided("req_1", status="CANCELLED", by=None, at=None),
            {"request_status": "CANCELLED"},
        ),
        (
            errors.SecondPersonNeeded("req_1", status="PENDING_APPROVAL", by="lan", at=AT),
            {"request_status": "PENDING_APPROVAL", "by": "lan", "at": "2026-10-13T02:00:00Z"},
        ),
        (
            errors.StaleDecision("req_1", expected=1, actual=2),
            {"expected_version": 1, "version": 2},
        ),
        (errors.RequestExpired("req_1", at=AT), {"at": "2026-10-13T02:00:00Z"}),
        (
            errors.IllegalTransition("req_1", current="PAYING", wanted="CANCELLED"),
            {"request_status": "PAYING", "wanted_status": "CANCELLED"},
        ),
        (
            errors.TaskAlreadyDone("task_1", by="thu", at=AT),
            {"by": "thu", "at": "2026-10-13T02:00:00Z"},
        ),
        (
            errors.InsufficientAuthority("too much", limit=2_000_000, others=("tuan",)),
            {"limit_minor": 2_000_000, "others": ["tuan"]},
        ),
        (errors.ScopeMissing(("tasks:read",)), {"scopes": ["tasks:read"]}),
        (
            errors.ConversationBusy("con_1", left_s=3.5),
            {"conversation_id": "con_1", "left_s": 3.5},
        ),
        (errors.RunBusy("run_1", "con_1", left_s=2), {"run_id": "run_1", "left_s": 2}),
        (errors.RequestNotFound("req_1"), {}),
        (errors.InvalidInput("amount", "is wrong"), {}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_gives_its_data(error, members):
    body = told(error)

    assert {name: body[name] for name in body.keys() - Problem.model_fields.keys()} == members


def test_a_refusal_gives_its_reason_in_both_languages():
    body = told(errors.RefundRefused(Reason.ALREADY_PAYING))

    assert (body["code"], body["reason"]) == ("REFUND_REFUSED", "ALREADY_PAYING")
    assert body["sentences"]["vi"] != body["sentences"]["en"] != ""


def test_no_member_has_the_name_of_one_that_every_problem_has():
    for members in MEMBERS.values():
        assert not members.keys() & Problem.model_fields.keys()


def test_what_is_not_told_of_an_error_stays_untold():
    held = errors.StillInUse("C001", requests=["req_1"], answering=(), with_staff=())

    assert members_of(held) == {}


@pytest.mark.parametrize(
    ("body", "path", "pointer"),
    [
        ({"decision": "reduce"}, ("reduce", "amount"), "/amount"),
        ({"amount": {"x": 1}}, ("reduce", "amount", "x"), "/amount/x"),
        ({"amount": {}}, ("reduce", "amount", "currency"), "/amount/currency"),
        ({"a": [{"b": 1}]}, ("a", 0, "b"), "/a/0/b"),
        ({}, ("a/b~",), "/a~1b~0"),
        ([1], (), ""),
    ],
)
def test_a_pointer_points_into_the_body_as_it_was_sent(body, path, pointer):
    wrong = [{"loc": ("body", *path), "msg": "wrong", "type": "wrong"}]

    (field,) = told(RequestValidationError(wrong, body=body))["errors"]

    assert field["pointer"] == pointer


@pytest.mark.parametrize(
    "error",
    [
        errors.DatabaseUnavailable("cannot reach postgresql://agent@10.0.0.5:5432/support"),
        errors.OrdersUnavailable("cannot read: host 10.0.0.5, user agent"),
        errors.ModelUnavailable("http://10.0.0.5:11434 said: agent"),
    ],
)
def test_what_is_away_does_not_tell_anybody_where_it_is(error):
    problem = told(error)

    assert (problem["status"], problem["code"]) == (503, error.code)
    assert problem["detail"]
    assert "10.0.0.5" not in json.dumps(problem)
    assert "agent" not in json.dumps(problem)

"""Which rows of the outbox are events to other systems, and when one is tried again."""

from datetime import UTC, datetime

import pytest

from support_agent.domain.webhooks import PAUSES_S, TOPICS, EventType, event_id, event_of, pause_s

AT = datetime(2026, 10, 13, 3, tzinfo=UTC)
E = EventType
FACTS = {
    "request_id": "rf_1",
    "order_id": "A100",
    "status": "PENDING_APPROVAL",
    "version": "3",
    "amount_minor": "250000",
    "currency": "VND",
    "required_level": "1",
    "escalations": "0",
}
TOLD = {
    "request_id": "rf_1",
    "order_id": "A100",
    "status": "PENDING_APPROVAL",
    "version": 3,
    "amount_minor": 250000,
    "currency": "VND",
}
RUN = {"run_id": "run_1", "conversation_id": "con_1", "status": "done", "stop_reason": "answered"}


@pytest.mark.parametrize(
    ("topic", "facts", "kind", "more"),
    [
        ("refund.filed", {}, E.APPROVAL_REQUESTED, {"required_level": 1}),
        ("refund.filed", {"status": "APPROVED"}, None, {}),  # by itself, no person was asked
        (
            "refund.pending_approval",
            {"was": "APPROVED", "reason": "BALANCE_CHANGED"},
            E.APPROVAL_REQUESTED,
            {"required_level": 1, "reason": "BALANCE_CHANGED"},
        ),
        (
            "refund.pending_approval",
            {"was": "FAILED", "reason": "RETRIED"},
            E.APPROVAL_REQUESTED,
            {"required_level": 1, "reason": "RETRIED"},
        ),
        ("refund.pending_approval", {"was": "PENDING_APPROVAL", "asked": "customer"}, None, {}),
        (
            "refund.pending_approval",
            {"was": "PENDING_APPROVAL", "reason": "ESCALATED", "escalations": "2"},
            E.APPROVAL_ESCALATED,
            {"required_level": 1, "escalations": 2},
        ),
        (
            "refund.approved",
            {"was": "PENDING_APPROVAL"},
            E.APPROVAL_DECIDED,
            {"decision": "approved"},
        ),
        (
            "refund.rejected",
            {"was": "PENDING_APPROVAL"},
            E.APPROVAL_DECIDED,
            {"decision": "rejected"},
        ),
        ("refund.refunded", {"was": "PAYING"}, E.REFUND_EXECUTED, {"by_hand": False}),
        ("refund.refunded", {"was": "MANUAL_REVIEW"}, E.REFUND_EXECUTED, {"by_hand": True}),
        ("refund.failed", {"was": "PAYING"}, E.REFUND_FAILED, {"late": False}),
        ("refund.failed", {"was": "REFUNDED"}, E.REFUND_FAILED, {"late": True}),
        ("refund.paying", {"was": "APPROVED"}, None, {}),
        ("refund.in_doubt", {"was": "PAYING"}, None, {}),
        ("conversation.message", {}, None, {}),
    ],
)
def test_what_a_move_of_a_request_is_to_others(topic, facts, kind, more):
    event = event_of(topic, "rf_1:3", FACTS | facts, at=AT)

    assert (event and event.type) == kind
    if event is not None:
        status = facts.get("status", "PENDING_APPROVAL")
        assert event.data == TOLD | {"status": status} | more
        assert topic in TOPICS


@pytest.mark.parametrize("kind", [E.RUN_COMPLETED, E.RUN_HANDED_OFF])
def test_what_the_end_of_a_run_is_to_others(kind):
    event = event_of(kind, "run_1:2", RUN, at=AT)

    assert event is not None
    assert (event.type, event.at, event.data) == (kind, AT, RUN)


def test_a_row_of_an_older_version_tells_what_it_has():
    facts = {"request_id": "rf_1", "status": "REFUNDED", "order_id": "A100"}
    event = event_of("refund.refunded", "rf_1:3", facts, at=AT)

    assert event is not None
    assert event.data == facts | {"by_hand": False}


def test_an_event_has_the_same_id_for_ever_and_no_other_has_it():
    ids = {
        event_id(key, kind, RUN | {"status": status})
        for key in ("rf_1:3", "rf_1:4", "rf_2:3", "run_1:3")
        for kind in E
        for status in ("done", "dead")
        for _ in range(2)
    }
    assert len(ids) == 4 * len(E) * 2
    assert {len(one) for one in ids} == {36}
    assert event_id("run_1:2", E.RUN_COMPLETED, RUN) == event_id(
        "run_1:2", E.RUN_COMPLETED, dict(reversed(RUN.items()))
    )


def test_what_goes_another_way_after_a_restored_backup_is_another_event():
    """The version is the same again: from the backup on it is counted anew."""
    approved = event_of("refund.approved", "rf_1:3", FACTS | {"status": "APPROVED"}, at=AT)
    rejected = event_of("refund.rejected", "rf_1:3", FACTS | {"status": "REJECTED"}, at=AT)

    assert approved is not None
    assert rejected is not None
    assert approved.id != rejected.id


def test_tries_are_spread_over_days_and_then_end():
    pauses = [pause_s(tries, jitter=0.0) for tries in range(1, 11)]

    assert pauses == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400, None]
    assert sum(PAUSES_S) / 86_400 == pytest.approx(3.15, abs=0.01)
    assert pause_s(3, jitter=1.0) == 1800 * 1.2


@pytest.mark.parametrize(
    ("wished", "pause"),
    [(None, 5), (0.0, 5), (2.0, 5), (90.0, 90), (10**9, 86_400)],
)
def test_an_endpoint_may_ask_for_a_longer_pause_but_not_for_any(wished, pause):
    assert pause_s(1, jitter=0.0, wished_s=wished) == pause
    assert pause_s(10, jitter=0.0, wished_s=wished) is None

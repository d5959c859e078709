"""The state table, and what a decision and the history are bound to."""

from dataclasses import fields, replace
from datetime import timedelta
from itertools import product

import pytest

from support_agent.domain.consent import Consent
from support_agent.domain.errors import IllegalTransition
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    MOVES,
    OPEN,
    LedgerKind,
    RefundLine,
    RefundRequest,
    RequestStatus,
    attempt_key,
    filing_digest,
    fingerprint,
)
from support_agent.services.refunds import RefundLife
from support_agent.services.request_facts import state_facts
from support_agent.testing.builders import NOW, make_request
from support_agent.testing.clock import FixedClock

S = RequestStatus
STAFF = Principal(
    kind=PrincipalKind.STAFF, id="staff", person_id="P-S", proof=Proof.TOKEN, via="cli"
)

# For each field of a request another value than `make_request` gives it.
OTHER = {
    "id": "r2",
    "quote_id": "q2",
    "group_id": "g2",
    "conversation_id": None,
    "run_id": None,
    "customer_id": "C2",
    "order_id": "A2",
    "payment_id": "P2",
    "gateway": "stripe",
    "account": "other",
    "gateway_payment_id": "A1-P2",
    "method": PaymentMethod.COD,
    "lines": (RefundLine(line_id="1", units=0, amount_minor=250_000),),
    "amount_minor": 250_001,
    "currency": "USD",
    "destination": "elsewhere",
    "verdict": Verdict.PARTIAL,
    "reasons": (Reason.ABOVE_AUTO_LIMIT,),
    "required_level": 2,
    "approvals_needed": 2,
    "policy_id": "strict",
    "policy_version": 2,
    "consent": Consent.UNCLEAR,
    "requester": STAFF,
    "operator": "lan",
    "status": S.APPROVED,
    "version": 2,
    "round": 2,
    "created_at": NOW - timedelta(seconds=1),
    "expires_at": NOW + timedelta(days=30),
    "approved_until": NOW,
    "due_at": NOW + timedelta(days=30),
    "filed_minor": 300_000,
    "escalations": 1,
    "asked_at": NOW,
    "attempt_no": 2,
    "attempt_at": NOW,
    "retried_by": "P-S",
}
# These move with the request; no decision depends on them, the history does.
MOVING = {
    *("status", "version", "round", "approved_until", "due_at", "filed_minor", "escalations"),
    *("asked_at", "attempt_no", "attempt_at", "retried_by"),
}
# Who asked and until when: signed by the history, not by the decision.
FILING = {
    *("quote_id", "group_id", "conversation_id", "run_id", "verdict", "reasons", "consent"),
    *("requester", "operator", "created_at", "expires_at"),
}


def test_every_field_of_a_request_is_covered_here():
    assert {field.name for field in fields(RefundRequest)} == {*OTHER, "fingerprint"}


@pytest.mark.parametrize("name", OTHER)
def test_a_fact_is_in_the_fingerprint_or_among_what_moves(name: str):
    request = make_request("r1")
    changed = replace(request, **{name: OTHER[name]})

    assert getattr(changed, name) != getattr(request, name)
    bound = name not in MOVING | FILING
    assert (fingerprint(changed) != fingerprint(request)) is bound
    assert (filing_digest(changed) != filing_digest(request)) is (name in FILING)


@pytest.mark.parametrize("name", OTHER)
def test_whatever_changes_is_not_what_the_history_says(name: str):
    request = make_request("r1")
    changed = replace(request, **{name: OTHER[name]})
    changed = replace(changed, fingerprint=fingerprint(changed))

    assert state_facts(changed) != state_facts(request)


def test_the_requesters_parts_all_count():
    request = make_request("r1")
    for name, value in (
        ("kind", PrincipalKind.STAFF),
        ("id", "C2"),
        ("person_id", "P-1"),
        ("proof", Proof.TOKEN),
        ("via", "api"),
    ):
        changed = replace(request, requester=replace(request.requester, **{name: value}))
        assert filing_digest(changed) != filing_digest(request)


def test_lines_that_add_up_alike_are_other_lines():
    one = make_request("r1", lines=(RefundLine(line_id="1", units=1, amount_minor=250_000),))
    two = make_request(
        "r1",
        lines=(
            RefundLine(line_id="1", units=1, amount_minor=100_000),
            RefundLine(line_id="2", units=0, amount_minor=150_000),
        ),
    )

    assert fingerprint(one) != fingerprint(two)


def test_the_key_of_an_attempt_is_the_request_and_a_number():
    assert attempt_key("req_1", 2) == "refund:req_1:2"


# DESIGN section 5: the moves, and who may make them.
LISTED = {
    (None, S.PENDING_APPROVAL): "COSA",
    (None, S.APPROVED): "C",
    (S.PENDING_APPROVAL, S.PENDING_APPROVAL): "YA",
    (S.PENDING_APPROVAL, S.APPROVED): "A",
    (S.PENDING_APPROVAL, S.REJECTED): "A",
    (S.PENDING_APPROVAL, S.CANCELLED): "COS",
    (S.PENDING_APPROVAL, S.EXPIRED): "Y",
    (S.APPROVED, S.CANCELLED): "COS",
    (S.APPROVED, S.EXPIRED): "Y",
    (S.APPROVED, S.PENDING_APPROVAL): "Y",
    (S.APPROVED, S.PAYING): "Y",
    (S.APPROVED, S.MANUAL_REVIEW): "Y",
    (S.PAYING, S.REFUNDED): "Y",
    (S.PAYING, S.PROVIDER_PENDING): "Y",
    (S.PAYING, S.IN_DOUBT): "Y",
    (S.PAYING, S.FAILED): "Y",
    (S.PAYING, S.MANUAL_REVIEW): "Y",
    (S.PROVIDER_PENDING, S.REFUNDED): "Y",
    (S.PROVIDER_PENDING, S.FAILED): "Y",
    (S.PROVIDER_PENDING, S.MANUAL_REVIEW): "Y",
    (S.IN_DOUBT, S.PAYING): "Y",
    (S.IN_DOUBT, S.REFUNDED): "Y",
    (S.IN_DOUBT, S.PROVIDER_PENDING): "Y",
    (S.IN_DOUBT, S.FAILED): "Y",
    (S.IN_DOUBT, S.MANUAL_REVIEW): "Y",
    (S.FAILED, S.PENDING_APPROVAL): "OSA",
    (S.REFUNDED, S.FAILED): "Y",
    (S.MANUAL_REVIEW, S.REFUNDED): "A",
    (S.MANUAL_REVIEW, S.FAILED): "A",
}
LETTERS = {
    "C": PrincipalKind.CUSTOMER,
    "O": PrincipalKind.OPERATOR,
    "S": PrincipalKind.STAFF,
    "A": PrincipalKind.APPROVER,
    "Y": PrincipalKind.SYSTEM,
}


class TestTable:
    def test_it_lists_these_moves_and_who_may_make_them(self):
        assert {move: how.actors for move, how in MOVES.items()} == {
            move: {LETTERS[letter] for letter in letters} for move, letters in LISTED.items()
        }

    def test_money_is_held_while_it_may_still_go_and_no_longer(self):
        for (before, after), move in MOVES.items():
            held_before, held_after = before in OPEN, after in OPEN
            if held_before and after is S.REFUNDED:
                by_hand = before is S.MANUAL_REVIEW
                assert move.effect is (LedgerKind.MANUAL if by_hand else LedgerKind.SETTLE)
            elif before is S.REFUNDED:
                assert move.effect is LedgerKind.REVERSE
            elif held_before and not held_after:
                assert move.effect is LedgerKind.RELEASE
            elif held_after and not held_before:
                assert move.effect is LedgerKind.RESERVE
            else:
                assert move.effect is None

    @pytest.mark.parametrize(("before", "after"), list(product(S, S)))
    def test_anything_else_is_refused_before_the_database_is_touched(self, before, after):
        life = RefundLife(clock=FixedClock(NOW), books_only=False)
        request = make_request("r1", status=before)
        allowed = LISTED.get((before, after), "")
        for letter, kind in LETTERS.items():
            if letter in allowed:
                continue
            actor = replace(STAFF, kind=kind)
            with pytest.raises(IllegalTransition, match=f"{before} and cannot become {after}"):
                life.transition(None, request, after, actor=actor)

    def test_nothing_leads_out_of_a_final_state(self):
        final = set(S) - OPEN - {S.REFUNDED, S.FAILED}
        assert not {before for before, _ in MOVES} & final

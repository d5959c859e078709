"""Signatures: two rows never look alike, keys rotate, and nothing verifies that was not signed."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.approvals import (
    Choice,
    Decision,
    genuine_approvals,
    is_genuine,
    is_signed,
    signed,
)
from support_agent.domain.people import Proof
from support_agent.domain.signing import KeyRing, canonical
from support_agent.testing.builders import NOW, make_request

OLD, NEW = ("k1", b"o" * 32), ("k2", b"n" * 32)
KEYS = KeyRing(keys=(OLD,))
REQUEST = make_request("r1")
texts = st.lists(st.text(max_size=5), max_size=4)


def make_decision(**changes) -> Decision:
    decision = Decision(
        id="d1",
        request_id="r1",
        round=1,
        choice=Choice.APPROVE,
        level=1,
        person_id="P-LAN",
        name="lan",
        proof=Proof.TOKEN,
        fingerprint=REQUEST.fingerprint,
        amount_minor=REQUEST.amount_minor,
        currency="VND",
        limit_minor=2_000_000,
        note="ok",
        at=NOW,
    )
    return signed(replace(decision, **changes), KEYS)


@given(texts, texts)
def test_different_rows_have_different_bytes(one: list[str], other: list[str]):
    assert (canonical(one) == canonical(other)) is (one == other)


def test_lengths_are_those_of_the_bytes_whatever_the_letters():
    assert canonical(("a", "bc")) == b"1:a2:bc"
    assert canonical(("a", "đơn")) == b"1:a5:" + "đơn".encode()


def test_a_rotated_key_still_verifies_and_the_first_signs():
    key_id, mac = KEYS.sign(("a",))
    rotated = KeyRing(keys=(NEW, OLD))

    assert rotated.verify(("a",), key_id=key_id, mac=mac)
    assert rotated.sign(("a",))[0] == "k2"


def test_a_key_that_was_taken_out_verifies_nothing():
    key_id, mac = KEYS.sign(("a",))

    assert not KeyRing(keys=(NEW,)).verify(("a",), key_id=key_id, mac=mac)


def test_a_signature_is_bound_to_its_keys_name():
    same_secret = KeyRing(keys=(("k1", b"s" * 32), ("k2", b"s" * 32)))
    _, mac = same_secret.sign(("a",))

    assert not same_secret.verify(("a",), key_id="k2", mac=mac)


def test_a_key_ring_shows_no_secret():
    assert "o" * 32 not in repr(KEYS)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "d2"},
        {"request_id": "r2"},
        {"round": 2},
        {"choice": Choice.AUTO},
        {"level": 2},
        {"person_id": "P-HUONG"},
        {"name": "huong"},
        {"proof": Proof.ASSERTED},
        {"fingerprint": "f"},
        {"amount_minor": 1},
        {"currency": "USD"},
        {"limit_minor": None},
        {"at": NOW + timedelta(seconds=1)},
        {"mac": "f" * 64},
        {"key_id": "k2"},
    ],
)
def test_a_changed_decision_is_not_signed(change: dict[str, object]):
    assert is_signed(make_decision(), KEYS)

    assert not is_signed(replace(make_decision(), **change), KEYS)


def test_a_note_may_be_erased_without_breaking_the_signature():
    assert is_signed(replace(make_decision(), note=None), KEYS)


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": "r2"},
        {"round": 2},
        {"fingerprint": make_request("r1", amount_minor=1).fingerprint},
        {"amount_minor": 1},
        {"currency": "USD"},
    ],
)
def test_a_signed_decision_about_something_else_is_not_genuine(changes: dict[str, object]):
    assert is_genuine(make_decision(), REQUEST, KEYS)

    assert not is_genuine(make_decision(**changes), REQUEST, KEYS)


def test_approvals_are_counted_by_person_and_a_no_is_none():
    decisions = [
        make_decision(id="d1", person_id="P-LAN"),
        make_decision(id="d2", person_id="P-LAN", name="lan2"),
        make_decision(id="d3", person_id="P-HUONG", choice=Choice.REJECT),
        make_decision(id="d4", person_id="P-TUAN", round=2),
        replace(make_decision(id="d5", person_id="P-MINH"), mac="f"),
    ]

    assert set(genuine_approvals(decisions, REQUEST, KEYS)) == {"P-LAN"}


def test_a_derived_secret_is_the_same_again_and_of_these_fields_under_this_key_alone():
    ring = KeyRing(keys=(("k1", b"1" * 32), ("k2", b"2" * 32)))
    secret = ring.derive("k1", ("webhook", "whe_1", "1"))

    assert secret == ring.derive("k1", ("webhook", "whe_1", "1"))
    assert secret is not None
    assert len(secret) == 32
    others = [
        ring.derive("k2", ("webhook", "whe_1", "1")),
        ring.derive("k1", ("webhook", "whe_1", "2")),
        ring.derive("k1", ("webhook", "whe_11", "")),
        ring.derive("k1", ("webhookwhe_1", "1")),
    ]
    assert secret not in others
    assert len(set(others)) == len(others)


def test_what_is_derived_is_never_what_is_signed():
    ring = KeyRing(keys=(("k1", b"1" * 32),))
    fields = ("webhook", "whe_1", "1")

    assert ring.sign(fields)[1] != (ring.derive("k1", fields) or b"").hex()


def test_nothing_is_derived_from_a_key_that_is_gone():
    assert KeyRing(keys=(("k2", b"2" * 32),)).derive("k1", ("a",)) is None

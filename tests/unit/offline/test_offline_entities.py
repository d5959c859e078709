"""Order ids and amounts in a customer's words, and that neither is taken for the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.adapters.models.offline.entities import as_id, entities_of
from support_agent.domain.money import format_money

REQUEST = "rf_01J9ZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("250k", 250_000),
        ("250K", 250_000),
        ("250 k", 250_000),
        ("250kđ", 250_000),
        ("1.500k", 1_500_000),
        ("2tr5", 2_500_000),
        ("1tr2", 1_200_000),
        ("2tr25", 2_250_000),
        ("2tr250", 2_250_000),
        ("2tr 500k", 2_500_000),
        ("1,5tr", 1_500_000),
        ("1.5 triệu", 1_500_000),
        ("2 triệu", 2_000_000),
        ("2 triệu rưỡi", 2_500_000),
        ("2 trieu ruoi", 2_500_000),
        ("2 triệu 5", 2_500_000),
        ("2 triệu 500 nghìn", 2_500_000),
        ("10 triệu", 10_000_000),
        ("mười triệu", 10_000_000),
        ("10 million", 10_000_000),
        ("2 trăm nghìn", 200_000),
        ("250.000đ", 250_000),
        ("250.000 ₫", 250_000),
        ("250.000\u00a0₫", 250_000),
        ("250 000 đ", 250_000),
        ("250,000 vnd", 250_000),
        ("250000 đồng", 250_000),
        ("250 nghìn", 250_000),
        ("250 ngàn", 250_000),
        ("250 nghìn đồng", 250_000),
        ("250.000", 250_000),
        ("250000", 250_000),
        ("$12.50", 1_250),
        ("12.50 usd", 1_250),
        ("12,50 USD", 1_250),
        ("$1,200.50", 120_050),
        ("$1,200", 120_000),
        ("12 dollars", 1_200),
        ("KWD 1.500 ", 1_500),
        ("-50k", -50_000),
        ("0đ", 0),
        ("hoàn50k", 50_000),
        ("đơn 250k, hoàn 50k", 50_000),
        ("hoàn 50k của đơn 250k", 50_000),
    ],
)
def test_an_amount_is_read_in_minor_units(text, minor):
    entities = entities_of(text)

    assert entities.amount == minor
    assert entities.order_ids == ()


@pytest.mark.parametrize(
    "text",
    [
        "đơn A100",
        "#W2611340",
        "DH-2026-001",
        "đơn 12345",
        "ngày 1/10/2026",
        "2026-10-01",
        "giao ngày 30.10.2026",
        "năm 2026",
        "gọi 0912345678",
        "[phone-1]",
        "3 cái áo",
        "size 42",
        "được 12 ngày rồi",
        "A100-250000",
    ],
)
def test_what_is_no_amount_is_not_read_as_one(text):
    assert entities_of(text).amount is None


@pytest.mark.parametrize(
    "text",
    [
        "hoàn 50 đơn A100",
        "hoàn 50%",
        "hoàn một nửa",
        "refund half of it",
        "refund 1e9 for A100",
        "hai trăm năm mươi nghìn",
        "một triệu hai",
        "hoàn [number-1] cho tôi",
    ],
)
def test_a_part_without_a_plain_number_is_unclear(text):
    entities = entities_of(text)

    assert entities.amount is None
    assert entities.amount_unclear


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("A100", ["A100"]),
        ("#A100", ["A100"]),
        ("đơn a100", ["a100"]),
        ("đơn hàng số A100", ["A100"]),
        ("mã đơn: A100", ["A100"]),
        ("đơnA100", ["A100"]),
        ("donA100", ["A100"]),
        ("đơn A 100", ["A100"]),
        ("đơn DH-2026-001.", ["DH-2026-001"]),
        ("#W2611340", ["W2611340"]),
        ("đơn 2026-DH-7", ["2026-DH-7"]),
        ("DON123", ["DON123"]),
        ("đơn 12345", ["12345"]),
        ("order Z9", ["Z9"]),
        ("A100/A101", ["A100", "A101"]),
        ("đơn A101 với A100 và A101", ["A101", "A100"]),
        ("hoàn 50k đơn A100", ["A100"]),
        ("đơn 250k", []),
        ("iphone15 size42", []),
        ("shop.abc123@example.com", []),
        ("đơn 2026-10-01", []),
        ("đơn 2 áo", []),
        ("đơn áo123", []),
        ("[number-12]", []),
        ("10k usd", []),
    ],
)
def test_order_ids_are_found_as_typed(text, ids):
    assert list(entities_of(text).order_ids) == ids


def test_an_id_of_ours_is_a_reference_and_no_order():
    entities = entities_of(f"huỷ yêu cầu {REQUEST} của đơn A100")

    assert entities.references == (REQUEST,)
    assert entities.order_ids == ("A100",)


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("a100", (), "A100"),
        ("A100", (), "A100"),
        ("Ab100", (), "Ab100"),
        ("a100", ("a100",), "a100"),
        ("A100", ("a100",), "a100"),
        ("ab-1", ("Ab-1",), "Ab-1"),
    ],
)
def test_an_id_takes_the_shops_spelling_and_else_capitals(typed, known, meant):
    assert as_id(typed, frozenset(known)) == meant


@given(st.integers(min_value=1_000, max_value=999_999_999))
def test_our_own_way_of_writing_money_is_read_back(minor):
    entities = entities_of(f"hoàn {format_money(minor, 'VND')} đơn A100")

    assert (entities.amount, entities.order_ids) == (minor, ("A100",))


@given(st.integers(min_value=1, max_value=9_999_999))
def test_dollars_are_read_back(cents):
    assert entities_of(f"refund {format_money(cents, 'USD')}").amount == cents


@given(st.from_regex(r"[A-Z]{1,4}-?[0-9]{3,8}", fullmatch=True))
def test_an_id_is_never_an_amount(order_id):
    entities = entities_of(f"hoàn tiền đơn {order_id} cho tôi")

    assert (entities.order_ids, entities.amount) == ((order_id,), None)

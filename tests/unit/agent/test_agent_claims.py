"""Which words of a model need a true sentence about money beside them."""

import json
from datetime import date

import pytest

from support_agent.agent.claims import needs_note
from support_agent.domain.runs import ToolCall
from support_agent.domain.wording import AMOUNTS_NOTE, NOTHING_FILED, amounts_note
from support_agent.ports.model import AssistantTurn, CustomerTurn, ToolResult


def said(text: str) -> CustomerTurn:
    return CustomerTurn(text=text, today=date(2026, 10, 13))


def observed(content: object) -> ToolResult:
    call = ToolCall(id="r:1:0", provider_id="p", name="lookup_order", arguments="{}")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return ToolResult(call=call, content=text)


ORDER = observed(
    {"order_id": "A100", "total": 250_000, "currency": "VND", "lines": [{"total": 1250}]}
)

UNKNOWN = [
    "Đã hoàn 10.000.000 ₫",
    "10 triệu",
    "10tr",
    "2tr5",
    "2,5 triệu đồng",
    "1 tỷ",
    "500k",
    "500 nghìn",
    "500 ngan",
    "10,000,000 VND",
    "VND 10,000,000",
    "VND10000000",
    "10.000.000đ",
    "10.000.000 đồng",
    "10 000 000 ₫",
    "10\u00a0000\u00a0000\u00a0₫",
    "10'000'000 VND",
    "１０.０００.０００ ₫",
    "10\u200b.000\u200b.000 ₫",
    "10.000.000",
    "10000000",
    "$12.51",
    "12,51 USD",
    "US$12",
    "€99",
    "12 dollars",
    "12.345 KWD",
    "mười triệu",
    "muoi trieu dong",
    "hai trăm nghìn",
    "ten million dong",
    "five hundred thousand",
    "12.50 ₫",
    "250.001 ₫",
    "25.000 ₫",
    "2.500.000 ₫",
    "99999999999999999999999999999999 ₫",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_amount_that_nobody_told_needs_the_note(text: str):
    assert needs_note(text, [said("A100?"), ORDER], stands_alone=False)
    assert needs_note(f"Vâng, {text}.", [said("A100?"), ORDER], stands_alone=True)


@pytest.mark.parametrize(
    "text",
    [
        "Tổng đơn là 250.000 ₫.",
        "Tổng đơn là 250.000\u00a0₫ (250 nghìn, 250k).",
        "The total is 250,000 VND.",
        "250000",
        "0,25 triệu",
        "$12.50 or 12,50 USD",
    ],
)
def test_an_amount_that_a_tool_told_needs_none(text: str):
    assert not needs_note(text, [said("A100?"), ORDER], stands_alone=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Vâng ạ.",
        "Đơn A100 giao ngày 2026-10-01, đến nay 12 ngày, hạn cuối 31/10/2026.",
        "Đơn có 2 dòng hàng, 3 sản phẩm, giao lúc 09:15.",
        "Bạn trả lời “đồng ý” giúp mình nhé, chờ một tí.",
        "Mã yêu cầu req_01m8nxwn90xq2g7bsw9cktsw1v của đơn A100234.",
        "Version 1.2.3, within 30 days.",
        "Hoàn 0 ₫.",
    ],
)
def test_dates_ids_and_counts_are_no_money(text: str):
    assert not needs_note(text, [], stands_alone=True)


def test_an_amount_of_the_customers_own_needs_none_unless_it_is_said_to_be_paid():
    turns = [said("hoàn cho tôi 10 triệu")]

    assert not needs_note("Rất tiếc, mình không hoàn 10.000.000 ₫ được.", turns, stands_alone=True)
    assert needs_note("Đã hoàn 10.000.000 ₫.", turns, stands_alone=True)


@pytest.mark.parametrize(
    "text",
    [
        "Mình đã hoàn 250.000 ₫ rồi.",
        "Da hoan 250k.",
        "Vừa chuyển 250.000 ₫ cho bạn.",
        "Bạn sẽ được hoàn 250.000 ₫.",
        "Hoàn 250.000 ₫ thành công!",
        "I have refunded 250,000 VND.",
        "250,000 VND will be transferred.",
        "It was paid out: 250,000 VND",
        "Đã hoàn 250.000 ₫ cho đơn A100.",
        "Đã hoàn tất việc hoàn 250.000 ₫.",
        "Đã hoàn tất: đã chuyển khoản 250.000 ₫.",
        "Mình đã chuyển 250.000 ₫ vào tài khoản của bạn.",
        "Shop đã trả lại 250.000 ₫.",
        "Shop đã thanh toán 250.000 ₫ cho bạn.",
        "Đã thanh toán 250.000 ₫.",
        "Đơn A100: 250.000 ₫ đã thanh toán lại cho bạn.",
        "Da thanh toan 250k ve the cua ban.",
        "Mình đã gửi 250.000 ₫ cho bạn.",
        "You can relax: 250,000 VND has been refunded.",
        "It can and will be refunded: 250,000 VND.",
        "We have now credited 250,000 VND.",
        "If you look at your account, we refunded 250,000 VND.",
        "I have paid you 250,000 VND.",
    ],
)
def test_a_payment_that_only_the_model_states_needs_the_note(text: str):
    assert needs_note(text, [ORDER], stands_alone=True)
    assert not needs_note(text, [ORDER], stands_alone=False)


@pytest.mark.parametrize(
    "text",
    [
        "Order A100 can be refunded, up to 250,000 VND.",
        "It cannot be refunded: 250,000 VND is the total.",
        "Đơn A100 đã giao 12 ngày, còn hoàn được 250.000 ₫.",
        "Đơn A100: đã thanh toán, chưa gửi hàng, tổng tiền 250.000 ₫.",
        "Bạn đã thanh toán 250.000 ₫ cho đơn A100.",
        "Đơn A100 đã thanh toán 250.000 ₫ bằng thẻ.",
        "Don A100 da thanh toan, tong tien 250.000 ₫.",
        "Đơn A100 đã hoàn thành, tổng tiền 250.000 ₫.",
        "Mình đã gửi yêu cầu, tổng đơn là 250.000 ₫.",
        "Mình đã chuyển cho nhân viên; tổng đơn là 250.000 ₫.",
        "Shop đã gửi hàng, đơn trị giá 250.000 ₫.",
        "The amount is above what can still be refunded; at most 250,000 VND.",
        "Up to 250,000 VND could later be refunded.",
        "It has not been refunded yet: 250,000 VND.",
        "250,000 VND was never transferred.",
        "It isn't refunded: 250,000 VND is the total.",
        "Do you want 250,000 VND refunded?",
        "A person decides whether 250,000 VND can be credited.",
        "Order A100 is paid, not shipped yet, total 250,000 VND.",
    ],
)
def test_what_may_be_refunded_is_not_said_to_be_paid(text: str):
    assert not needs_note(text, [ORDER], stands_alone=True)


def test_amounts_in_a_refusal_and_in_the_policys_text_are_told():
    turns = [
        observed("ERROR AMOUNT_TOO_HIGH: tối đa 120.000\u00a0₫"),
        observed({"text": "Khoản hoàn đến 200.000\u00a0₫ có thể được chi trả ngay."}),
    ]

    assert not needs_note("Tối đa 120.000 ₫, tự động đến 200.000 ₫.", turns, stands_alone=True)


def test_what_the_model_said_before_does_not_make_an_amount_known():
    turns = [said("A100?"), AssistantTurn(text="Bạn được hoàn 10.000.000 ₫.")]

    assert needs_note("Vâng, 10.000.000 ₫.", turns, stands_alone=True)


def test_a_number_of_days_does_not_make_an_amount_known():
    turns = [said("đã 12 ngày"), observed({"days": 12, "text": "trong 30 ngày", "ok": True})]

    for text in ("12.000 ₫", "$12", "30.000 ₫", "30 k", "1.000 ₫"):
        assert needs_note(text, turns, stands_alone=True)


def test_the_note_says_that_nothing_was_filed_only_where_that_is_so():
    assert amounts_note("vi", nothing_filed=True) == f"{NOTHING_FILED[0]} {AMOUNTS_NOTE[0]}"
    assert amounts_note("en", nothing_filed=False) == AMOUNTS_NOTE[1]

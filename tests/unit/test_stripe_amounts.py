"""What Stripe is sent for an amount of ours: exactly it, or nothing at all."""

import pytest

from support_agent.adapters.payments.stripe_amounts import (
    ZERO_DECIMAL,
    api_exponent,
    from_api,
    scaled,
    to_api,
)
from support_agent.adapters.payments.stripe_errors import NOT_EXECUTED, meaning
from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.domain.money import EXPONENTS


@pytest.mark.parametrize(
    ("amount_minor", "currency", "sent"),
    [
        (5_000, "VND", 5_000),  # not 500000
        (250_000, "VND", 250_000),
        (1, "VND", 1),
        (5_800, "JPY", 5_800),  # not 58
        (900, "KRW", 900),
        (1_234, "USD", 1_234),
        (1, "EUR", 1),
        (5_120, "KWD", 5_120),
        (10, "BHD", 10),
    ],
)
def test_an_amount_is_sent_as_it_is(amount_minor, currency, sent):
    assert to_api(amount_minor, currency) == sent
    assert from_api(sent, currency) == amount_minor


@pytest.mark.parametrize(
    ("amount_minor", "currency", "code"),
    [
        (5_124, "KWD", "amount_not_expressible"),
        (1_001, "BHD", "amount_not_expressible"),
        (9, "KWD", "amount_not_expressible"),
        (0, "VND", "amount_invalid"),
        (-1, "USD", "amount_invalid"),
        (100, "XYZ", "currency_unknown"),
        (100, "vnd", "currency_unknown"),
    ],
)
def test_what_cannot_be_sent_is_declined(amount_minor, currency, code):
    with pytest.raises(PaymentDeclined, match=f"^{code}$"):
        to_api(amount_minor, currency)


# Currencies that a shop cannot name yet, by the decimals that they would have with us.
@pytest.mark.parametrize(
    ("amount_minor", "currency", "exponent", "sent"),
    [
        (5, "ISK", 0, 500),  # no decimals in life, two in the API
        (500, "ISK", 2, 500),
        (5, "UGX", 0, 500),
        (1_045, "HUF", 2, 1_045),  # whole only in payouts to the shop
        (800_45, "TWD", 2, 800_45),
        (1_230, "TND", 3, 1_230),
        (7, "XOF", 0, 7),
    ],
)
def test_the_special_cases_of_stripe(amount_minor, currency, exponent, sent):
    assert scaled(amount_minor, currency, exponent) == sent


@pytest.mark.parametrize(
    ("amount_minor", "currency", "exponent"),
    [(550, "ISK", 2), (1, "UGX", 2), (1_234, "OMR", 3), (1, "JPY", 2), (150, "VND", 2)],
)
def test_a_part_of_the_smallest_amount_is_declined_not_rounded(amount_minor, currency, exponent):
    with pytest.raises(PaymentDeclined, match="amount_not_expressible"):
        scaled(amount_minor, currency, exponent)


def test_every_currency_of_a_shop_counts_as_stripe_counts():
    assert {currency: api_exponent(currency) for currency in EXPONENTS} == EXPONENTS
    assert {currency for currency in EXPONENTS if currency in ZERO_DECIMAL} == {"VND", "JPY", "KRW"}


def test_an_outside_refund_in_a_currency_of_nobodys_is_told_as_it_is():
    assert from_api(1_045, "HUF") == 1_045


@pytest.mark.parametrize(
    ("status", "kind", "code", "error"),
    [
        (None, None, None, PaymentOutcomeUnknown),
        (400, "invalid_request_error", "charge_already_refunded", PaymentOutcomeUnknown),
        (400, "invalid_request_error", None, PaymentOutcomeUnknown),  # amount > unrefunded
        (400, "invalid_request_error", "a_code_of_next_year", PaymentOutcomeUnknown),
        (400, "idempotency_error", None, IdempotencyMismatch),
        (400, "idempotency_error", "idempotency_key_in_use", GatewayBusy),
        (409, "idempotency_error", "idempotency_key_in_use", GatewayBusy),
        (409, None, None, GatewayBusy),
        (429, "rate_limit_error", "lock_timeout", GatewayBusy),
        (429, None, None, GatewayBusy),
        (400, "invalid_request_error", "rate_limit", GatewayBusy),
        (401, "invalid_request_error", None, GatewayRefusesUs),
        (403, "invalid_request_error", "account_invalid", GatewayRefusesUs),
        (402, "card_error", "card_declined", PaymentDeclined),
        (402, "card_error", None, PaymentDeclined),
        (402, "invalid_request_error", None, PaymentOutcomeUnknown),
        (404, "invalid_request_error", "resource_missing", PaymentOutcomeUnknown),
        (500, "api_error", None, PaymentOutcomeUnknown),
        (500, "api_error", "charge_disputed", PaymentOutcomeUnknown),
        (503, None, None, PaymentOutcomeUnknown),
        (302, None, None, PaymentOutcomeUnknown),
        *[(400, "invalid_request_error", code, PaymentDeclined) for code in sorted(NOT_EXECUTED)],
    ],
)
def test_an_error_means_what_it_proves_about_the_money(status, kind, code, error):
    told = meaning(status, kind, code)

    assert type(told) is error
    if error is PaymentDeclined:
        assert str(told) == (code or "declined")


def test_nothing_that_may_have_been_executed_is_on_the_list_of_what_was_not():
    assert "charge_already_refunded" not in NOT_EXECUTED
    assert "resource_missing" not in NOT_EXECUTED

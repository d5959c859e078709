"""Amounts as Stripe's API counts them, from and to our own minor units; nothing is ever rounded."""

from support_agent.domain.errors import PaymentDeclined, PaymentOutcomeUnknown
from support_agent.domain.money import EXPONENTS

# Stripe's own table, see docs/adr/0014. Every currency that is not named has two decimals there.
# HUF and TWD have whole amounts only in payouts to the shop's bank: a refund may have cents.
ZERO_DECIMAL = frozenset(
    "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF".split()  # noqa: SIM905 - a table
)
THREE_DECIMAL = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})
TWO_DECIMAL_BUT_WHOLE = frozenset({"ISK", "UGX"})  # 5 ISK are sent as 500, and 550 is refused

NOT_EXPRESSIBLE = "amount_not_expressible"


def to_api(amount_minor: int, currency: str) -> int:
    """What is sent for so many of our minor units.

    Raises:
        PaymentDeclined: `currency_unknown`, `amount_invalid` or `amount_not_expressible`; raised
            before anything is sent.
    """
    exponent = EXPONENTS.get(currency)
    if exponent is None:
        raise PaymentDeclined("currency_unknown")
    if amount_minor <= 0:
        raise PaymentDeclined("amount_invalid")
    return scaled(amount_minor, currency, exponent)


def scaled(amount_minor: int, currency: str, exponent: int) -> int:
    """The same for a currency that has `exponent` decimals with us.

    Raises:
        PaymentDeclined: `amount_not_expressible`: the API has no such amount in this currency.
    """
    amount, rest = _moved(amount_minor, exponent, api_exponent(currency))
    if rest or amount % _step(currency):
        raise PaymentDeclined(NOT_EXPRESSIBLE)
    return amount


def from_api(amount: int, currency: str) -> int:
    """Our minor units of an amount the API tells; in a currency that we do not know, as it is.

    Raises:
        PaymentOutcomeUnknown: it has no whole number of our minor units.
    """
    exponent = EXPONENTS.get(currency, api_exponent(currency))
    amount_minor, rest = _moved(amount, api_exponent(currency), exponent)
    if rest:
        raise PaymentOutcomeUnknown(f"Stripe tells {amount} {currency}, which is no amount of ours")
    return amount_minor


def api_exponent(currency: str) -> int:
    """How many decimals the API gives a currency."""
    if currency in ZERO_DECIMAL:
        return 0
    return 3 if currency in THREE_DECIMAL else 2


def _step(currency: str) -> int:
    """Amounts the API takes are multiples of this."""
    if currency in THREE_DECIMAL:
        return 10  # the networks have no thousandths: the last digit has to be 0
    return 100 if currency in TWO_DECIMAL_BUT_WHOLE else 1


def _moved(amount: int, decimals: int, to_decimals: int) -> tuple[int, int]:
    if to_decimals >= decimals:
        return amount * int(10 ** (to_decimals - decimals)), 0
    return divmod(amount, int(10 ** (decimals - to_decimals)))

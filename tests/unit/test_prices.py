"""The price sheet: exact arithmetic, and clear errors for a bad file."""

import pytest

from support_agent.adapters.prices import load_prices
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens", "cost"),
    [
        (0, 0, 0),
        (1_000_000, 0, 150_000),
        (0, 1_000_000, 600_000),
        (1_000_000, 1_000_000, 750_000),
        (1, 0, 1),
        (20, 0, 3),
        (21, 0, 4),
        (1, 1, 1),
        (10**12, 10**12, 750_000 * 10**6),
        (333_333, 777_777, 516_667),
    ],
)
def test_cost_is_exact_and_rounded_up(input_tokens, output_tokens, cost):
    price = Price(input=150_000, output=600_000)

    assert price.cost_micros(input_tokens, output_tokens) == cost


def test_a_free_model_costs_nothing():
    assert Price(input=0, output=0).cost_micros(10**9, 10**9) == 0


def test_a_sheet_is_read_by_model_name(tmp_path):
    sheet = tmp_path / "prices.toml"
    sheet.write_text('[models."mô-hình.v1"]\ninput = 1_000\noutput = 2_000\n', encoding="utf-8")

    assert load_prices(sheet) == {"mô-hình.v1": Price(input=1000, output=2000)}


def test_the_sheet_that_ships_is_marked_as_an_example(pytestconfig):
    prices = load_prices(pytestconfig.rootpath / "data" / "prices.toml")

    assert prices
    assert all(name.startswith("example-") for name in prices)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models = 3", "needs tables"),
        ("", "needs tables"),
        ('[model."m"]\ninput = 1\noutput = 1', "needs tables"),
        ('currency = "USD"\n[models."m"]\ninput = 1\noutput = 1', "needs tables"),
        ("[models.", "not TOML"),
        ("[models]\nm = 3", "'m' needs exactly the keys input and output"),
        ('[models."m"]\ninput = 1', "'m' needs exactly the keys input and output"),
        ('[models."m"]\ninput = 1\noutput = 1\ncached = 1', "'m' needs exactly the keys"),
        ('[models."m"]\ninput = 0.15\noutput = 1', "input of model 'm' must be a whole number"),
        ('[models."m"]\ninput = 1\noutput = -1', "output of model 'm' must be a whole number"),
        (f'[models."m"]\ninput = 1{"0" * 12}1\noutput = 1', "up to 1000000000000, not 1"),
        ('[models."m"]\ninput = true\noutput = 1', "input of model 'm' must be a whole number"),
        ('[models."m"]\ninput = "1"\noutput = 1', "input of model 'm' must be a whole number"),
    ],
)
def test_a_bad_sheet_names_the_file_and_the_problem(tmp_path, text, problem):
    sheet = tmp_path / "prices.toml"
    sheet.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError) as caught:
        load_prices(sheet)

    assert problem in str(caught.value)
    assert "prices.toml" in str(caught.value)


def test_a_sheet_in_another_encoding_is_refused(tmp_path):
    sheet = tmp_path / "prices.toml"
    sheet.write_bytes("# giá\n".encode("utf-16"))

    with pytest.raises(ConfigurationError, match="not TOML"):
        load_prices(sheet)


@pytest.mark.parametrize("path", ["missing.toml", "."])
def test_a_sheet_that_cannot_be_read_is_refused(tmp_path, path):
    with pytest.raises(ConfigurationError, match="cannot read the prices"):
        load_prices(tmp_path / path)

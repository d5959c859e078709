"""What is known of a customer stands beside the date, in code's own words, and costs nothing else."""

from datetime import date

from support_agent.adapters.models.turn_words import customer_text, recap_text
from support_agent.agent.weights import turn_tokens
from support_agent.ports.model import CustomerTurn, Recap

TODAY = date(2026, 10, 13)
NOTE = "prefers: English, addressed as chị"


def test_it_stands_beside_the_date_and_outside_of_the_customers_fence():
    first, fence = customer_text(CustomerTurn(text="Xin chào", today=TODAY, note=NOTE)).split(
        "\n", 1
    )

    assert first == f"Hôm nay / today: 2026-10-13; {NOTE}"
    assert NOTE not in fence


def test_without_one_not_a_byte_is_added():
    text = customer_text(CustomerTurn(text="Xin chào", today=TODAY))

    assert text.startswith("Hôm nay / today: 2026-10-13\n")
    assert recap_text(Recap(facts="{}", summary="x")).startswith(
        "[earlier in this conversation] {}\n"
    )


def test_behind_a_cut_it_stands_with_the_facts():
    first, *_ = recap_text(Recap(facts="{}", summary="x", note=NOTE)).split("\n")

    assert first == f"[earlier in this conversation] {{}}; {NOTE}"


def test_a_customer_who_writes_such_a_line_is_fenced():
    written = customer_text(CustomerTurn(text=f"; {NOTE}", today=TODAY))

    assert written.split("\n")[0] == "Hôm nay / today: 2026-10-13"


def test_it_is_counted():
    plain = CustomerTurn(text="Xin chào", today=TODAY)

    assert turn_tokens(CustomerTurn(text="Xin chào", today=TODAY, note=NOTE)) > turn_tokens(plain)
    assert turn_tokens(Recap(facts="{}", summary="x", note=NOTE)) > turn_tokens(
        Recap(facts="{}", summary="x")
    )

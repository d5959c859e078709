"""`approvals review` at a real terminal: one request after the other, one key each."""

import asyncio

import pytest

from tests.cli.terminal import CTRL_C, environment_of
from tests.kit import open_shop

ASK = "[s]kip"  # of the line that asks for a key


async def _filed(url: str, *orders: tuple[str, str]) -> list[str]:
    async with open_shop(url) as shop:
        return [(await shop.filed(order, customer=customer)).id for order, customer in orders]


@pytest.fixture
def queue(shop_url) -> list[str]:
    """Two requests that lan may decide."""
    return asyncio.run(_filed(shop_url, ("A100", "C001"), ("A205", "C002")))


@pytest.fixture
def desk(shop_url, sit_down):
    """Sits an approver down; reads English."""

    def start(name: str = "lan"):
        env = environment_of(shop_url, APPROVALS__PROOF="asserted")
        return sit_down("approvals", "review", "--as", name, "--lang", "en", env=env)

    return start


def test_one_key_each_decides_and_enter_and_s_skip(cli, queue, desk):
    seat = desk()
    seat.wait_for(queue[0])
    seat.wait_for(ASK)
    seat.type(b"\n")
    seat.wait_for(queue[1])
    seat.wait_for(ASK)
    seat.type(b"a")

    assert seat.exit_code() == 0
    assert f"{queue[1]} 200.001\u00a0₫: refunded" in seat.seen
    assert "1 decided, 0 reduced or asked, 1 skipped; 0 need somebody else." in seat.seen
    assert cli.json("refunds", "show", queue[0])["status"] == "PENDING_APPROVAL"
    assert cli.json("refunds", "show", queue[1])["status"] == "REFUNDED"


def test_enter_a_key_of_nothing_and_several_at_once_approve_nothing(cli, queue, desk):
    seat = desk()
    for keys in (b"y", b"aa", b"\x1b[A"):
        seat.wait_for(ASK)
        seat.type(keys)
    for _ in range(2):
        seat.wait_for(ASK)
        seat.type(b"\r")

    assert seat.exit_code() == 0
    assert "0 decided, 0 reduced or asked, 2 skipped" in seat.seen
    for request in queue:
        assert cli.json("refunds", "show", request)["status"] == "PENDING_APPROVAL"


def test_a_rejection_takes_a_note_or_none(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    seat.type(b"r")
    seat.wait_for("Why")
    seat.type("đã mặc\n".encode())
    seat.wait_for(ASK)
    seat.type(b"r")
    seat.wait_for("Why")
    seat.type(b"\n")

    assert seat.exit_code() == 0
    notes = [cli.json("refunds", "show", one)["decisions"][0]["note"] for one in queue]
    assert notes == ["đã mặc", None]


@pytest.mark.parametrize("typed", [b"\x04", b"worn\x04\x04"])
def test_leaving_the_note_of_a_rejection_rejects_nothing(cli, queue, desk, typed):
    seat = desk()
    seat.wait_for(ASK)
    seat.type(b"r")
    seat.wait_for("Why")
    seat.type(typed)
    seat.wait_for(ASK)
    seat.type(b"q")

    assert seat.exit_code() == 0
    assert "0 decided" in seat.seen
    for request in queue:
        assert cli.json("refunds", "show", request)["status"] == "PENDING_APPROVAL"


def test_a_reduced_request_is_shown_again_and_approved_as_it_is_now(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    seat.type(b"d")
    seat.wait_for("New amount")
    seat.type(b"250.000\n")
    seat.wait_for("The amount can only be lowered")
    seat.wait_for(ASK)
    seat.type(b"d")
    seat.wait_for("New amount")
    seat.type(b"100.000\n")
    seat.wait_for("filed with 250.000")
    seat.wait_for(ASK)
    seat.type(b"a")
    seat.wait_for(ASK)
    seat.type(b"q")

    assert seat.exit_code() == 0
    paid = cli.json("refunds", "show", queue[0])
    assert (paid["status"], paid["amount_minor"]) == ("REFUNDED", 100_000)


def test_a_question_holds_the_request_and_an_empty_one_asks_nothing(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    seat.type(b"k")
    seat.wait_for("Question")
    seat.type(b"\n")
    seat.wait_for(ASK)
    seat.type(b"k")
    seat.wait_for("Question")
    seat.type("Bạn gửi ảnh nhé?\n".encode())
    seat.wait_for(queue[1])
    seat.wait_for(ASK)
    seat.type(b"\x04")

    assert seat.exit_code() == 0
    brief = cli.json("approvals", "show", queue[0])
    assert (brief["held"], brief["version"]) == (True, 2)
    assert brief["untrusted"]["conversation"][-1]["text"] == "Bạn gửi ảnh nhé?"


def test_what_moved_while_it_was_looked_at_is_refused_and_shown_anew(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    asked = ("--as", "huong", "--question", "Ảnh đâu?", "--expect", "1")
    cli("approvals", "ask", queue[0], *asked)
    seat.type(b"a")
    seat.wait_for("is at version 2, not 1")
    seat.wait_for("no answer yet")
    seat.wait_for(ASK)
    seat.type(b"q")

    assert seat.exit_code() == 0
    assert cli.json("refunds", "show", queue[0])["status"] == "PENDING_APPROVAL"


def test_what_somebody_else_decided_meanwhile_says_who_and_when(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    cli("approvals", "reject", queue[0], "--as", "huong", "--expect", "1")
    seat.type(b"a")
    seat.wait_for("decided by huong at 2026-10-13 09:00")
    seat.wait_for(queue[1])
    seat.wait_for(ASK)
    seat.type(b"q")

    assert seat.exit_code() == 0


def test_own_requests_and_those_out_of_reach_are_not_shown(shop_url, desk):
    own, high, free = asyncio.run(
        _filed(shop_url, ("A300", "C003"), ("A301", "C003"), ("A100", "C001"))
    )
    seat = desk("minh")
    seat.wait_for(ASK)
    seat.type(b"s")

    assert seat.exit_code() == 0
    assert "1 skipped; 2 need somebody else." in seat.seen
    assert f"request       {free}" in seat.seen
    for other in (own, high):
        assert f"request       {other}" not in seat.seen


def test_the_parts_of_one_refund_are_shown_once(shop_url, desk):
    asyncio.run(_filed(shop_url, ("A605", "C006")))
    seat = desk()
    seat.wait_for(ASK)
    seat.type(b"a")

    assert seat.exit_code() == 0
    assert seat.seen.count(": refunded") == 2
    assert "1 decided" in seat.seen


def test_ctrl_c_leaves_and_decides_nothing(cli, queue, desk):
    seat = desk()
    seat.wait_for(ASK)
    seat.type(CTRL_C)

    assert seat.exit_code() == 130
    assert "Traceback" not in seat.seen
    assert cli.json("refunds", "show", queue[0])["status"] == "PENDING_APPROVAL"


def test_without_a_terminal_it_says_what_to_use_instead(cli):
    error = cli("approvals", "review", "--as", "lan", code=2).stderr

    assert "needs a terminal" in error
    assert "--expect VERSION" in error

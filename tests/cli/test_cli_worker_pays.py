"""PAYOUTS__RUN=worker at the command line: approving says who pays, and tick pays where it can."""

from collections.abc import Callable

import pytest

from support_agent.cli.exits import ExitCode
from support_agent.services.escalations import Escalations
from tests.cli.conftest import Cli


@pytest.fixture
def by_worker(cli: Cli, environment: Callable[..., None]) -> Cli:
    environment(PAYOUTS__RUN="worker")
    return cli


def test_who_approves_is_told_that_a_worker_pays_and_tick_is_one(by_worker):
    request = by_worker.filed("A100")

    approved = by_worker("approvals", "approve", request, "--as", "lan", "--expect", "1").stdout
    assert f"request {request} is APPROVED" in approved
    assert "the worker pays it, and the customer is told when it is paid" in approved
    assert by_worker.rows("SELECT count(*) FROM refund_attempts") == [(0,)]

    ticked = by_worker.json("tick")
    assert ticked["paid"] == {"REFUNDED": 1}
    assert ticked["not_paid"] == {}
    [(notice,)] = by_worker.rows(
        "SELECT text FROM messages WHERE author = 'notice' ORDER BY seq DESC LIMIT 1"
    )
    assert notice.startswith("Đã hoàn 250.000")


def test_a_tick_without_the_key_does_the_rest_and_says_that_a_worker_pays(by_worker, environment):
    request = by_worker.filed("A100")
    by_worker("approvals", "approve", request, "--as", "lan", "--expect", "1")
    environment(PAYMENTS__KIND="stripe", PAYMENTS__STRIPE_ACCOUNT="acct_ours")

    shown = by_worker("tick").stdout
    assert "not paid (a worker pays): 1 APPROVED" in shown
    assert "expired: nothing" in shown
    assert "paid" not in by_worker.json("tick")
    assert by_worker.json("doctor", code=0)["ok"]


def test_a_fault_of_ours_in_one_phase_keeps_nothing_else_from_being_done(by_worker, monkeypatch):
    request = by_worker.filed("A100")
    by_worker("approvals", "approve", request, "--as", "lan", "--expect", "1")

    async def broken(_: object) -> object:
        raise KeyError("level")

    monkeypatch.setattr(Escalations, "run", broken)

    ticked = by_worker.json("tick", code=ExitCode.BROKEN)

    assert ticked["paid"] == {"REFUNDED": 1}
    assert ticked["problems"]["escalated"] == {
        "code": "INTERNAL",
        "message": "failed unexpectedly (KeyError), the log has more",
    }


def test_a_worker_that_cannot_start_does_not_say_that_it_works(cli, environment):
    environment(MODEL__KIND="anthropic", MODEL__NAME="shop-model")

    told = cli("worker", code=ExitCode.USAGE)

    assert told.stdout == ""
    assert "ANTHROPIC_API_KEY" in told.stderr

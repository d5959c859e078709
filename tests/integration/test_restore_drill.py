"""The restore drill of docs/operations.md, line by line: an older copy pays nobody a second time."""

import asyncio
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from support_agent.cli.app import app
from support_agent.testing.fault_proxy import FaultProxy
from support_agent.testing.stripe_server import StripeServer
from tests.kit import KEYS
from tests.stripe_kit import ACCOUNT, KEY

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
PROGRAM = f"""#!/bin/sh
exec {shlex.quote(sys.executable)} -c 'from support_agent.cli import main; main()' "$@"
"""
PAID = 250_000  # what the customer of A100 gets, once
PATIENCE_S = 120.0
REFUSED = 1


def lines_of(heading: str) -> list[list[str]]:
    """The lines of each block of commands under a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [block.strip().splitlines() for block in blocks]


BACKUP = lines_of("Backup")[0]
PUT_BACK, GO_ON, _ = lines_of("Restoring an older copy")


@contextmanager
def served(server: StripeServer) -> Iterator[str]:
    """A gateway that processes reach, in a loop and on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultProxy(server)

    def wait(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    wait(proxy.__aenter__())
    try:
        yield proxy.url
    finally:
        wait(proxy.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


class Machine:
    """A folder with a database in it, and a shell."""

    def __init__(self, folder: Path, gateway: StripeServer) -> None:
        self.folder = folder
        self.gateway = gateway
        self._env: dict[str, str] = {}

    def set(self, **env: str) -> None:
        self._env |= env

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        """One of our commands; its JSON."""
        result = CliRunner().invoke(app, [*words, "--json"], env=self._env)
        structlog.reset_defaults()
        assert result.exit_code in codes, (words, result.stdout, result.stderr)
        return json.loads(result.stdout) if result.stdout else None

    def perform(self, line: str, *, by_shell: bool = False) -> tuple[int, str]:
        """A line of the page; without a shell the program's own have no process of their own."""
        if not by_shell and "support-agent" in line:
            return self._inside(line)
        ended = subprocess.run(  # noqa: S602 - the page's own words
            line,
            shell=True,
            cwd=self.folder,
            env=os.environ | self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def _inside(self, line: str) -> tuple[int, str]:
        env, words = dict(self._env), shlex.split(line)
        while words[0] != "support-agent":
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        words = [env.get(word[1:], word) if word.startswith("$") else word for word in words]
        result = CliRunner().invoke(app, words[1:], env=env)
        structlog.reset_defaults()
        return result.exit_code, result.output

    def back_up(self) -> None:
        for line in BACKUP:
            assert self.perform(line)[0] == 0

    @property
    def paid(self) -> list[int]:
        return [refund["amount"] for refund in self.gateway.refunds]


@pytest.fixture
def machine(template: Path, tmp_path: Path, monkeypatch) -> Iterator[Machine]:
    folder = tmp_path / "data"
    (folder / "backups").mkdir(parents=True)
    monkeypatch.chdir(folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "support-agent").write_text(PROGRAM)
    (programs / "support-agent").chmod(0o755)
    database = Path(shutil.copy(template, folder / "support_agent.db"))
    gateway = StripeServer(account=ACCOUNT)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE shop_payments SET gateway = 'stripe', account = ?, gateway_payment_id = ? "
            "WHERE order_id = 'A100'",
            (ACCOUNT, gateway.sell(PAID, "VND")),
        )
    ours = Machine(folder, gateway)
    with served(gateway) as url:
        settings = {
            "DATABASE__URL": "sqlite:///support_agent.db",
            "SECURITY__KEYS": KEYS,
            "CLOCK__NOW": "2026-10-13",
            "APPROVALS__PROOF": "asserted",
            "PAYMENTS__KIND": "stripe",
            "PAYMENTS__STRIPE_KEY": KEY,
            "PAYMENTS__STRIPE_ACCOUNT": ACCOUNT,
            "PAYMENTS__STRIPE_URL": url,
        }
        ours.set(**{f"SUPPORT_AGENT_{name}": value for name, value in settings.items()})
        ours.set(PATH=f"{programs}:{os.environ['PATH']}", XDG_CONFIG_HOME=str(tmp_path))
        yield ours


def file(machine: Machine) -> None:
    """The customer asks for the money of A100 and agrees, if the program lets them."""
    talk = ("--customer", "C001", "--conversation")
    quoted = machine.run("ask", "hoàn tiền đơn A100", *talk[:2])
    machine.run("ask", "đồng ý", *talk, quoted["conversation_id"])


def decide_what_waits(machine: Machine, how: str = "approve") -> None:
    """As far as it is let; who sees that an order was refunded already rejects."""
    for row in machine.run("approvals", "list")["data"]:
        words = ("--as", "huong", "--expect", str(row["version"]))
        machine.run("approvals", how, row["id"], *words, codes=(0, REFUSED))


def end_what_is_left(machine: Machine) -> None:
    """As the page says: rejected, or ended with the gateway's refund as the proof."""
    decide_what_waits(machine, "reject")
    for row in machine.run("refunds", "list", "--status", "MANUAL_REVIEW")["data"]:
        [task] = machine.run("tasks", "list")["data"]
        assert (task["kind"], task["subject"]) == ("paid_after_all", row["id"])
        proof = ("--paid", "--evidence", machine.gateway.refunds[0]["id"])
        machine.run("refunds", "resolve", row["id"], *proof, "--as", "tuan")


def before_filing(machine: Machine) -> None:
    machine.back_up()
    file(machine)
    decide_what_waits(machine)


def before_approving(machine: Machine) -> None:
    file(machine)
    machine.back_up()
    decide_what_waits(machine)


def before_paying(machine: Machine) -> None:
    file(machine)
    machine.run("payouts", "pause")
    decide_what_waits(machine)
    machine.back_up()
    machine.run("payouts", "resume")
    machine.run("tick")


@pytest.mark.parametrize(
    ("story", "by_shell"),
    [(before_paying, True), (before_approving, False), (before_filing, False)],
)
def test_a_copy_from_before_the_money_left_pays_nobody_again(machine, story, by_shell):
    story(machine)
    assert machine.paid == [PAID]
    machine.set(HEAD=machine.run("audit", "verify")["head"])

    told = {line: machine.perform(line, by_shell=by_shell) for line in PUT_BACK}

    failed = {line.split()[1] for line, (code, _) in told.items() if code}
    assert failed == {"audit"}, told
    [(code, words)] = [told[line] for line in told if "--head" in line]
    assert (code, "problem:" in words) == (1, True)
    assert machine.paid == [PAID]

    gone_on = {line: machine.perform(line) for line in GO_ON}

    assert {code for code, _ in gone_on.values()} == {0}, gone_on
    go_on_working(machine)
    assert machine.paid == [PAID]
    assert len(list((machine.folder / "set-aside").iterdir())) >= 1


def go_on_working(machine: Machine) -> None:
    """Everybody does again what they did, and the clockwork runs: the books know of it all."""
    for day in ("2026-10-13", "2026-10-14"):
        machine.set(SUPPORT_AGENT_CLOCK__NOW=day)
        decide_what_waits(machine)
        file(machine)
        decide_what_waits(machine)
        machine.run("tick")
        assert machine.paid == [PAID]
    end_what_is_left(machine)
    [total] = machine.run("refunds", "check")["totals"]
    assert (total["reserved_minor"], total["refunded_minor"]) == (0, PAID)
    assert machine.run("audit", "verify")["ok"] is True


def test_a_copy_from_today_shows_no_rewind(machine):
    file(machine)
    head = machine.run("audit", "verify")["head"]
    machine.back_up()
    machine.set(HEAD=head)

    codes = [machine.perform(line)[0] for line in PUT_BACK]

    assert set(codes) == {0}

"""All commands under one name. Importing this imports no database, model or container."""

import io
import os
import sys

import typer

from support_agent.cli import (
    api_keys,
    approvals,
    approvers,
    audit,
    backups,
    conversations,
    db,
    destinations,
    memory,
    orders,
    policies,
    policy_check,
    privacy,
    refunds,
    replays,
    runs,
    staff,
    switches,
    tasks,
    usage,
)
from support_agent.cli.ask import ask
from support_agent.cli.chat import chat
from support_agent.cli.doctor import doctor
from support_agent.cli.edge import CommandLine
from support_agent.cli.options import examples
from support_agent.cli.serve import serve
from support_agent.cli.tick import tick
from support_agent.cli.worker import worker

app = typer.Typer(
    name="support-agent",
    help="A customer-support order agent: the model proposes, the code disposes.",
    cls=CommandLine,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "db upgrade && support-agent db seed",
        'ask "Đơn A100 có được hoàn tiền không?" --customer C001 --trace',
        "approvals list",
    ),
)
app.command(
    epilog=examples(
        'ask "Đơn A100 của tôi có được hoàn tiền không?" --customer C001 --trace',
        'ask "đồng ý" --customer C001 --conversation con_01… --json',
    )
)(ask)
app.command(
    epilog=examples(
        "chat --customer C001", "chat --customer C001 --conversation con_01… < messages.txt"
    )
)(chat)
# Without a name of their own: their commands are those of the group.
refunds.app.add_typer(staff.app)
policies.app.add_typer(policy_check.app)
runs.app.add_typer(replays.app)
db.app.add_typer(backups.app)
for group in (
    approvals.app,
    approvers.app,
    api_keys.app,
    refunds.app,
    orders.app,
    conversations.app,
    runs.app,
    tasks.app,
    usage.app,
    policies.app,
    destinations.app,
    memory.app,
    privacy.app,
    switches.payouts,
    switches.auto_approval,
    audit.app,
    db.app,
):
    app.add_typer(group)
app.command(epilog=examples("doctor", "doctor --deep --json"))(doctor)
app.command(epilog=examples("tick", "tick --json"))(tick)
app.command(epilog=examples("serve", "serve --host 0.0.0.0 --port 8080 --no-worker"))(serve)
app.command(epilog=examples("worker", "worker --without-payouts"))(worker)


def start() -> None:
    """Run the command line of this process."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # UTF-8 whatever the locale says: Vietnamese has to arrive whole.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    app()


def _replace_closed_streams() -> None:
    """Started with `>&-` a stream is None, and the next file that is opened takes its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
            setattr(sys, name, stream)

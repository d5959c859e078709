"""All commands under one name. Importing this imports no database, model or container."""

import io
import sys

import typer

from support_agent.cli import (
    approvals,
    approvers,
    audit,
    conversations,
    db,
    policies,
    refunds,
    runs,
    tasks,
)
from support_agent.cli.ask import ask
from support_agent.cli.chat import chat
from support_agent.cli.doctor import doctor
from support_agent.cli.edge import CommandLine
from support_agent.cli.options import examples
from support_agent.cli.tick import tick

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
for group in (
    approvals.app,
    approvers.app,
    refunds.app,
    conversations.app,
    runs.app,
    tasks.app,
    policies.app,
    audit.app,
    db.app,
):
    app.add_typer(group)
app.command(epilog=examples("doctor", "doctor --json"))(doctor)
app.command(epilog=examples("tick", "tick --json"))(tick)


def start() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # UTF-8 whatever the locale says: Vietnamese has to arrive whole.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    app()

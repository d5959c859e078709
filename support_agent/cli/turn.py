"""What `ask`, `chat` and `runs resume` share: who is speaking, and how a turn is shown."""

import sys
from typing import TYPE_CHECKING

import typer

from support_agent.cli.exits import code_of_run
from support_agent.cli.output import print_json, say, say_body
from support_agent.cli.trace import Tools, step_objects, trace_lines
from support_agent.cli.views import quote_object, usage_object
from support_agent.domain.conversation import Assurance
from support_agent.domain.people import customer_principal
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import RunStatus

if TYPE_CHECKING:
    from support_agent.agent.turns import TurnResult
    from support_agent.services.conversations import Binding

CHANNEL = "cli"
ACCOUNT = "local"
SILENT = "(a person has this conversation; the message is kept for them, the agent says nothing)"


def binding_of(customer_id: str) -> "Binding":
    """The customer as this terminal vouches for: who holds the host is trusted."""
    from support_agent.services.conversations import Binding  # noqa: PLC0415 - not for --help

    return Binding(
        channel=CHANNEL,
        account=ACCOUNT,
        external_contact=customer_id,
        customer_id=customer_id,
        assurance=Assurance.VERIFIED,
        principal=customer_principal(customer_id, via=CHANNEL),
    )


def turn_object(result: "TurnResult") -> dict[str, object]:
    """The contract of `ask --json`."""
    waiting = RequestStatus.PENDING_APPROVAL
    return {
        "conversation_id": result.conversation_id,
        "run_id": result.run_id,
        "status": result.status,
        "stop_reason": result.stop_reason,
        "answer": result.answer,
        "steps": step_objects(result.steps),
        "quotes": [quote_object(quote) for quote in result.quotes],
        "usage": usage_object(result.usage),
        "pending_approvals": [r.id for r in result.requests if r.status is waiting],
    }


def print_turn(result: "TurnResult", tools: Tools, *, trace: bool, as_json: bool) -> None:
    """The answer, before it the trace if it was asked for; or one object."""
    if as_json:
        print_json(turn_object(result))
        return
    if trace:
        for line in trace_lines(result.steps, tools):
            say(line)
    if result.answer:
        say_body(result.answer)
    elif result.status is RunStatus.HANDED_OFF:
        say(SILENT, to=sys.stderr)


def leave(result: "TurnResult") -> None:
    """End the command with the run's exit code."""
    raise typer.Exit(code_of_run(result.status, result.stop_reason))

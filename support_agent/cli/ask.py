"""`ask`: one message of a customer, one answer."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import (
    Conversation,
    Customer,
    Json,
    Operator,
    Trace,
    operator_or_user,
)
from support_agent.cli.output import say
from support_agent.cli.runtime import run
from support_agent.cli.turn import binding_of, leave, print_turn

if TYPE_CHECKING:
    from support_agent.agent.turns import TurnResult
    from support_agent.cli.trace import Tools
    from support_agent.container import Container


def ask(
    text: Annotated[str, typer.Argument(help="What the customer writes.", metavar="TEXT")],
    *,
    customer: Customer,
    conversation: Conversation = None,
    operator: Operator = None,
    trace: Trace = False,
    as_json: Json = False,
) -> None:
    """Send one message for a customer and print the answer.

    Exit code 3 when a limit stopped the run, 6 when the model did not answer.
    """

    async def work(container: "Container") -> "tuple[TurnResult, Tools]":
        from support_agent.agent.turns import Incoming  # noqa: PLC0415 - not for --help

        incoming = Incoming(
            text=text,
            binding=binding_of(customer),
            conversation_id=conversation,
            operator=operator_or_user(operator),
        )
        return await container.agent().take(incoming), container.tool_runner()

    result, tools = run(work)
    print_turn(result, tools, trace=trace, as_json=as_json)
    if not as_json and sys.stderr.isatty():
        say(f"(go on with --conversation {result.conversation_id})", to=sys.stderr)
    leave(result)

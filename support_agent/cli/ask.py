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


MessageId = Annotated[
    str | None,
    typer.Option(
        "--message-id",
        help="Its id where it comes from: the same one again gets the answer that it got.",
        metavar="ID",
    ),
]


def ask(
    text: Annotated[str, typer.Argument(help="What the customer writes.", metavar="TEXT")],
    *,
    customer: Customer,
    conversation: Conversation = None,
    operator: Operator = None,
    message_id: MessageId = None,
    trace: Trace = False,
    as_json: Json = False,
) -> None:
    """Send one message for a customer and print the answer.

    The turns before it in its conversation come first; the message is kept whatever happens then.

    Exit code 3 when a limit stopped the run, 5 when the turns before it took too long, 6 when the
    model did not answer.
    """

    async def work(container: "Container") -> "tuple[TurnResult, Tools]":
        from support_agent.agent.turns import Incoming  # noqa: PLC0415 - not for --help

        incoming = Incoming(
            text=text,
            binding=binding_of(customer),
            conversation_id=conversation,
            operator=operator_or_user(operator),
            message_id=message_id,
        )
        return await container.agent().take(incoming), container.tool_runner()

    result, tools = run(work)
    print_turn(result, tools, trace=trace, as_json=as_json)
    if not as_json and sys.stderr.isatty():
        say(f"(go on with --conversation {result.conversation_id})", to=sys.stderr)
    leave(result)

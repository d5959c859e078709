"""`conversations`: who wrote what, and the desk of a person who has one instead of the agent."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from support_agent.cli.conversation_brief import brief_object, print_conversation_brief
from support_agent.cli.listing import print_page
from support_agent.cli.options import (
    AnyCustomer,
    Cursor,
    Json,
    Limit,
    Operator,
    examples,
    operator_or_user,
)
from support_agent.cli.output import Column, print_json, rfc3339, say, say_body
from support_agent.cli.proving import MaybeAs, token_of
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import local
from support_agent.domain.conversation import Conversation, Message
from support_agent.domain.people import Principal
from support_agent.ports.storage import Page, Transaction
from support_agent.services.paging import check_cursor, page_of

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.conversation_briefs import ConversationBrief
    from support_agent.services.hand_off_desk import HandOffDesk

T = TypeVar("T")

COLUMNS = (
    Column(title="ID"),
    Column(title="CUSTOMER"),
    Column(title="CHANNEL"),
    Column(title="LANGUAGE"),
    Column(title="OPENED"),
    Column(title="STATE"),
)

app = typer.Typer(name="conversations", help="Conversations: read, take over, answer, return.")
Id = Annotated[str, typer.Argument(help="Its id.", metavar="CONVERSATION")]


@app.command(
    "list",
    epilog=examples("conversations list --customer C001", "conversations list --handed-off"),
)
def list_conversations(
    *,
    customer: AnyCustomer = None,
    handed_off: Annotated[
        bool, typer.Option("--handed-off", help="Only those that a person has.")
    ] = False,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List conversations, the newest first."""
    settings = ready()

    def read(tx: Transaction) -> Page[Conversation]:
        check_cursor(cursor, tx.conversations.get(cursor) if cursor else None)
        rows = tx.conversations.list(
            customer_id=customer, limit=limit + 1, before=cursor, handed_off=handed_off
        )
        return page_of(rows, limit, lambda row: row.id)

    async def work(container: "Container") -> Page[Conversation]:
        return await container.database().read(read)

    print_page(
        run(work, settings),
        columns=COLUMNS,
        row=lambda c: (
            c.id,
            c.customer_id or "",
            c.channel,
            c.language,
            local(c.created_at, settings.zone),
            "erased" if c.erased else "with a person" if c.handed_off else "open",
        ),
        as_object=_object,
        as_json=as_json,
    )


@app.command(epilog=examples("conversations show con_01…"))
def show(conversation: Id, *, as_json: Json = False) -> None:
    """Show what a conversation is about and what was tried, then every message."""
    settings = ready()

    async def work(container: "Container") -> "tuple[ConversationBrief, datetime]":
        from support_agent.services.conversation_briefs import (  # noqa: PLC0415 - not for --help
            conversation_brief,
        )

        brief = await container.database().read(lambda tx: conversation_brief(tx, conversation))
        return brief, container.clock().now()

    brief, now = run(work, settings)
    found = brief.conversation
    if as_json:
        messages = [_message_object(message) for message in brief.messages]
        print_json(_object(found) | {"summary": brief_object(brief), "messages": messages})
        return
    say(f"{found.id}: customer {found.customer_id or 'unknown'} via {found.channel}")
    print_conversation_brief(brief, settings.zone, now)
    for message in brief.messages:
        say()
        say(f"#{message.seq} {message.author} {local(message.at, settings.zone)}")
        # Set in, so that a message cannot look like the heading of another.
        say_body("    " + message.text.replace("\n", "\n    "))


@app.command(epilog=examples("conversations take con_01… --operator thu"))
def take(
    conversation: Id, *, name: MaybeAs = None, operator: Operator = None, as_json: Json = False
) -> None:
    """Take a conversation over from the agent, which says nothing in it from now on.

    What it is just about to answer is not said any more; what it filed stays filed.
    """

    async def work(desk: "HandOffDesk", by: Principal) -> str:
        return (await desk.take(conversation, by=by)).id

    task, by = _at_the_desk(work, name, operator)
    if as_json:
        print_json({"id": conversation, "handed_off": True, "by": by.id, "task": task})
        return
    say(f"conversation {conversation} is with {by.id} (task {task})")
    say(f"answer with: support-agent conversations answer {conversation} TEXT")


@app.command(
    epilog=examples('conversations answer con_01… "Bên mình đã kiểm tra, mai sẽ giao." --as lan')
)
def answer(
    conversation: Id,
    text: Annotated[str, typer.Argument(help="What the customer is told.", metavar="TEXT")],
    *,
    name: MaybeAs = None,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Answer a customer in a conversation that a person has."""

    async def work(desk: "HandOffDesk", by: Principal) -> Message:
        return await desk.answer(conversation, text, by=by)

    message, by = _at_the_desk(work, name, operator)
    if as_json:
        print_json({"id": conversation, "seq": message.seq, "text": message.text, "by": by.id})
        return
    say(f"message {message.seq} of conversation {conversation} is from {by.id}")
    say(f"when it is settled: support-agent conversations return {conversation}")


@app.command("return", epilog=examples("conversations return con_01… --operator thu"))
def give_back(
    conversation: Id, *, name: MaybeAs = None, operator: Operator = None, as_json: Json = False
) -> None:
    """Give a conversation back to the agent; the tasks it was handed over with are done.

    The agent sees what was said meanwhile. What the customer wrote after a person's last answer is
    the agent's to answer: by a worker, or with the customer's next message.
    """

    async def work(desk: "HandOffDesk", by: Principal) -> int:
        return await desk.give_back(conversation, by=by)

    unread, by = _at_the_desk(work, name, operator)
    if as_json:
        about = {"id": conversation, "handed_off": False, "by": by.id, "to_answer": unread}
        print_json(about)
        return
    say(f"conversation {conversation} is the agent's again, by {by.id}")
    if unread:
        say(f"{unread} messages of the customer are the agent's to answer")


def _at_the_desk(
    act: "Callable[[HandOffDesk, Principal], Awaitable[T]]", name: str | None, operator: str | None
) -> tuple[T, Principal]:
    """Do it as an approver who proves it (`--as`), or as whoever is at this machine."""
    settings = ready()
    token = token_of(name, settings) if name else None

    async def work(container: "Container") -> tuple[T, Principal]:
        by = (
            await container.approvals().prove(name, token, via="cli")
            if name
            else at_the_host(operator_or_user(operator))
        )
        return await act(container.hand_off_desk(), by), by

    return run(work, settings)


def _object(conversation: Conversation) -> dict[str, object]:
    return {
        "id": conversation.id,
        "customer_id": conversation.customer_id,
        "channel": conversation.channel,
        "language": conversation.language,
        "created_at": rfc3339(conversation.created_at),
        "handed_off": conversation.handed_off,
        "erased": conversation.erased,
    }


def _message_object(message: Message) -> dict[str, object]:
    return {
        "seq": message.seq,
        "author": message.author,
        "text": message.text,
        "at": rfc3339(message.at),
        "run_id": message.run_id,
    }

"""`conversations`: who wrote what, as it was committed."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import check_cursor, page_of, print_page
from support_agent.cli.options import AnyCustomer, Cursor, Json, Limit, examples
from support_agent.cli.output import Column, print_json, rfc3339, say, say_body
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import local
from support_agent.domain.conversation import Conversation, Message
from support_agent.domain.errors import ConversationNotFound
from support_agent.ports.storage import Page, Transaction

if TYPE_CHECKING:
    from support_agent.container import Container

COLUMNS = (
    Column(title="ID"),
    Column(title="CUSTOMER"),
    Column(title="CHANNEL"),
    Column(title="LANGUAGE"),
    Column(title="OPENED"),
    Column(title="STATE"),
)

app = typer.Typer(name="conversations", help="Conversations and their messages.")


@app.command("list", epilog=examples("conversations list --customer C001"))
def list_conversations(
    *, customer: AnyCustomer = None, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False
) -> None:
    """List conversations, the newest first."""
    settings = ready()

    def read(tx: Transaction) -> Page[Conversation]:
        check_cursor(cursor, tx.conversations.get(cursor) if cursor else None)
        rows = tx.conversations.list(customer_id=customer, limit=limit + 1, before=cursor)
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
            "with a person" if c.handed_off else "open",
        ),
        as_object=_object,
        as_json=as_json,
    )


@app.command(epilog=examples("conversations show con_01…"))
def show(
    conversation: Annotated[str, typer.Argument(help="Its id.", metavar="CONVERSATION")],
    *,
    as_json: Json = False,
) -> None:
    """Show every message of a conversation."""
    settings = ready()

    def read(tx: Transaction) -> tuple[Conversation, tuple[Message, ...]]:
        found = tx.conversations.get(conversation)
        if found is None:
            raise ConversationNotFound(conversation)
        return found, tx.conversations.messages(conversation)

    async def work(container: "Container") -> tuple[Conversation, tuple[Message, ...]]:
        return await container.database().read(read)

    found, messages = run(work, settings)
    if as_json:
        print_json(_object(found) | {"messages": [_message_object(m) for m in messages]})
        return
    say(f"{found.id}: customer {found.customer_id or 'unknown'} via {found.channel}")
    for message in messages:
        say()
        say(f"#{message.seq} {message.author} {local(message.at, settings.zone)}")
        # Set in, so that a message cannot look like the heading of another.
        say_body("    " + message.text.replace("\n", "\n    "))


def _object(conversation: Conversation) -> dict[str, object]:
    return {
        "id": conversation.id,
        "customer_id": conversation.customer_id,
        "channel": conversation.channel,
        "language": conversation.language,
        "created_at": rfc3339(conversation.created_at),
        "handed_off": conversation.handed_off,
    }


def _message_object(message: Message) -> dict[str, object]:
    return {
        "seq": message.seq,
        "author": message.author,
        "text": message.text,
        "at": rfc3339(message.at),
        "run_id": message.run_id,
    }

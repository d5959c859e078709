"""Who may look into a conversation: its own customer, as surely as it was opened, and staff."""

from support_agent.domain.access import VIA, Acting
from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Conversation
from support_agent.domain.errors import (
    ConversationNotFound,
    IdentityNotVerified,
    NotFound,
    RunNotFound,
)
from support_agent.domain.people import customer_principal
from support_agent.domain.runs import Run
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Page, Sender, Transaction
from support_agent.services.conversations import Binding, is_bound_to
from support_agent.services.paging import check_cursor, page_of


class ConversationAccess:
    """Shows conversations and runs to whoever they are for.

    `acting` is the customer that is spoken for, None for staff, who see all. What is another's
    answers as what is not there, and leaves an audit event. Each of one thing raises:

        ConversationNotFound, RunNotFound: unknown, erased or another's.
        IdentityNotVerified: it was opened by a customer who was proved, and this one only says so.
    """

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def conversation(self, conversation_id: str, acting: Acting | None) -> Conversation:
        found = await self._database.read(
            lambda tx: tx.conversations.get(conversation_id), brief=True
        )
        if found is None:
            raise ConversationNotFound(conversation_id)
        await self._check(found, acting, ConversationNotFound(conversation_id), "conversation")
        return found

    async def run(self, run_id: str, acting: Acting | None) -> Run:
        run, conversation = await self._database.read(lambda tx: _run(tx, run_id), brief=True)
        if run is None or conversation is None:
            raise RunNotFound(run_id)
        await self._check(conversation, acting, RunNotFound(run_id), "run")
        return run

    async def page(
        self,
        acting: Acting | None,
        *,
        customer_id: str | None,
        handed_off: bool,
        limit: int,
        cursor: str | None,
    ) -> Page[Conversation]:
        """The newest first; of a customer those that may be looked into.

        Raises:
            InvalidInput: the cursor is none of this list.
        """

        def read(tx: Transaction) -> Page[Conversation]:
            last, more = tx.conversations.get(cursor) if cursor else None, limit + 1
            is_theirs = last and (acting is None or is_bound_to(last, binding_of(acting)))
            check_cursor(cursor, last if is_theirs else None)
            if acting is None:
                rows = tx.conversations.list(
                    customer_id=customer_id, handed_off=handed_off, limit=more, before=cursor
                )
            else:
                rows = tx.conversations.list(
                    customer_id=acting.customer_id,
                    handed_off=handed_off,
                    limit=more,
                    before=cursor,
                    sender=_sender(acting),
                    at_most=acting.assurance,
                )
            return page_of(rows, limit, lambda row: row.id)

        return await self._database.read(read)

    async def _check(
        self, conversation: Conversation, acting: Acting | None, missing: NotFound, kind: str
    ) -> None:
        if acting is None:
            return
        if conversation.erased:
            raise missing
        if not is_bound_to(conversation, binding_of(acting)):
            denied = AuditEvent(
                action="access.denied",
                actor=binding_of(acting).principal,
                subject=missing.identifier,
                at=self._clock.now(),
                data={"kind": kind, "customer": acting.customer_id},
            )
            await self._database.transact(lambda tx: tx.audit.append(denied))
            raise missing
        if acting.assurance < conversation.assurance:
            raise IdentityNotVerified


def binding_of(acting: Acting) -> Binding:
    """The customer as the key that speaks for them vouches."""
    return Binding(
        channel=acting.channel,
        account=acting.account,
        external_contact=acting.contact,
        customer_id=acting.customer_id,
        assurance=acting.assurance,
        principal=customer_principal(acting.customer_id, via=VIA),
    )


def _sender(acting: Acting) -> Sender:
    return Sender(
        channel=acting.channel,
        account=acting.account,
        external_contact=acting.contact,
        customer_id=acting.customer_id,
        conversation_id=None,
    )


def _run(tx: Transaction, run_id: str) -> tuple[Run | None, Conversation | None]:
    run = tx.runs.get(run_id)
    return run, None if run is None else tx.conversations.get(run.conversation_id)

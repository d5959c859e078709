"""What is remembered of a customer between conversations: how they want to be served."""

from datetime import datetime

from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Assurance, Conversation
from support_agent.domain.errors import CustomerNotFound
from support_agent.domain.language import detect
from support_agent.domain.people import Principal
from support_agent.domain.preferences import Known, PreferenceKind, spoken
from support_agent.domain.stated_preferences import stated
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Preference, Transaction


class CustomerMemory:
    """Keeps codes only, taken from a verified customer's own words by code."""

    def __init__(self, *, database: Database, orders: OrderRepository, clock: Clock) -> None:
        self._database = database
        self._orders = orders
        self._clock = clock

    def hear(
        self, tx: Transaction, conversation: Conversation, text: str, *, seq: int, at: datetime
    ) -> None:
        """Take from a message how it is answered: in which language, and what else was said.

        The language somebody asked for beats the one they write in.
        """
        said = self._said(conversation, text, seq=seq)
        # What this conversation knows already may have been changed in another one since.
        for known in sorted(said, key=lambda known: known.kind):  # one order of rows for all
            tx.preferences.put(
                Preference(
                    customer_id=conversation.customer_id or "",
                    kind=known.kind,
                    value=known.value,
                    conversation_id=conversation.id,
                    at=at,
                )
            )
        before = {one.kind: one.value for one in conversation.known}
        new = tuple(known for known in said if before.get(known.kind) != known.value)
        if new:
            tx.conversations.know(conversation.id, new)
        asked_now = spoken(new)
        language = asked_now or spoken(conversation.known) or detect(text, conversation.language)
        # Of a new conversation it is not known here what the customer asked for in an earlier one.
        if asked_now or language != conversation.language:
            tx.conversations.set_language(conversation.id, language)

    async def of(self, customer_id: str) -> tuple[Preference, ...]:
        """What is remembered.

        Raises:
            CustomerNotFound: nobody knows this customer.
        """
        found = await self._database.read(lambda tx: tx.preferences.of(customer_id))
        if not found:
            await self._check_known(customer_id)
        return found

    async def forget(
        self, customer_id: str, kind: PreferenceKind | None, *, by: Principal
    ) -> tuple[PreferenceKind, ...]:
        """Forget one kind, or all; what there was to forget.

        Raises:
            CustomerNotFound: nobody knows this customer.
        """

        def forget(tx: Transaction) -> tuple[PreferenceKind, ...]:
            forgotten = tx.preferences.forget(customer_id, kind)
            if forgotten:
                tx.audit.append(
                    AuditEvent(
                        action="memory.forgotten",
                        actor=by,
                        subject=customer_id,
                        at=self._clock.now(),
                        data={"kinds": " ".join(forgotten)},
                    )
                )
            return forgotten

        forgotten = await self._database.transact(forget)
        if not forgotten:
            await self._check_known(customer_id)
        return forgotten

    def _said(self, conversation: Conversation, text: str, *, seq: int) -> tuple[Known, ...]:
        """What a message says; of a customer who is only claimed to be one nothing is kept."""
        if conversation.customer_id is None or conversation.assurance is not Assurance.VERIFIED:
            return ()
        return tuple(Known(seq=seq, kind=kind, value=value) for kind, value in stated(text).items())

    async def _check_known(self, customer_id: str) -> None:
        if await self._database.read(lambda tx: tx.privacy.knows(customer_id)):
            return
        customer = await self._orders.find_customer(customer_id)
        if customer is None or customer.id != customer_id:
            raise CustomerNotFound(customer_id)

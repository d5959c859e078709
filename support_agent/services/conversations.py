"""Conversations: bound to a channel and a customer at creation, closed to everyone else."""

from dataclasses import dataclass

from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Assurance, Conversation
from support_agent.domain.errors import ConversationNotFound, CustomerNotFound
from support_agent.domain.language import detect
from support_agent.domain.people import Principal
from support_agent.domain.reasons import Language
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Who is on the other end, as the channel proved it; never from the text."""

    channel: str
    account: str
    external_contact: str
    customer_id: str
    assurance: Assurance
    principal: Principal


class ConversationDesk:
    """Opens conversations and lets only their own customer back in."""

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        clock: Clock,
        ids: Ids,
        default_language: Language,
    ) -> None:
        self._database = database
        self._orders = orders
        self._clock = clock
        self._ids = ids
        self._default_language = default_language

    async def enter(
        self, binding: Binding, *, conversation_id: str | None, first_text: str
    ) -> Conversation:
        """The conversation to go on with, or a new one.

        Raises:
            CustomerNotFound, ConversationNotFound: as `find`.
        """
        conversation, is_new = await self.find(
            binding, conversation_id=conversation_id, first_text=first_text
        )
        if is_new:
            await self._database.transact(lambda tx: tx.conversations.add(conversation))
        return conversation

    async def find(
        self, binding: Binding, *, conversation_id: str | None, first_text: str
    ) -> tuple[Conversation, bool]:
        """As `enter`, with whether it is new: then it has yet to be added.

        Raises:
            CustomerNotFound: the shop does not know the customer.
            ConversationNotFound: unknown, or bound to somebody else (which leaves an audit event).
        """
        if conversation_id is not None:
            return await self._reenter(binding, conversation_id), False
        customer = await self._orders.find_customer(binding.customer_id)
        if customer is None or customer.id != binding.customer_id:
            raise CustomerNotFound(binding.customer_id)
        fallback: Language = "en" if customer.language == "en" else self._default_language
        conversation = Conversation(
            id=self._ids.new("con"),
            channel=binding.channel,
            account=binding.account,
            external_contact=binding.external_contact,
            customer_id=customer.id,
            assurance=binding.assurance,
            language=detect(first_text, fallback),
            created_at=self._clock.now(),
        )
        return conversation, True

    async def _reenter(self, binding: Binding, conversation_id: str) -> Conversation:
        """Reads only, unless somebody reaches for what is not theirs."""
        conversation = await self._database.read(
            lambda tx: tx.conversations.get(conversation_id), brief=True
        )
        if conversation is None or conversation.erased:  # nobody is bound to that any more
            raise ConversationNotFound(conversation_id)
        if not is_bound_to(conversation, binding):
            denied = AuditEvent(
                action="access.denied",
                actor=binding.principal,
                subject=conversation_id,
                at=self._clock.now(),
                data={"kind": "conversation", "customer": binding.customer_id},
            )
            await self._database.transact(lambda tx: tx.audit.append(denied))
            raise ConversationNotFound(conversation_id)
        return conversation


def is_bound_to(conversation: Conversation, binding: Binding) -> bool:
    """Whether the binding is exactly the one the conversation was opened with."""
    bound = (
        conversation.channel,
        conversation.account,
        conversation.external_contact,
        conversation.customer_id,
    )
    return bound == (
        binding.channel,
        binding.account,
        binding.external_contact,
        binding.customer_id,
    )

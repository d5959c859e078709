"""The inbox: what customers write is committed before anything is made of it, each message once."""

from dataclasses import dataclass

from support_agent.domain.conversation import Conversation
from support_agent.ports.clock import Clock
from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import Received, Sender, Transaction
from support_agent.services.conversations import Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A customer's message as a channel hands it over; the binding is the channel's word.

    `message_id` is the channel's own: what it delivers twice under one id is one message.
    """

    text: str
    binding: Binding
    conversation_id: str | None = None
    operator: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """Where a message stands in the inbox; `is_known` when it came before."""

    conversation_id: str
    seq: int
    is_known: bool = False


class Inbox:
    """Takes messages in. Who answers them is another question."""

    def __init__(self, *, queue: TurnQueue, clock: Clock, debounce_s: float) -> None:
        self._queue = queue
        self._clock = clock
        self._debounce_s = debounce_s

    def known(self, tx: Transaction, incoming: Incoming) -> Posted | None:
        """The message that was delivered under the same id before, if any."""
        if incoming.message_id is None:
            return None
        binding = incoming.binding
        sender = Sender(
            channel=binding.channel,
            account=binding.account,
            external_contact=binding.external_contact,
            customer_id=binding.customer_id,
            conversation_id=incoming.conversation_id,
        )
        found = tx.conversations.delivered(sender, incoming.message_id)
        if found is None:
            return None
        return Posted(conversation_id=found.conversation_id, seq=found.seq, is_known=True)

    def post(
        self, tx: Transaction, conversation: Conversation, text: str, incoming: Incoming
    ) -> Posted:
        """Write it down as unread, and wake whoever answers it, in one commit."""
        seq = self.receive(tx, conversation, text, incoming, run_id=None)
        self._queue.wake(tx, conversation.id, delay_s=self._debounce_s)
        return Posted(conversation_id=conversation.id, seq=seq)

    def receive(
        self,
        tx: Transaction,
        conversation: Conversation,
        text: str,
        incoming: Incoming,
        *,
        run_id: str | None,
    ) -> int:
        """Write it down; its `seq`."""
        return tx.conversations.receive(
            Received(
                conversation_id=conversation.id,
                text=text,
                at=self._clock.now(),
                message_id=incoming.message_id,
                operator=incoming.operator,
                assurance=incoming.binding.assurance,
                run_id=run_id,
            )
        )

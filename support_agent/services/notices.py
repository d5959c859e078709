"""What code tells a customer outside of a turn: one sentence for requests that moved together."""

from collections.abc import Sequence

from support_agent.domain.conversation import Author
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.wording import group_sentence, late_failure_sentence
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction
from support_agent.services.destinations import accounts_of
from support_agent.services.outgoing import send_later

S = RequestStatus

# The customer hears of these when they happen outside of a turn; the rest is our own bookkeeping.
TOLD = frozenset(
    {S.APPROVED, S.REFUNDED, S.REJECTED, S.CANCELLED, S.EXPIRED, S.FAILED, S.IN_DOUBT}
    | {S.PAYING, S.MANUAL_REVIEW, S.PROVIDER_PENDING}
)


class Notices:
    """Writes notices into the conversations that requests came from, and sends them out."""

    def __init__(self, *, clock: Clock, books_only: bool) -> None:
        self._clock = clock
        self._books_only = books_only

    def tell(
        self, tx: Transaction, before: Sequence[RefundRequest], moved: Sequence[RefundRequest]
    ) -> None:
        """What became of requests of one group, in the same order as they stood before it."""
        first = moved[0]
        if first.conversation_id is None or first.status not in TOLD:
            return
        conversation = tx.conversations.get(first.conversation_id)
        if conversation is not None and conversation.erased:  # it is closed, and nobody reads it
            return
        language: Language = conversation.language if conversation else "vi"
        now = self._clock.now()
        try:
            seq = tx.conversations.append(
                first.conversation_id,
                author=Author.NOTICE,
                text=self._text(tx, before[0].status, moved, language),
                at=now,
                run_id=None,
            )
        except ConversationNotFound:  # erased while this waited for its row: what moved has moved
            return
        send_later(tx, first.conversation_id, seq, at=now)

    def _text(
        self,
        tx: Transaction,
        was: RequestStatus,
        moved: Sequence[RefundRequest],
        language: Language,
    ) -> str:
        if (was, moved[0].status) == (S.REFUNDED, S.FAILED):
            return " ".join(late_failure_sentence(request, language) for request in moved)
        return group_sentence(
            moved, language, books_only=self._books_only, accounts=accounts_of(tx, moved)
        )

"""Whether the customer said yes to a quote: judged by code, from messages after it was shown."""

from support_agent.domain.consent import Consent, classify
from support_agent.domain.conversation import Author
from support_agent.domain.refunds import Quote
from support_agent.ports.storage import Transaction


def consent_to(tx: Transaction, quote: Quote) -> Consent | None:
    """What the customer answered to the quote, None when they have not answered.

    Only messages of the quote's own conversation after the one it was shown in count. A no
    anywhere after it stands (a change of mind takes a new quote); otherwise the newest decides.
    """
    if quote.shown_seq is None:
        return None
    later = tx.conversations.messages(quote.conversation_id, after_seq=quote.shown_seq)
    answers = [classify(m.text) for m in later if m.author is Author.CUSTOMER]
    if not answers:
        return None
    return Consent.NO if Consent.NO in answers else answers[-1]

"""Whether the customer said yes to a quote: judged by code, from messages after it was shown."""

from support_agent.domain.consent import Consent, classify
from support_agent.domain.conversation import Assurance, Author, Message
from support_agent.domain.refunds import Quote
from support_agent.ports.storage import Transaction

RUN_CANCELLED = "run.cancelled"


def consent_to(tx: Transaction, quote: Quote) -> Consent | None:
    """What the customer answered to the quote, None when they have not answered.

    Only messages of the quote's own conversation after the last one that showed it count. A no
    among them stands (a change of mind takes a new quote); otherwise the newest decides. A yes
    that follows something else we said (a notice, an apology) may be an answer to that, so it is
    unclear unless it repeats one; our answer to a question shows an open quote again for this.
    So is a yes of whom the channel was not sure of, and one whose turn somebody called off before
    it was acted on: whoever still wants it says so to the offer that the next answer shows.
    """
    if quote.shown_seq is None:
        return None
    answers: list[Consent] = []
    interrupted = False
    for message in tx.conversations.messages(quote.conversation_id, after_seq=quote.shown_seq):
        if message.author is not Author.CUSTOMER:
            interrupted = True
            continue
        said = classify(message.text)
        to_something_else = interrupted and Consent.YES not in answers
        if said is Consent.YES and (
            to_something_else or not _is_sure(message) or _was_called_off(tx, message)
        ):
            said = Consent.UNCLEAR
        answers.append(said)
    if not answers:
        return None
    return Consent.NO if Consent.NO in answers else answers[-1]


def _is_sure(message: Message) -> bool:
    return message.assurance in {None, Assurance.VERIFIED}


def _was_called_off(tx: Transaction, message: Message) -> bool:
    """Also if its run was resumed since: that was not the customer saying yes again."""
    run_id = message.run_id
    return run_id is not None and tx.audit.latest_for(run_id, prefix=RUN_CANCELLED) is not None


def awaits_answer(tx: Transaction, quote: Quote) -> bool:
    """Whether a quote that was shown is still to be answered with a yes or a no."""
    return consent_to(tx, quote) not in {Consent.YES, Consent.NO}

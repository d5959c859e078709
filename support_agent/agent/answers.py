"""What the customer is told: the model's words, and beside them what code knows to be true."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from support_agent.agent.claims import needs_note
from support_agent.agent.metering import account_of
from support_agent.agent.results import spoken_of
from support_agent.agent.state import LoopEnd, RunState
from support_agent.domain.budget_wording import budget_sentence
from support_agent.domain.groups import grouped
from support_agent.domain.links import without_links
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import Quote, RefundRequest
from support_agent.domain.runs import StopReason
from support_agent.domain.wording import (
    amounts_note,
    group_sentence,
    offer_sentence,
    stop_sentence,
)
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction
from support_agent.services.consent import awaits_answer
from support_agent.services.destinations import accounts_of
from support_agent.services.quotes import offer_shown
from support_agent.services.usage_tasks import tell_of_limit

# What the model says may not push what code says off the customer's screen.
MOST_ANSWER_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A composed answer with the quotes it shows and the requests it states."""

    text: str
    reason: StopReason
    quotes: tuple[Quote, ...]
    requests: tuple[RefundRequest, ...]


class Answers:
    """Composes answers. Amounts, states and offers are rendered from rows, never from the model."""

    def __init__(
        self, *, clock: Clock, zone: tzinfo, books_only: bool, link_hosts: Collection[str]
    ) -> None:
        self._clock = clock
        self._link_hosts = link_hosts
        self._zone = zone
        self._books_only = books_only

    def compose(self, tx: Transaction, state: RunState, end: LoopEnd) -> Answer:
        """The answer a run ends with; one that shows an open quote asks the customer."""
        language = state.conversation.language
        answered = end.reason in {StopReason.ANSWERED, StopReason.ASKED_CUSTOMER}
        quotes = self._quotes_to_show(tx, state) if answered else ()
        requests = spoken_of(tx, state.request_ids)
        said = self._said(end.text or "", language)
        parts = [said or self._stopped(tx, state, end)]
        if said and needs_note(said, state.turns, stands_alone=not (quotes or requests)):
            parts.append(amounts_note(language, nothing_filed=not requests))
        parts += self._money_sentences(tx, quotes, requests, language)
        return Answer(
            text=unicodedata.normalize("NFC", "\n\n".join(part for part in parts if part)),
            reason=StopReason.ASKED_CUSTOMER if quotes else end.reason,
            quotes=quotes,
            requests=requests,
        )

    def silence(self, tx: Transaction, state: RunState) -> Answer:
        """What is said where a person has the conversation: only what was done with money."""
        requests = spoken_of(tx, state.request_ids)
        said = self._money_sentences(tx, (), requests, state.conversation.language)
        return Answer(
            text="\n\n".join(said), reason=StopReason.HANDED_OFF, quotes=(), requests=requests
        )

    def regret(
        self, tx: Transaction, reason: StopReason, request_ids: list[str], language: Language
    ) -> str:
        """What is said when a turn broke off: why, and what it had done with money before."""
        parts = (stop_sentence(reason, language), self.done(tx, request_ids, language))
        return "\n\n".join(part for part in parts if part)

    def done(self, tx: Transaction, request_ids: list[str], language: Language) -> str:
        """What a turn did with money, as it stands now; empty when it did nothing."""
        requests = spoken_of(tx, request_ids)
        return "\n\n".join(self._money_sentences(tx, (), requests, language))

    def _said(self, text: str, language: Language) -> str:
        """The model's words without links that somebody else may have put into its mouth."""
        if len(text) > MOST_ANSWER_CHARS:
            text = f"{text[:MOST_ANSWER_CHARS]}…"
        return without_links(text, hosts=self._link_hosts, language=language)

    def _stopped(self, tx: Transaction, state: RunState, end: LoopEnd) -> str:
        """Why there are no words of the model's; staff is told of a budget that is used up."""
        language = state.conversation.language
        if end.over is None:
            return stop_sentence(end.reason, language)
        account, now = account_of(state), self._clock.now()
        tell_of_limit(tx, account, end.over.scope, now=now, zone=self._zone)
        return budget_sentence(end.over.scope, language)

    def _money_sentences(
        self,
        tx: Transaction,
        quotes: tuple[Quote, ...],
        requests: tuple[RefundRequest, ...],
        language: Language,
    ) -> list[str]:
        """One sentence a group: several payments are one offer, and one refund."""
        accounts = accounts_of(tx, quotes) | accounts_of(tx, requests)
        return [
            offer_sentence(group, language, self._zone, accounts) for group in grouped(quotes)
        ] + [
            group_sentence(group, language, books_only=self._books_only, accounts=accounts)
            for group in grouped(requests)
        ]

    def shown(
        self, tx: Transaction, state: RunState, quotes: tuple[Quote, ...], seq: int
    ) -> tuple[Quote, ...]:
        """Remember what the customer saw and where; signed, so that no other terms can be filed."""
        if not quotes:
            return ()
        tx.quotes.mark_shown([quote.id for quote in quotes], seq=seq)
        seen = tuple(replace(quote, shown_seq=seq) for quote in quotes)
        for group in grouped(seen):
            for event in offer_shown(group, state.asker.principal, self._clock.now()):
                tx.audit.append(event)
        return seen

    def _quotes_to_show(self, tx: Transaction, state: RunState) -> tuple[Quote, ...]:
        """What was quoted in this run, and what was shown before and is still unanswered.

        An open quote stands at the end of every answer, so that a yes answers the quote and not
        another question of the model's.
        """
        mine, now = set(state.quote_ids), self._clock.now()
        return tuple(
            quote
            for group in grouped(tx.quotes.open_in(state.conversation.id))
            if mine.intersection(quote.id for quote in group) or _waits(tx, group[0], now)
            for quote in group
        )


def _waits(tx: Transaction, quote: Quote, now: datetime) -> bool:
    return bool(quote.shown_seq) and now <= quote.expires_at and awaits_answer(tx, quote)

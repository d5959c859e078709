"""Quoting: an exact offer, computed by code, that only a later yes can turn into a request."""

from dataclasses import dataclass
from datetime import datetime

from support_agent.domain.allocation import (
    Wish,
    allocate,
    choose_payment,
    destination_of,
    payment_with_room,
    still_fits,
)
from support_agent.domain.assessment import assess, required_level
from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.errors import RefundRefused
from support_agent.domain.orders import Order, Payment
from support_agent.domain.people import Asker, Principal
from support_agent.domain.policy import Assessment, OrderBooks, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Quote, RefundLine, quote_digest
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Transaction
from support_agent.services.policies import PoliciesInForce
from support_agent.services.terms import RefundTerms

QUOTE_SHOWN = "quote.shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a wish comes to right now: verdict and exact money, before anything is stored."""

    policy: Policy
    assessment: Assessment
    lines: tuple[RefundLine, ...]
    payment: Payment
    amount_minor: int
    level: int
    reasons: tuple[Reason, ...]


class Quotes:
    """Computes and stores quotes."""

    def __init__(
        self, *, policies: PoliciesInForce, terms: RefundTerms, clock: Clock, ids: Ids
    ) -> None:
        self._policies = policies
        self._terms = terms
        self._clock = clock
        self._ids = ids

    def assess(self, tx: Transaction, order: Order) -> tuple[Assessment, OrderBooks]:
        """The verdict on an order as of now, and the books it rests on; reads only."""
        policy = self._policies.current(tx)
        books = tx.books.of_order(order.id)
        return assess(order, books, policy, self._clock.now()), books

    def compute(self, tx: Transaction, order: Order, wish: Wish) -> Terms:
        """What a wish comes to under the policy in force; stores nothing but synced balances.

        Raises:
            RefundRefused: not refundable, too much, or above what any approver may let pass.
        """
        policy, books, assessment = self._judge(tx, order)
        lines = allocate(wish, order, books, assessment)
        amount = sum(line.amount_minor for line in lines)
        payment = choose_payment(order, books, amount)
        return self._terms_of(policy, books, assessment, lines, payment)

    def recompute(self, tx: Transaction, order: Order, quote: Quote) -> Terms:
        """The quote's terms as of now, by the same rules; the window is judged here a last time.

        Raises:
            RefundRefused: QUOTE_STALE when anything it rests on became worse or different,
                ABOVE_POLICY_LIMIT when the order's other refunds leave no approver for it.
        """
        if order.id != quote.order_id or order.customer_id != quote.customer_id:
            raise RefundRefused(Reason.QUOTE_STALE)
        try:
            policy, books, assessment = self._judge(tx, order)
        except RefundRefused as refused:
            raise RefundRefused(Reason.QUOTE_STALE) from refused
        payment = payment_with_room(order, books, quote.payment_id, quote.amount_minor)
        fits = (
            payment is not None
            and destination_of(payment) == quote.destination
            and still_fits(quote.lines, assessment)
            and (policy.id, policy.version) == (quote.policy_id, quote.policy_version)
        )
        if payment is None or not fits:
            raise RefundRefused(Reason.QUOTE_STALE)
        return self._terms_of(policy, books, assessment, quote.lines, payment)

    def _judge(self, tx: Transaction, order: Order) -> tuple[Policy, OrderBooks, Assessment]:
        policy = self._policies.current(tx)
        tx.books.sync(order)
        books = tx.books.of_order(order.id)
        assessment = assess(order, books, policy, self._clock.now())
        if assessment.verdict is Verdict.INELIGIBLE:
            raise RefundRefused(assessment.reasons[0], **assessment.facts)
        return policy, books, assessment

    def _terms_of(
        self,
        policy: Policy,
        books: OrderBooks,
        assessment: Assessment,
        lines: tuple[RefundLine, ...],
        payment: Payment,
    ) -> Terms:
        amount = sum(line.amount_minor for line in lines)
        level, reasons = self._level(policy, books.taken_minor + amount, assessment)
        return Terms(
            policy=policy,
            assessment=assessment,
            lines=lines,
            payment=payment,
            amount_minor=amount,
            level=level,
            reasons=reasons,
        )

    def _level(
        self, policy: Policy, cumulative: int, assessment: Assessment
    ) -> tuple[int, tuple[Reason, ...]]:
        currency = assessment.currency
        level = required_level(policy, currency, cumulative)
        reasons = [Reason.ABOVE_AUTO_LIMIT] if level > 0 and currency in policy.limits else []
        if assessment.verdict is Verdict.NEEDS_REVIEW:
            level = max(level, 1)
            reasons += [r for r in assessment.reasons if r is not Reason.WITHIN_WINDOW]
        if self._terms.consent_implied and level == 0:
            level = 1
            reasons.append(Reason.CONSENT_IMPLIED)
        return level, tuple(dict.fromkeys(reasons))

    def make(self, tx: Transaction, *, order: Order, wish: Wish, asker: Asker) -> Quote:
        """Store a quote; every earlier one of the conversation that was not filed is void.

        One open quote a conversation, so that a bare "yes" can mean only one thing.
        """
        terms = self.compute(tx, order, wish)
        now = self._clock.now()
        quote = Quote(
            id=self._ids.new("quo"),
            group_id=self._ids.new("grp"),
            conversation_id=asker.conversation_id,
            customer_id=asker.customer_id,
            run_id=asker.run_id or "",
            order_id=order.id,
            payment_id=terms.payment.id,
            lines=terms.lines,
            amount_minor=terms.amount_minor,
            currency=order.currency,
            method=terms.payment.method,
            destination=destination_of(terms.payment),
            verdict=terms.assessment.verdict,
            reasons=terms.reasons,
            required_level=terms.level,
            policy_id=terms.policy.id,
            policy_version=terms.policy.version,
            created_at=now,
            expires_at=now + self._terms.quote_valid_for,
        )
        tx.quotes.supersede(asker.conversation_id)
        tx.quotes.add(quote)
        return quote


def quote_shown(quote: Quote, to: Principal, at: datetime) -> AuditEvent:
    """The audit event of a quote that the customer was shown, with the digest of its terms."""
    return AuditEvent(
        action=QUOTE_SHOWN,
        actor=to,
        subject=quote.id,
        at=at,
        data={"digest": quote_digest(quote), "seq": str(quote.shown_seq)},
    )


def is_as_shown(tx: Transaction, quote: Quote, keys: KeyRing) -> bool:
    """Whether the row still has the terms that the customer saw: only those may be filed."""
    row = tx.audit.latest_for(quote.id, prefix=QUOTE_SHOWN)
    return row is not None and holds(keys, row) and row.event.data["digest"] == quote_digest(quote)

"""Quoting: an exact offer, computed by code, that only a later yes can turn into requests."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from support_agent.domain.allocation import Wish, allocate, still_fits
from support_agent.domain.assessment import assess
from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.errors import RecordChanged, RefundRefused
from support_agent.domain.offers import Offer, Part, Scrutiny, merged
from support_agent.domain.orders import PAID_BY_HAND, Order, Payment
from support_agent.domain.people import Asker, Principal
from support_agent.domain.policy import Assessment, OrderBooks, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Quote, quote_digest
from support_agent.domain.signing import KeyRing
from support_agent.domain.tenders import destination_of, payment_with_room, split_over_payments
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import PayoutDestination, SwitchName, Transaction
from support_agent.services.destinations import check, is_new, newest_for, text_of
from support_agent.services.policies import PoliciesInForce
from support_agent.services.switches import Switchboard
from support_agent.services.terms import RefundTerms

QUOTE_SHOWN = "quote.shown"


class Quotes:
    """Computes and stores quotes: one a payment, all of them one offer."""

    def __init__(
        self,
        *,
        policies: PoliciesInForce,
        switchboard: Switchboard,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._policies = policies
        self._switchboard = switchboard
        self._terms = terms
        self._keys = keys
        self._clock = clock
        self._ids = ids

    def assess(self, tx: Transaction, order: Order) -> tuple[Assessment, OrderBooks]:
        """The verdict on an order as of now, and the books it rests on; reads only."""
        policy = self._policies.current(tx)
        books = tx.books.of_order(order.id)
        return assess(order, books, policy, self._clock.now()), books

    def compute(
        self, tx: Transaction, order: Order, wish: Wish, *, by_staff: bool = False
    ) -> Offer:
        """What a wish comes to under the policy in force; stores nothing but synced balances.

        Raises:
            RefundRefused: not refundable, too much, no account to pay to, or above what any
                approver may let pass.
        """
        policy, books, assessment = self._judge(tx, order)
        # What was overpaid has nothing to do with the goods and the time since their delivery.
        if assessment.verdict is Verdict.INELIGIBLE and not wish.overpaid:
            raise RefundRefused(assessment.reasons[0], **assessment.facts)
        allocation = allocate(wish, assessment)
        account = _Account(tx, order.customer_id, self._keys)
        parts = tuple(
            Part(
                payment=part.payment,
                lines=part.lines,
                amount_minor=part.amount_minor,
                destination=account.destination_of(part.payment),
            )
            for part in split_over_payments(order, books, allocation.lines, policy)
        )
        scrutiny = self._scrutiny(tx, assessment, parts, account)
        if by_staff:
            scrutiny = replace(scrutiny, reasons=(*scrutiny.reasons, Reason.STAFF_FILED))
        offer = _offer(policy, books, assessment, parts, scrutiny)
        return replace(offer, deduction_minor=allocation.deduction_minor, notes=allocation.reasons)

    def recompute(self, tx: Transaction, order: Order, group: Sequence[Quote]) -> Offer:
        """The quotes' terms as of now, by the same rules; the window is judged here a last time.

        Raises:
            RefundRefused: QUOTE_STALE when anything they rest on became worse or different,
                ABOVE_POLICY_LIMIT when the order's other refunds leave no approver for them.
        """
        if any((q.order_id, q.customer_id) != (order.id, order.customer_id) for q in group):
            raise RefundRefused(Reason.QUOTE_STALE)
        policy, books, assessment = self._judge(tx, order)
        if assessment.verdict is Verdict.INELIGIBLE:
            raise RefundRefused(Reason.QUOTE_STALE)
        account = _Account(tx, order.customer_id, self._keys)
        parts = tuple(_part_again(quote, order, books, account) for quote in group)
        version = {(quote.policy_id, quote.policy_version) for quote in group}
        fits = still_fits(merged(quote.lines for quote in group), assessment)
        if not fits or version != {(policy.id, policy.version)}:
            raise RefundRefused(Reason.QUOTE_STALE)
        scrutiny = self._scrutiny(tx, assessment, parts, account)
        return _offer(policy, books, assessment, parts, scrutiny)

    def make(
        self, tx: Transaction, *, order: Order, wish: Wish, asker: Asker
    ) -> tuple[tuple[Quote, ...], Offer]:
        """Store the quotes of an offer; every earlier one of the conversation not filed is void.

        One open offer a conversation, so that a bare "yes" can mean only one thing.
        """
        offer = self.compute(tx, order, wish)
        now, group_id = self._clock.now(), self._ids.new("grp")
        tx.quotes.supersede(asker.conversation_id)
        group = tuple(
            Quote(
                id=self._ids.new("quo"),
                group_id=group_id,
                conversation_id=asker.conversation_id,
                customer_id=asker.customer_id,
                run_id=asker.run_id or "",
                order_id=order.id,
                payment_id=part.payment.id,
                lines=part.lines,
                amount_minor=part.amount_minor,
                currency=order.currency,
                method=part.payment.method,
                destination=part.destination,
                verdict=offer.assessment.verdict,
                reasons=offer.reasons,
                required_level=offer.level,
                policy_id=offer.policy.id,
                policy_version=offer.policy.version,
                created_at=now,
                expires_at=now + self._terms.quote_valid_for,
                # Of the whole group, and said once: the first member carries it.
                deduction_minor=offer.deduction_minor if number == 0 else 0,
            )
            for number, part in enumerate(offer.parts)
        )
        for quote in group:
            tx.quotes.add(quote)
        return group, offer

    def _judge(self, tx: Transaction, order: Order) -> tuple[Policy, OrderBooks, Assessment]:
        policy = self._policies.current(tx)
        tx.books.sync(order)
        books = tx.books.of_order(order.id)
        return policy, books, assess(order, books, policy, self._clock.now())

    def _scrutiny(
        self,
        tx: Transaction,
        assessment: Assessment,
        parts: Sequence[Part],
        account: "_Account",
    ) -> Scrutiny:
        """Why a person looks whatever the amount, and how much higher than the amount asks for."""
        reasons: list[Reason] = []
        if assessment.verdict is Verdict.NEEDS_REVIEW:
            reasons += [r for r in assessment.reasons if r is not Reason.WITHIN_WINDOW]
        by_hand = any(part.payment.method in PAID_BY_HAND for part in parts)
        if by_hand:
            reasons.append(Reason.PAYMENT_NEEDS_PERSON)
        new = by_hand and account.is_new(self._clock.now())
        if new:
            reasons.append(Reason.DESTINATION_NEW)
        return Scrutiny(
            reasons=tuple(dict.fromkeys(reasons)),
            extra_levels=1 if new else 0,
            never_automatic=self._never_automatic(tx),
        )

    def _never_automatic(self, tx: Transaction) -> Reason | None:
        if self._terms.consent_implied:
            return Reason.CONSENT_IMPLIED
        on = self._switchboard.is_on(tx, SwitchName.AUTO_APPROVAL)
        return None if on else Reason.AUTO_APPROVAL_OFF


def _offer(
    policy: Policy,
    books: OrderBooks,
    assessment: Assessment,
    parts: tuple[Part, ...],
    scrutiny: Scrutiny,
) -> Offer:
    cumulative = books.taken_minor + sum(part.amount_minor for part in parts)
    level, reasons = scrutiny.who_decides(policy, assessment.currency, cumulative)
    return Offer(
        policy=policy,
        assessment=assessment,
        parts=parts,
        deduction_minor=0,
        notes=(),
        scrutiny=scrutiny,
        level=level,
        reasons=reasons,
    )


class _Account:
    """The customer's bank account in use, read once and only when something is paid by hand."""

    def __init__(self, tx: Transaction, customer_id: str, keys: KeyRing) -> None:
        self._tx = tx
        self._customer_id = customer_id
        self._keys = keys
        self._found: PayoutDestination | None = None

    def destination_of(self, payment: Payment) -> str:
        """Back to the instrument that paid; where that is not possible, to the account.

        Raises:
            RefundRefused: DESTINATION_MISSING, or RECORD_CHANGED when it is not as it was added.
        """
        return (
            text_of(self._account()) if payment.method in PAID_BY_HAND else destination_of(payment)
        )

    def is_new(self, now: datetime) -> bool:
        return is_new(self._account(), now)

    def _account(self) -> PayoutDestination:
        if self._found is None:
            try:
                newest = newest_for(self._tx, self._customer_id)
                if newest is None:
                    raise RefundRefused(Reason.DESTINATION_MISSING)
                check(self._tx, text_of(newest), self._keys)
            except RecordChanged as changed:
                raise RefundRefused(Reason.RECORD_CHANGED) from changed
            self._found = newest
        return self._found


def _part_again(quote: Quote, order: Order, books: OrderBooks, account: _Account) -> Part:
    """The quote's payment if it still has the room and the money goes where it was shown to go."""
    payment = payment_with_room(order, books, quote.payment_id, quote.amount_minor)
    if payment is None or account.destination_of(payment) != quote.destination:
        raise RefundRefused(Reason.QUOTE_STALE)
    return Part(
        payment=payment,
        lines=quote.lines,
        amount_minor=quote.amount_minor,
        destination=quote.destination,
    )


def offer_shown(group: Sequence[Quote], to: Principal, at: datetime) -> Iterator[AuditEvent]:
    """The audit events of an offer that the customer was shown, one a quote of its group."""
    for quote in group:
        data = {
            "digest": quote_digest(quote),
            "seq": str(quote.shown_seq),
            "group": quote.group_id,
            "of": str(len(group)),
        }
        yield AuditEvent(action=QUOTE_SHOWN, actor=to, subject=quote.id, at=at, data=data)


def is_as_shown(tx: Transaction, group: Sequence[Quote], keys: KeyRing) -> bool:
    """Whether the rows still have the terms the customer saw, no quote more and none less.

    Only those may be filed.
    """
    together = len({(quote.group_id, quote.shown_seq) for quote in group}) == 1
    return together and all(_is_as_shown(tx, quote, len(group), keys) for quote in group)


def _is_as_shown(tx: Transaction, quote: Quote, members: int, keys: KeyRing) -> bool:
    row = tx.audit.latest_for(quote.id, prefix=QUOTE_SHOWN)
    if row is None or not holds(keys, row):
        return False
    data = row.event.data
    told = (data.get("digest"), data.get("group"), data.get("of"))
    return told == (quote_digest(quote), quote.group_id, str(members))

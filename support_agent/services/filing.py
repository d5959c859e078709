"""Filing: a shown quote and the customer's answer become a request, once."""

from dataclasses import replace
from datetime import timedelta

from support_agent.domain.approvals import AUTO, Choice, Decision, signed
from support_agent.domain.assessment import required_approvals, required_level
from support_agent.domain.consent import Consent
from support_agent.domain.errors import QuoteNotFound, RefundRefused
from support_agent.domain.orders import Order
from support_agent.domain.people import Asker, Proof
from support_agent.domain.policy import CurrencyLimits, Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Quote, RefundRequest, RequestStatus, fingerprint
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import CapKey, CapScope, Posting, Shortage, Transaction
from support_agent.services.consent import consent_to
from support_agent.services.quotes import Quotes, Terms, is_as_shown
from support_agent.services.refunds import RefundLife, decision_facts, posting_of
from support_agent.services.terms import RefundTerms

INSTALLATION = "installation"
CAP_DAYS = timedelta(days=29)  # 30 civil days, today included


class Filing:
    """Files a quote. Every check is made again here, inside the transaction that reserves."""

    def __init__(
        self,
        *,
        quotes: Quotes,
        life: RefundLife,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._quotes = quotes
        self._life = life
        self._terms = terms
        self._keys = keys
        self._clock = clock
        self._ids = ids

    def owned_quote(self, tx: Transaction, quote_id: str, asker: Asker) -> Quote:
        """The asker's quote, of this very conversation.

        Raises:
            QuoteNotFound: unknown, another customer's or another conversation's.
        """
        quote = tx.quotes.get(quote_id)
        if (
            quote is None
            or quote.customer_id != asker.customer_id
            or quote.conversation_id != asker.conversation_id
        ):
            raise QuoteNotFound(quote_id)
        return quote

    def file(self, tx: Transaction, *, quote_id: str, order: Order, asker: Asker) -> RefundRequest:
        """The request of a quote. The same quote again gives the same request, whatever its state.

        Raises:
            QuoteNotFound: see `owned_quote`.
            RefundRefused: superseded, expired, no consent, stale, or above the top limit.
        """
        quote = self.owned_quote(tx, quote_id, asker)
        filed = tx.requests.by_quote(quote.id)
        if filed is not None:
            return filed
        self._check_open(quote)
        consent = self._check_consent(tx, quote)
        terms = self._quotes.recompute(tx, order, quote)
        request = self._draft(quote, terms, order, asker, consent)
        cumulative = self._reserve(tx, request)
        return self._admit(tx, request, terms, cumulative)

    def _check_open(self, quote: Quote) -> None:
        if quote.superseded:
            raise RefundRefused(Reason.QUOTE_SUPERSEDED)
        if self._clock.now() > quote.expires_at:
            when = quote.expires_at.astimezone(self._terms.zone).isoformat(timespec="minutes")
            raise RefundRefused(Reason.QUOTE_EXPIRED, expires_at=when)

    def _check_consent(self, tx: Transaction, quote: Quote) -> Consent:
        if self._terms.consent_implied:
            return Consent.UNCLEAR
        consent = consent_to(tx, quote)
        if consent is None:
            raise RefundRefused(Reason.NO_CONSENT)
        if not is_as_shown(tx, quote, self._keys):
            raise RefundRefused(Reason.QUOTE_STALE)
        if consent is Consent.NO:
            raise RefundRefused(Reason.CONSENT_REFUSED)
        if consent is Consent.UNCLEAR and not quote.needs_person:
            raise RefundRefused(Reason.CONSENT_UNCLEAR)
        return consent

    def _draft(
        self, quote: Quote, terms: Terms, order: Order, asker: Asker, consent: Consent
    ) -> RefundRequest:
        now = self._clock.now()
        payment = terms.payment
        return RefundRequest(
            id=self._ids.new("req"),
            quote_id=quote.id,
            group_id=quote.group_id,
            conversation_id=asker.conversation_id,
            run_id=asker.run_id,
            customer_id=order.customer_id,
            order_id=order.id,
            payment_id=payment.id,
            gateway=payment.gateway,
            account=payment.account,
            gateway_payment_id=payment.gateway_payment_id,
            method=payment.method,
            lines=quote.lines,
            amount_minor=quote.amount_minor,
            currency=quote.currency,
            destination=quote.destination,
            verdict=terms.assessment.verdict,
            reasons=terms.reasons,
            required_level=terms.level,
            approvals_needed=1,
            policy_id=terms.policy.id,
            policy_version=terms.policy.version,
            fingerprint="",
            consent=consent,
            requester=asker.principal,
            operator=asker.operator,
            status=RequestStatus.PENDING_APPROVAL,
            version=1,
            round=1,
            created_at=now,
            expires_at=now + self._terms.request_waits_for,
        )

    def _reserve(self, tx: Transaction, request: RefundRequest) -> int:
        held = tx.books.reserve(posting_of(request, request.created_at))
        if isinstance(held, Shortage):
            raise RefundRefused(Reason.QUOTE_STALE)
        return held

    def _admit(
        self, tx: Transaction, request: RefundRequest, terms: Terms, cumulative: int
    ) -> RefundRequest:
        """Decide level and caps from what the reserve returned, then store the request."""
        policy = terms.policy
        level = max(required_level(policy, request.currency, cumulative), terms.level)
        reasons = list(terms.reasons)
        if level == 0 and request.consent is not Consent.YES:
            raise RefundRefused(Reason.CONSENT_UNCLEAR)
        if level > 0 and not reasons:
            reasons.append(Reason.ABOVE_AUTO_LIMIT)
        if level == 0 and (capped := self._take_caps(tx, request, policy)):
            level, reasons = 1, [capped]
        request = replace(
            request,
            required_level=level,
            reasons=tuple(reasons),
            approvals_needed=required_approvals(policy, request.currency, cumulative),
            status=RequestStatus.PENDING_APPROVAL if level else RequestStatus.APPROVED,
            approved_until=None if level else request.created_at + self._terms.approved_valid_for,
        )
        request = replace(request, fingerprint=fingerprint(request))
        if level > 0:
            self._life.admit(tx, request)
            return request
        decision = self._automatic(request, policy)
        self._life.admit(tx, request, data=decision_facts(decision))
        tx.decisions.add(decision)
        return request

    def _take_caps(self, tx: Transaction, request: RefundRequest, policy: Policy) -> Reason | None:
        """Count into the automatic caps; the first that is full sends the request to a person.

        The day's counter is raised by a conditional update before the 30 days are added up, so two
        filings at once see each other.
        """
        limits = policy.limits[request.currency]
        posting = posting_of(request, request.created_at)
        full = self._full_cap(tx, posting, request.customer_id, limits)
        if full is not None:
            tx.books.give_back_caps(posting)
        return full

    def _full_cap(
        self, tx: Transaction, posting: Posting, customer_id: str, limits: CurrencyLimits
    ) -> Reason | None:
        day = posting.at.astimezone(self._terms.zone).date()
        currency = posting.currency
        customer = CapKey(scope=CapScope.CUSTOMER, subject=customer_id, day=day, currency=currency)
        shop = CapKey(scope=CapScope.INSTALLATION, subject=INSTALLATION, day=day, currency=currency)
        if not tx.books.take_cap(customer, posting=posting, limit=limits.auto_per_customer_day):
            return Reason.CAP_CUSTOMER_DAY
        month = limits.auto_per_customer_30_days
        if month is not None and tx.books.cap_used(customer, since=day - CAP_DAYS) > month:
            return Reason.CAP_CUSTOMER_30_DAYS
        if not tx.books.take_cap(shop, posting=posting, limit=limits.auto_per_installation_day):
            return Reason.CAP_INSTALLATION_DAY
        return None

    def _automatic(self, request: RefundRequest, policy: Policy) -> Decision:
        decision = Decision(
            id=self._ids.new("dec"),
            request_id=request.id,
            round=request.round,
            choice=Choice.AUTO,
            level=0,
            person_id=AUTO,
            name=AUTO,
            proof=Proof.SYSTEM,
            fingerprint=request.fingerprint,
            amount_minor=request.amount_minor,
            currency=request.currency,
            limit_minor=policy.limits[request.currency].auto,
            note=None,
            at=request.created_at,
        )
        return signed(decision, self._keys)

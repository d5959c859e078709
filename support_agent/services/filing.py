"""Filing: a shown offer and the customer's answer become requests, once; or staff files itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from support_agent.domain.allocation import Wish
from support_agent.domain.approvals import AUTO, Choice, Decision, signed
from support_agent.domain.assessment import required_approvals
from support_agent.domain.consent import Consent
from support_agent.domain.errors import Conflict, InvalidInput, QuoteNotFound, RefundRefused
from support_agent.domain.offers import Offer, Part
from support_agent.domain.orders import Order
from support_agent.domain.people import Asker, Principal, Proof
from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Quote, RefundRequest, RequestStatus, fingerprint
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Shortage, Transaction
from support_agent.services.caps import AutomaticCaps
from support_agent.services.consent import consent_to
from support_agent.services.quotes import Quotes, is_as_shown
from support_agent.services.refunds import RefundLife
from support_agent.services.request_facts import decision_facts
from support_agent.services.stored_requests import group_of, posting_of
from support_agent.services.terms import RefundTerms

NOTHING: Mapping[str, str] = MappingProxyType({})
BY_STAFF = "staff:"  # what the quote id of a request begins with that no quote stands behind
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filed:
    """Who files, from where, and what their word is worth; the same for a whole group."""

    group_id: str
    quote_ids: tuple[str, ...]
    requester: Principal
    consent: Consent
    operator: str | None = None
    conversation_id: str | None = None
    run_id: str | None = None


class Filing:
    """Files offers. Every check is made again here, inside the transaction that reserves."""

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
        self._caps = AutomaticCaps(zone=terms.zone)

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

    def file(
        self, tx: Transaction, *, quote_id: str, order: Order, asker: Asker
    ) -> tuple[RefundRequest, ...]:
        """The requests of an offer, named by any of its quotes; one a payment, in its order.

        The same offer again gives the same requests, whatever their state.

        Raises:
            QuoteNotFound: see `owned_quote`.
            RefundRefused: superseded, expired, no consent, stale, or above the top limit.
        """
        quote = self.owned_quote(tx, quote_id, asker)
        filed = tx.requests.by_quote(quote.id)
        if filed is not None:
            return group_of(tx, filed)
        group = tx.quotes.of_group(quote.group_id)
        self._check_open(group)
        consent = self._check_consent(tx, quote, group)
        offer = self._quotes.recompute(tx, order, group)
        by = _Filed(
            group_id=quote.group_id,
            quote_ids=tuple(member.id for member in group),
            requester=asker.principal,
            consent=consent,
            operator=asker.operator,
            conversation_id=asker.conversation_id,
            run_id=asker.run_id,
        )
        return self._admit(tx, order, offer, by)

    def file_by_staff(
        self, tx: Transaction, *, order: Order, wish: Wish, by: Principal, reference: str | None
    ) -> tuple[RefundRequest, ...]:
        """File what the shop itself wants to pay back; another person always decides.

        A reference makes it repeatable: the same one again gives the same requests.

        Raises:
            InvalidInput: a reference that could not be told from another.
            Conflict: the reference stands for another refund.
            RefundRefused: not refundable, too much, no account to pay to, above the top limit.
        """
        if reference is not None and not _REFERENCE.fullmatch(reference):
            raise InvalidInput("reference", "must be 1 to 64 letters, digits, dots, dashes or _")
        name = f"{BY_STAFF}{reference or self._ids.new('ref')}"
        filed = tx.requests.by_quote(name)
        if filed is not None:
            return self._same(tx, filed, order, wish)
        offer = self._quotes.compute(tx, order, wish, by_staff=True)
        rest = (f"{name}:{number}" for number in range(2, len(offer.parts) + 1))
        who = _Filed(
            group_id=self._ids.new("grp"),
            quote_ids=(name, *rest),
            requester=by,
            consent=Consent.UNCLEAR,
        )
        return self._admit(tx, order, offer, who, data={"wish": _text_of(wish)})

    def _same(
        self, tx: Transaction, filed: RefundRequest, order: Order, wish: Wish
    ) -> tuple[RefundRequest, ...]:
        row = tx.audit.latest_for(filed.id, prefix="refund.filed")
        wished = row.event.data.get("wish") if row is not None else None
        if (filed.order_id, wished) != (order.id, _text_of(wish)):
            reference = filed.quote_id.removeprefix(BY_STAFF)
            raise Conflict(
                f"reference {reference!r} stands for request {filed.id!r} of order "
                f"{filed.order_id!r}, which is another refund; give it a reference of its own"
            )
        return group_of(tx, filed)

    def _check_open(self, group: Sequence[Quote]) -> None:
        if any(quote.superseded for quote in group):
            raise RefundRefused(Reason.QUOTE_SUPERSEDED)
        until = min(quote.expires_at for quote in group)
        if self._clock.now() > until:
            when = until.astimezone(self._terms.zone).isoformat(timespec="minutes")
            raise RefundRefused(Reason.QUOTE_EXPIRED, expires_at=when)

    def _check_consent(self, tx: Transaction, quote: Quote, group: Sequence[Quote]) -> Consent:
        if self._terms.consent_implied:
            return Consent.UNCLEAR
        consent = consent_to(tx, quote)
        if consent is None:
            raise RefundRefused(Reason.NO_CONSENT)
        if not is_as_shown(tx, group, self._keys):
            raise RefundRefused(Reason.QUOTE_STALE)
        if consent is Consent.NO:
            raise RefundRefused(Reason.CONSENT_REFUSED)
        if consent is Consent.UNCLEAR and not quote.needs_person:
            raise RefundRefused(Reason.CONSENT_UNCLEAR)
        return consent

    def _admit(
        self,
        tx: Transaction,
        order: Order,
        offer: Offer,
        by: _Filed,
        *,
        data: Mapping[str, str] = NOTHING,
    ) -> tuple[RefundRequest, ...]:
        """Reserve all, decide level and caps from what the last reserve returned, store all."""
        drafts = [
            self._draft(order, offer, part, by, quote_id)
            for part, quote_id in zip(offer.parts, by.quote_ids, strict=True)
        ]
        cumulative = max([_reserve(tx, draft) for draft in drafts])
        policy, currency = offer.policy, order.currency
        level, reasons = offer.scrutiny.who_decides(policy, currency, cumulative)
        if level == 0 and by.consent is not Consent.YES:
            raise RefundRefused(Reason.CONSENT_UNCLEAR)
        if level == 0 and (capped := self._take_caps(tx, drafts, policy)):
            level, reasons = 1, (capped,)
        approvals = required_approvals(policy, currency, cumulative)
        return tuple(
            self._store(tx, _decided(draft, level, reasons, approvals), policy, data)
            for draft in drafts
        )

    def _draft(
        self, order: Order, offer: Offer, part: Part, by: _Filed, quote_id: str
    ) -> RefundRequest:
        now = self._clock.now()
        payment = part.payment
        return RefundRequest(
            id=self._ids.new("req"),
            quote_id=quote_id,
            group_id=by.group_id,
            conversation_id=by.conversation_id,
            run_id=by.run_id,
            customer_id=order.customer_id,
            order_id=order.id,
            payment_id=payment.id,
            gateway=payment.gateway,
            account=payment.account,
            gateway_payment_id=payment.gateway_payment_id,
            method=payment.method,
            lines=part.lines,
            amount_minor=part.amount_minor,
            currency=order.currency,
            destination=part.destination,
            verdict=offer.assessment.verdict,
            reasons=offer.reasons,
            required_level=offer.level,
            approvals_needed=1,
            policy_id=offer.policy.id,
            policy_version=offer.policy.version,
            fingerprint="",
            consent=by.consent,
            requester=by.requester,
            operator=by.operator,
            status=RequestStatus.PENDING_APPROVAL,
            version=1,
            round=1,
            created_at=now,
            expires_at=now + self._terms.request_waits_for,
            due_at=now + self._terms.decide_within,
            filed_minor=part.amount_minor,
        )

    def _take_caps(
        self, tx: Transaction, drafts: Sequence[RefundRequest], policy: Policy
    ) -> Reason | None:
        first = drafts[0]
        return self._caps.take(
            tx,
            [posting_of(draft, draft.created_at) for draft in drafts],
            customer_id=first.customer_id,
            limits=policy.limits[first.currency],
        )

    def _store(
        self, tx: Transaction, request: RefundRequest, policy: Policy, data: Mapping[str, str]
    ) -> RefundRequest:
        if request.required_level > 0:
            self._life.admit(tx, request, data=data)
            return request
        request = replace(
            request,
            status=RequestStatus.APPROVED,
            approved_until=request.created_at + self._terms.approved_valid_for,
        )
        decision = self._automatic(request, policy)
        self._life.admit(tx, request, data={**data, **decision_facts(decision)})
        tx.decisions.add(decision)
        return request

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


def _reserve(tx: Transaction, request: RefundRequest) -> int:
    """The order's cumulative amount with this request in it."""
    held = tx.books.reserve(posting_of(request, request.created_at))
    if isinstance(held, Shortage):
        raise RefundRefused(Reason.QUOTE_STALE)
    return held


def _decided(
    draft: RefundRequest, level: int, reasons: tuple[Reason, ...], approvals: int
) -> RefundRequest:
    request = replace(draft, required_level=level, reasons=reasons, approvals_needed=approvals)
    return replace(request, fingerprint=fingerprint(request))


def _text_of(wish: Wish) -> str:
    """What was wished for, so that a repetition can be told from another wish."""
    parts = [f"{line}x{units}" for line, units in sorted((wish.units or {}).items())]
    if wish.amount_minor is not None:
        parts.append(f"amount:{wish.amount_minor}")
    parts += [flag for flag in ("with_shipping", "overpaid") if getattr(wish, flag)]
    return ",".join(parts) or "all"

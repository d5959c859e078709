"""Domain objects with harmless defaults: a test names only what it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from support_agent.domain.consent import Consent
from support_agent.domain.orders import Order, OrderLine, OrderStatus, Payment, PaymentMethod
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    Quote,
    RefundLine,
    RefundRequest,
    RequestStatus,
    attempt_key,
    fingerprint,
)
from support_agent.ports.storage import Posting

FieldValue = Any  # of whichever field is named; `replace` refuses a name that is none
NOW = datetime(2026, 10, 13, 3, 0, tzinfo=UTC)


def make_line(line_id: str, total_minor: int, quantity: int = 1) -> OrderLine:
    """A line without a discount; the total is a multiple of the quantity."""
    return OrderLine(
        id=line_id,
        name="Áo thun",
        quantity=quantity,
        unit_price_minor=total_minor // quantity,
        discount_minor=0,
        category="clothing",
    )


def make_payment(
    payment_id: str, captured_minor: int, *, order_id: str = "A1", **changes: FieldValue
) -> Payment:
    """A card payment of an order through the ledger gateway."""
    payment = Payment(
        id=payment_id,
        gateway="ledger",
        account="shop",
        gateway_payment_id=f"{order_id}-{payment_id}",
        method=PaymentMethod.CARD,
        captured_minor=captured_minor,
        currency="VND",
    )
    return replace(payment, **changes)


def make_order(
    lines: tuple[OrderLine, ...], payments: tuple[Payment, ...], **changes: FieldValue
) -> Order:
    """Order A1 of customer C1, delivered twelve days before NOW."""
    order = Order(
        id="A1",
        customer_id="C1",
        status=OrderStatus.DELIVERED,
        currency="VND",
        placed_at=NOW - timedelta(days=20),
        lines=lines,
        payments=payments,
        delivered_at=NOW - timedelta(days=12),
    )
    return replace(order, **changes)


def make_posting(
    request_id: str, amount_minor: int, *, units: int = 0, **changes: FieldValue
) -> Posting:
    """An amount on line 1 and payment P1 of order A1."""
    posting = Posting(
        request_id=request_id,
        round=1,
        order_id="A1",
        payment_id="P1",
        lines=(RefundLine(line_id="1", units=units, amount_minor=amount_minor),),
        amount_minor=amount_minor,
        currency="VND",
        at=NOW,
    )
    return replace(posting, **changes)


def make_quote(quote_id: str, **changes: FieldValue) -> Quote:
    """A quote over line 1 of order A1 that needs nobody."""
    quote = Quote(
        id=quote_id,
        group_id=f"group-{quote_id}",
        conversation_id="conv-1",
        customer_id="C1",
        run_id="run-1",
        order_id="A1",
        payment_id="P1",
        lines=(RefundLine(line_id="1", units=1, amount_minor=250_000),),
        amount_minor=250_000,
        currency="VND",
        method=PaymentMethod.CARD,
        destination="CARD ····",
        verdict=Verdict.ELIGIBLE,
        reasons=(),
        required_level=0,
        policy_id="standard",
        policy_version=1,
        created_at=NOW,
        expires_at=NOW + timedelta(minutes=30),
    )
    return replace(quote, **changes)


def make_request(request_id: str, **changes: FieldValue) -> RefundRequest:
    """A request of customer C1 that waits for a level-1 approver, with its fingerprint."""
    request = RefundRequest(
        id=request_id,
        quote_id=f"quote-{request_id}",
        group_id=f"group-{request_id}",
        conversation_id="conv-1",
        run_id="run-1",
        customer_id="C1",
        order_id="A1",
        payment_id="P1",
        gateway="ledger",
        account="shop",
        gateway_payment_id="A1-P1",
        method=PaymentMethod.CARD,
        lines=(RefundLine(line_id="1", units=1, amount_minor=250_000),),
        amount_minor=250_000,
        currency="VND",
        destination="CARD ····",
        verdict=Verdict.ELIGIBLE,
        reasons=(),
        required_level=1,
        approvals_needed=1,
        policy_id="standard",
        policy_version=1,
        fingerprint="",
        consent=Consent.YES,
        requester=Principal(
            kind=PrincipalKind.CUSTOMER, id="C1", person_id=None, proof=Proof.CHANNEL, via="cli"
        ),
        operator=None,
        status=RequestStatus.PENDING_APPROVAL,
        version=1,
        round=1,
        created_at=NOW,
        expires_at=NOW + timedelta(days=3),
        due_at=NOW + timedelta(days=1),
        filed_minor=250_000,
    )
    request = replace(request, **changes)
    return replace(request, fingerprint=fingerprint(request))


def make_attempt(request: RefundRequest, number: int = 1, **changes: FieldValue) -> Attempt:
    """The attempt that would pay the request, committed and not sent."""
    attempt = Attempt(
        id=f"att-{request.id}-{number}",
        request_id=request.id,
        number=number,
        round=request.round,
        key=attempt_key(request.id, number),
        gateway=request.gateway,
        account=request.account,
        gateway_payment_id=request.gateway_payment_id,
        amount_minor=request.amount_minor,
        currency=request.currency,
        status=AttemptStatus.CREATED,
        created_at=NOW,
        sent_at=NOW,
    )
    return replace(attempt, **changes)

"""Payout destinations: the bank accounts that cash and transfers are paid back to."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.errors import (
    ApproverDisabled,
    CustomerNotFound,
    DestinationNotFound,
    HistoryBroken,
    InvalidInput,
    RecordChanged,
)
from support_agent.domain.people import Principal
from support_agent.domain.refunds import Quote, RefundRequest
from support_agent.domain.signing import KeyRing, canonical
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, PayoutDestination, Transaction

TOPIC = "destination"  # under which the audit keeps the newest event of an account
DESTINATION_ADDED = "destination.added"
DESTINATION_ERASED = "destination.erased"  # from then on the newest of it: nothing is paid to it
IN_USE = "account"  # the topic that tells which account of a customer was named last
ACCOUNT_NAMED = "account.named"
NUMBER_SHOWN = "account.shown"  # no `destination.…`: the newest of those is the account itself
BANK = "bank"  # what the text of such a destination begins with
IS_NEW = timedelta(days=7)  # so young, an approver of a higher level has to look


class Destinations:
    """Adds accounts and shows them; one that stands is never changed."""

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._database = database
        self._orders = orders
        self._keys = keys
        self._clock = clock
        self._ids = ids

    async def add(
        self, customer_id: str, bank: str, account_number: str, holder: str, *, by: Principal
    ) -> PayoutDestination:
        """A new account of a customer; from now on it is the one that is used.

        Raises:
            InvalidInput: a field that no bank would take.
            CustomerNotFound: the shop does not know the customer.
        """
        destination = PayoutDestination(
            id=self._ids.new("dst"),
            customer_id=customer_id,
            bank=_words("bank", bank, least=2, most=40),
            account_number=_digits(account_number),
            holder=_words("holder", holder, least=2, most=80),
            created_at=self._clock.now(),
            added_by=by.id,
            salt=self._ids.new("slt"),
        )
        customer = await self._orders.find_customer(customer_id)
        if customer is None or customer.id != customer_id:
            raise CustomerNotFound(customer_id)

        def write(tx: Transaction) -> PayoutDestination:
            tx.destinations.add(destination)
            added = AuditEvent(
                action=DESTINATION_ADDED,
                actor=by,
                subject=destination.id,
                at=destination.created_at,
                data=destination_facts(destination),
            )
            tx.audit.append(added)
            named = {"destination": destination.id}
            tx.audit.append(replace(added, action=ACCOUNT_NAMED, subject=customer_id, data=named))
            return destination

        return await self._database.transact(write)

    async def reveal(self, destination_id: str, *, by: Principal) -> PayoutDestination:
        """The account with its whole number, for the person who pays; who looked is audited.

        Raises:
            DestinationNotFound: unknown id.
            ApproverDisabled: who asks may not decide any more, and has nothing to pay.
            RecordChanged: the row is not what was signed, so nobody may pay to it.
        """

        def look(tx: Transaction) -> PayoutDestination:
            approver = tx.people.get(by.id)
            if approver is None or approver.disabled:
                raise ApproverDisabled(by.id)
            destination = stored_destination(tx, destination_id)
            check(tx, text_of(destination), self._keys)
            tx.audit.append(
                AuditEvent(
                    action=NUMBER_SHOWN,
                    actor=by,
                    subject=destination_id,
                    at=self._clock.now(),
                    data={"customer": destination.customer_id},
                )
            )
            return destination

        return await self._database.transact(look)


def stored_destination(tx: Transaction, destination_id: str) -> PayoutDestination:
    """The account as its row is now.

    Raises:
        DestinationNotFound: unknown id.
    """
    destination = tx.destinations.get(destination_id)
    if destination is None:
        raise DestinationNotFound(destination_id)
    return destination


def newest_for(tx: Transaction, customer_id: str) -> PayoutDestination | None:
    """The account in use: the one that was added last, as the history says.

    A row that is gone, or given to somebody else, would bring an older account back. What was
    erased is none.

    Raises:
        RecordChanged: that account is not there, or there is one that nobody added.
    """
    accounts = [one for one in tx.destinations.of_customer(customer_id) if not one.erased]
    try:
        row = tx.audit.vouched(IN_USE, customer_id)
        strange = bool(accounts) and tx.audit.vouched(TOPIC, accounts[0].id) is None
    except HistoryBroken as broken:
        raise RecordChanged("payout destination of customer", customer_id) from broken
    named = (row.event.data["destination"] or None) if row is not None else None
    found = next((account for account in accounts if account.id == named), None)
    if strange or (named is not None and found is None):
        raise RecordChanged("payout destination of customer", customer_id)
    return found


def is_new(destination: PayoutDestination, now: datetime) -> bool:
    """Whether it is so young that a higher level has to look."""
    return now - destination.created_at < IS_NEW


def text_of(destination: PayoutDestination) -> str:
    """What a quote, a request and every decision on it are bound to; it holds no number."""
    return f"{BANK}:{destination.id}:{digest_of(destination)}"


def digest_of(destination: PayoutDestination) -> str:
    """Where the money would go; the id is in it, so that two alike do not show that they are."""
    fields = (destination.id, destination.bank, destination.account_number, destination.holder)
    salted = fields if destination.salt is None else (*fields, destination.salt)
    return hashlib.sha256(canonical(salted)).hexdigest()


def destination_facts(destination: PayoutDestination) -> dict[str, str]:
    """What the audit says of an account: whose, since when, and its digest."""
    return {
        "customer": destination.customer_id,
        "digest": digest_of(destination),
        "created_at": destination.created_at.astimezone(UTC).isoformat(),
    }


def is_as_told(destination: PayoutDestination, told: Mapping[str, str], *, erased: bool) -> bool:
    """Whether an account is what its history says; of one that was erased the digest is gone."""
    facts = destination_facts(destination)
    if not erased:
        return facts == told
    emptied = destination.erased and not destination.holder and destination.salt is None
    return emptied and {**facts, "digest": ""} == {**told, "digest": ""}


def check(tx: Transaction, destination: str, keys: KeyRing) -> PayoutDestination | None:
    """The account that a destination's text names; None when the money goes back where it was.

    Raises:
        RecordChanged: the row is gone, or is not what was signed when it was added.
    """
    if not destination.startswith(f"{BANK}:"):
        return None
    destination_id = _id_in(destination)
    found = tx.destinations.get(destination_id)
    try:
        row = tx.audit.vouched(TOPIC, destination_id)
    except HistoryBroken:
        row = None
    genuine = (
        found is not None
        and row is not None
        and holds(keys, row)
        and row.event.data == destination_facts(found)
        and text_of(found) == destination
    )
    if not genuine:
        raise RecordChanged("payout destination", destination_id)
    return found


def accounts_of(
    tx: Transaction, parts: Iterable[Quote] | Iterable[RefundRequest]
) -> dict[str, str]:
    """The masked accounts of quotes or requests that are paid by hand, by destination."""
    texts = {part.destination for part in parts if part.destination.startswith(f"{BANK}:")}
    found = {text: tx.destinations.get(_id_in(text)) for text in texts}
    return {
        text: account.masked
        for text, account in found.items()
        if account is not None and not account.erased
    }


def forget_accounts(tx: Transaction, erased: AuditEvent, destination_ids: Iterable[str]) -> None:
    """Tell the history that these accounts were erased, and that the customer has none any more.

    Whose row somebody else emptied is still one that was changed.
    """
    ids = tuple(destination_ids)
    for id_ in ids:
        tx.audit.append(
            replace(
                erased,
                action=DESTINATION_ERASED,
                subject=id_,
                data={"customer": erased.subject},
            )
        )
    if ids:
        tx.audit.append(replace(erased, action=ACCOUNT_NAMED, data={"destination": ""}))


def _id_in(destination: str) -> str:
    return destination.split(":")[1]


def _words(field: str, text: str, *, least: int, most: int) -> str:
    """A name as it is printed on a transfer: one line, nothing that cannot be seen."""
    text = unicodedata.normalize("NFC", text).strip()
    if not least <= len(text) <= most:
        raise InvalidInput(field, f"must have {least} to {most} characters")
    if not text.isprintable():
        raise InvalidInput(field, "must not contain line breaks or invisible characters")
    return text


def _digits(text: str) -> str:
    number = text.strip()
    if not (number.isascii() and number.isdigit() and 6 <= len(number) <= 30):
        raise InvalidInput("account", "must be 6 to 30 digits, without spaces or dots")
    return number

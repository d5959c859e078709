"""A customer's rights: to be told what is kept of them, and to have it erased."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from support_agent.domain.audit import AuditEvent, AuditHead
from support_agent.domain.errors import CustomerNotFound, StillInUse
from support_agent.domain.people import Principal
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Transaction
from support_agent.ports.storage.privacy import Rows, Scrubber
from support_agent.services.destinations import forget_accounts

PRIVACY_EXPORTED = "privacy.exported"
PRIVACY_ERASED = "privacy.erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Everything that is kept of a customer here, as of a moment; `rows` by what they are.

    Attributes:
        claimed: ids of conversations that are not told: their writer only claimed to be this
            customer, and may have written about themselves.
    """

    customer_id: str
    at: datetime
    installation_id: str
    head: AuditHead
    rows: Mapping[str, Rows]
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How many rows lost something, by what they are; nothing when there was nothing left.

    `claimed` is how many of the conversations were of somebody who only claimed to be the customer:
    they are erased with the others, since they may be the customer's after all.
    """

    customer_id: str
    counts: Mapping[str, int]
    claimed: int = 0


class Privacy:
    """What the shop's own system holds of the customer is the shop's to tell and to erase."""

    def __init__(
        self, *, database: Database, orders: OrderRepository, scrubber: Scrubber, clock: Clock
    ) -> None:
        self._database = database
        self._orders = orders
        self._scrubber = scrubber
        self._clock = clock

    async def export(self, customer_id: str, *, by: Principal) -> Export:
        """All of it, whole account numbers included; that somebody looked is audited.

        Raises:
            CustomerNotFound: neither we nor the shop know this customer.
        """
        await self._check_known(customer_id)

        def tell(tx: Transaction) -> Export:
            at = self._clock.now()
            rows = tx.privacy.tell(customer_id)
            tx.audit.append(
                AuditEvent(action=PRIVACY_EXPORTED, actor=by, subject=customer_id, at=at)
            )
            return Export(
                customer_id=customer_id,
                at=at,
                installation_id=tx.installation.id(),
                head=tx.audit.head(),
                rows=rows,
                claimed=tx.privacy.claimed(customer_id),
            )

        return await self._database.transact(tell)

    async def erase(self, customer_id: str, *, by: Principal) -> Erased:
        """Take out every text, number and preference; ids, amounts and the books stay.

        A second time changes nothing, but makes sure that nothing is left in the database's files.

        Raises:
            CustomerNotFound: neither we nor the shop know this customer.
            StillInUse: a request is not final, a run is not over, or a person has a conversation.
            StillInFile: erased, but another process kept the database's file from being cleaned.
        """
        await self._check_known(customer_id)
        erased = await self._database.transact(lambda tx: self._erase(tx, customer_id, by))
        await self._scrubber.scrub()
        return erased

    def _erase(self, tx: Transaction, customer_id: str, by: Principal) -> Erased:
        in_use = tx.privacy.hold(customer_id)
        if in_use:
            raise StillInUse(
                customer_id,
                requests=in_use.requests,
                answering=in_use.answering,
                with_staff=in_use.with_staff,
            )
        at = self._clock.now()
        accounts = tx.privacy.destinations_to_erase(customer_id)
        claimed = set(tx.privacy.claimed(customer_id))
        counts = tx.privacy.erase(customer_id, at=at)
        claimed -= set(tx.privacy.claimed(customer_id))
        if counts:
            erased = AuditEvent(
                action=PRIVACY_ERASED,
                actor=by,
                subject=customer_id,
                at=at,
                data={name: str(count) for name, count in counts.items()},
            )
            tx.audit.append(erased)
            forget_accounts(tx, erased, accounts)
        return Erased(customer_id=customer_id, counts=counts, claimed=len(claimed))

    async def _check_known(self, customer_id: str) -> None:
        """Somebody the shop has erased already may still be known here."""
        if await self._database.read(lambda tx: tx.privacy.knows(customer_id)):
            return
        customer = await self._orders.find_customer(customer_id)
        if customer is None or customer.id != customer_id:
            raise CustomerNotFound(customer_id)

"""Who may approve: adding, limiting, disabling; every change of authority is audited."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import ApproverNotFound, Conflict, CustomerNotFound
from support_agent.domain.people import Approver, Principal
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Transaction
from support_agent.services.authority import (
    APPROVER_CHANGED,
    TOKEN_SET,
    authority_facts,
    token_hash,
)


class Approvers:
    """Changes approvers. Whoever holds the host may; `by` is who that says to be."""

    def __init__(self, *, database: Database, orders: OrderRepository, clock: Clock) -> None:
        self._database = database
        self._orders = orders
        self._clock = clock

    async def add(self, approver: Approver, *, by: Principal) -> Approver:
        """A new approver, without a token yet.

        Raises:
            Conflict: the name is taken.
            CustomerNotFound: a linked account that the shop does not know would guard nothing.
        """
        for customer_id in sorted(approver.customer_ids):
            customer = await self._orders.find_customer(customer_id)
            if customer is None or customer.id != customer_id:
                raise CustomerNotFound(customer_id)

        def write(tx: Transaction) -> Approver:
            if tx.people.get(approver.name) is not None:
                raise Conflict(
                    f"approver {approver.name!r} exists; change it with `approvers limit`, "
                    "`approvers disable` or `approvers enable`"
                )
            return self._put(tx, approver, by)

        return await self._database.transact(write)

    async def set_limits(self, name: str, limits: Mapping[str, int], *, by: Principal) -> Approver:
        """Replace the limits of the currencies named; the others stay."""
        return await self._change(
            name, lambda known: replace(known, limits={**known.limits, **limits}), by
        )

    async def set_disabled(self, name: str, *, disabled: bool, by: Principal) -> Approver:
        """Switch off or on; who is off decides nothing, whatever the token."""
        return await self._change(name, lambda known: replace(known, disabled=disabled), by)

    async def set_token(self, name: str, token: str, *, by: Principal) -> None:
        """From now on only this token proves the approver; its hash is what is kept.

        Raises:
            ApproverNotFound: no such approver.
        """

        def write(tx: Transaction) -> None:
            hashed = token_hash(token)
            tx.people.set_token(name, hashed)
            tx.audit.append(
                AuditEvent(
                    action=TOKEN_SET,
                    actor=by,
                    subject=name,
                    at=self._clock.now(),
                    data={"token_hash": hashed},
                )
            )

        await self._database.transact(write)

    async def _change(
        self, name: str, changed: Callable[[Approver], Approver], by: Principal
    ) -> Approver:
        def write(tx: Transaction) -> Approver:
            known = tx.people.get(name)
            if known is None:
                raise ApproverNotFound(name)
            return self._put(tx, changed(known), by)

        return await self._database.transact(write)

    def _put(self, tx: Transaction, approver: Approver, by: Principal) -> Approver:
        if tx.people.put(approver):
            record_approver(tx, approver, self._clock, by=by)
        return approver


def record_approver(tx: Transaction, approver: Approver, clock: Clock, *, by: Principal) -> None:
    """The audit event of an approver's authority as it is from now on."""
    tx.audit.append(
        AuditEvent(
            action=APPROVER_CHANGED,
            actor=by,
            subject=approver.name,
            at=clock.now(),
            data=authority_facts(approver),
        )
    )

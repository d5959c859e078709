"""Who may approve: adding, limiting, disabling; every change of authority is audited."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    ApproverDisabled,
    ApproverNotFound,
    Conflict,
    CustomerNotFound,
    RecordChanged,
)
from support_agent.domain.people import Approver, Principal, PrincipalKind
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Transaction
from support_agent.services.authority import (
    APPROVER_CHANGED,
    PERSON_ACCOUNTS,
    TOKEN_SET,
    accounts_after,
    accounts_left,
    as_signed,
    authority_facts,
    check_approver,
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
            tx.audit.hold()  # or of a key of this name made at once neither would see the other
            if tx.people.get(approver.name) is not None:
                raise Conflict(
                    f"approver {approver.name!r} exists; change it with `approvers limit`, "
                    "`approvers disable` or `approvers enable`"
                )
            if any(key.revoked_at is None for key in tx.api_keys.of_name(approver.name)):
                raise Conflict(
                    f"an API key has the name {approver.name!r}, and what is done with it would "
                    "look like this approver's doing; revoke it first, or choose another name"
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
            tx.audit.hold()  # or of two changes at once the second would undo the first
            known = tx.people.get(name)
            if known is None:
                raise ApproverNotFound(name)
            before = as_signed(tx, known)
            after = changed(before)
            if tx.people.put(after) or after != before:
                record_approver(tx, after, self._clock, by=by)
            return after

        return await self._database.transact(write)

    def _put(self, tx: Transaction, approver: Approver, by: Principal) -> Approver:
        if tx.people.put(approver):
            record_approver(tx, approver, self._clock, by=by)
        return approver


def check_acting(tx: Transaction, by: Principal, keys: KeyRing) -> Approver | None:
    """The approver behind a principal, whose authority stands at this moment; None for others.

    Raises:
        ApproverNotFound, ApproverDisabled: gone or switched off since they proved who they are.
        RecordChanged: the row is not what the signed history says, or is another person's now.
    """
    if by.kind is not PrincipalKind.APPROVER:
        return None
    approver = tx.people.get(by.id)
    if approver is None:
        raise ApproverNotFound(by.id)
    check_approver(tx, approver, keys)
    if approver.person_id != by.person_id:
        raise RecordChanged("approver", approver.name)
    if approver.disabled:
        raise ApproverDisabled(approver.name)
    return approver


def record_approver(tx: Transaction, approver: Approver, clock: Clock, *, by: Principal) -> None:
    """The audit events of an approver's authority as it is from now on."""
    record_approvers(tx, (approver,), clock, by=by)


def record_approvers(
    tx: Transaction, approvers: Sequence[Approver], clock: Clock, *, by: Principal
) -> None:
    """The same of several; nothing may be locked after it.

    Where a person's accounts are others now it says so, too: all of those are one person.
    """
    now = clock.now()

    def tell(action: str, subject: str, data: Mapping[str, str]) -> None:
        tx.audit.append(AuditEvent(action=action, actor=by, subject=subject, at=now, data=data))

    for approver in approvers:
        tell(APPROVER_CHANGED, approver.name, authority_facts(approver))
    tx.audit.hold()  # or of two accounts added at once the second would not know the first
    for person_id in sorted({approver.person_id for approver in approvers}):
        theirs = (approver for approver in approvers if approver.person_id == person_id)
        accounts = accounts_after(tx, person_id, theirs)
        if accounts is not None:
            tell(PERSON_ACCOUNTS, person_id, accounts)
    for approver in approvers:
        left = accounts_left(tx, approver)
        if left is not None:
            tell(PERSON_ACCOUNTS, *left)

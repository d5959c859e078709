"""Fill a demo installation with the sample shop, through the same doors as everyone else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.orders import Customer, Order
from support_agent.domain.people import SYSTEM, Approver
from support_agent.domain.policy import Policy
from support_agent.ports.clock import Clock
from support_agent.ports.orders import ShopWriter
from support_agent.ports.storage import Database, Transaction
from support_agent.services.approvers import record_approver
from support_agent.services.policies import PoliciesInForce, activate


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShop:
    """What the seed files hold."""

    customers: tuple[Customer, ...]
    orders: tuple[Order, ...]
    approvers: tuple[Approver, ...]
    policy: Policy
    policy_body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """How many rows the seed changed; all zero when it ran before."""

    customers: int
    orders: int
    approvers: int
    policy_activated: bool


class Seeding:
    """Idempotent: a second run changes nothing."""

    def __init__(
        self, *, database: Database, shop: ShopWriter, policies: PoliciesInForce, clock: Clock
    ) -> None:
        self._database = database
        self._shop = shop
        self._policies = policies
        self._clock = clock

    async def run(self, sample: SampleShop) -> Seeded:
        """Write the sample shop.

        Raises:
            ConfigurationError: the database is a live one.
        """
        if await self._database.read(lambda tx: tx.installation.is_live()):
            raise ConfigurationError("this database is live; the sample shop is for demo ones only")
        customers = await self._shop.put_customers(sample.customers)
        orders = await self._shop.put_orders(sample.orders)

        def rest(tx: Transaction) -> tuple[int, bool]:
            added = sum(self._approver(tx, approver) for approver in sample.approvers)
            return added, self._policy(tx, sample)

        approvers, activated = await self._database.transact(rest)
        return Seeded(
            customers=customers,
            orders=orders,
            approvers=approvers,
            policy_activated=activated,
        )

    def _approver(self, tx: Transaction, approver: Approver) -> bool:
        """Add an approver; one that is there keeps what was changed since."""
        if tx.people.get(approver.name) is not None:
            return False
        tx.people.put(approver)
        record_approver(tx, approver, self._clock, by=SYSTEM)
        return True

    def _policy(self, tx: Transaction, sample: SampleShop) -> bool:
        """Put the sample policy in force only where none is."""
        self._policies.check_file(tx, sample.policy)
        if tx.policies.in_force() is not None:
            return False
        return activate(
            tx,
            policy=sample.policy,
            body=sample.policy_body,
            by=SYSTEM,
            clock=self._clock,
            policies=self._policies,
        )

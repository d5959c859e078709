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
from support_agent.services.approvers import record_approvers
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
    """How many rows the seed changed; all zero when it ran before.

    `policy_kept` is the older version of the sample policy that stays in force: the seed never
    changes the law that a shop lives under.
    """

    customers: int
    orders: int
    approvers: int
    policy_activated: bool
    policy_kept: int | None = None


class Seeding:
    """Idempotent: a second run changes nothing."""

    def __init__(
        self,
        *,
        database: Database,
        shop: ShopWriter,
        policies: PoliciesInForce,
        clock: Clock,
        moves_real_money: bool,
        orders_kind: str = "sql",
    ) -> None:
        self._database = database
        self._shop = shop
        self._policies = policies
        self._clock = clock
        self._moves_real_money = moves_real_money
        self._orders_kind = orders_kind

    async def run(self, sample: SampleShop) -> Seeded:
        """Write the sample shop.

        Raises:
            ConfigurationError: the database is a live one, the gateway moves real money, or the
                orders are those of another shop, which is never written to.
        """
        check_is_sample_shop(self._orders_kind)
        if self._moves_real_money:
            raise ConfigurationError("the gateway moves real money; the sample shop is for demos")
        if await self._database.read(lambda tx: tx.installation.is_live()):
            raise ConfigurationError("this database is live; the sample shop is for demo ones only")
        customers = await self._shop.put_customers(sample.customers)
        orders = await self._shop.put_orders(sample.orders)

        def rest(tx: Transaction) -> tuple[int, bool, int | None]:
            added = [approver for approver in sample.approvers if _is_added(tx, approver)]
            activated = self._policy(tx, sample)
            record_approvers(tx, added, self._clock, by=SYSTEM)
            return len(added), activated, _older_in_force(tx, sample.policy)

        approvers, activated, kept = await self._database.transact(rest)
        return Seeded(
            customers=customers,
            orders=orders,
            approvers=approvers,
            policy_activated=activated,
            policy_kept=kept,
        )

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


def check_is_sample_shop(orders_kind: str) -> None:
    """Pass for orders in tables of our own; those of another shop are never written to.

    Raises:
        ConfigurationError: they are elsewhere.
    """
    if orders_kind != "sql":
        raise ConfigurationError(
            f"is {orders_kind!r}, and only the sample shop of kind 'sql' can be filled; for your "
            "own shop use `policies activate` and `approvers add`",
            setting="SUPPORT_AGENT_ORDERS__KIND",
        )


def _is_added(tx: Transaction, approver: Approver) -> bool:
    """Add an approver; one that is there keeps what was changed since."""
    return tx.people.get(approver.name) is None and tx.people.put(approver)


def _older_in_force(tx: Transaction, policy: Policy) -> int | None:
    current = tx.policies.in_force()
    older = current is not None and current.id == policy.id and current.version < policy.version
    return current.version if current is not None and older else None

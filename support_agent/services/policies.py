"""The policy in force: read from the database, parsed once, never from a file."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.people import Principal
from support_agent.domain.policy import Policy
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import StoredPolicy, Transaction
from support_agent.services.authority import (
    IN_FORCE,
    POLICY_ACTIVATED,
    check_policy,
    policy_facts,
)

ParsePolicy = Callable[[Mapping[str, Any]], Policy]


class PoliciesInForce:
    """Gives the law of the moment: the last one put in force by us, with the body it had then."""

    def __init__(self, *, parse: ParsePolicy, keys: KeyRing) -> None:
        self._parse = parse
        self._keys = keys
        self._parsed: dict[str, Policy] = {}

    def current(self, tx: Transaction) -> Policy:
        """The policy in force.

        Raises:
            ConfigurationError: none is in force, or the rows were changed by somebody else.
        """
        stored = tx.policies.in_force()
        if stored is None:
            raise ConfigurationError(
                "no refund policy is in force; run: support-agent policies activate FILE "
                "(or support-agent db seed for the sample shop)"
            )
        check_policy(tx, stored, self._keys)
        return self.parsed(stored)

    def parsed(self, stored: StoredPolicy) -> Policy:
        policy = self._parsed.get(stored.hash)
        if policy is None:
            policy = self._read(stored)
            if policy.hash != stored.hash:
                raise ConfigurationError(
                    f"policy {stored.id!r} version {stored.version} was changed in the database: "
                    "its body does not match its hash"
                )
            self._parsed[stored.hash] = policy
        return policy

    def _read(self, stored: StoredPolicy) -> Policy:
        try:
            return self._parse(stored.body)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"policy {stored.id!r} version {stored.version} in the database cannot be used: "
                f"{error}"
            ) from error

    def check_file(self, tx: Transaction, policy: Policy) -> None:
        """A known version with another body stops here: a changed policy needs a new version.

        Raises:
            ConfigurationError: names the policy and the way out.
        """
        known = tx.policies.get(policy.id, policy.version)
        if known is not None and known.hash != policy.hash:
            raise ConfigurationError(
                f"policy {policy.id!r} version {policy.version} is known with other contents; "
                "give the changed file a new version number"
            )


def check_valid_from(policy: Policy, now: datetime) -> None:
    """Pass when the policy's first day has come.

    Raises:
        ConfigurationError: it has not; names the day.
    """
    if policy.valid_from > now:
        raise ConfigurationError(
            f"policy {policy.id!r} version {policy.version} is valid from "
            f"{policy.valid_from.isoformat()}; put it in force then, or give it an earlier date"
        )


def activate(
    tx: Transaction,
    *,
    policy: Policy,
    body: Mapping[str, Any],
    by: Principal,
    clock: Clock,
    policies: PoliciesInForce,
) -> bool:
    """Put a policy in force; False when it is already. Audited.

    Whoever holds the host may: `PolicyActivation` is the door that asks for a second person.

    Raises:
        ConfigurationError: a known version with other contents, or one that is not valid yet.
    """
    policies.check_file(tx, policy)
    current = tx.policies.in_force()
    if current is not None and (current.id, current.version) == (policy.id, policy.version):
        return False
    now = clock.now()
    check_valid_from(policy, now)
    stored = StoredPolicy(
        id=policy.id,
        version=policy.version,
        hash=policy.hash,
        body=body,
        valid_from=policy.valid_from,
        activated_at=now,
        activated_by=by.id,
    )
    tx.policies.activate(stored)
    tx.audit.append(
        AuditEvent(
            action=POLICY_ACTIVATED,
            actor=by,
            subject=IN_FORCE,
            at=now,
            data=policy_facts(stored),
        )
    )
    return True

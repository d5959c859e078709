"""The policy in force: read from the database, parsed once, never from a file."""

from collections.abc import Callable, Mapping
from typing import Any

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.people import Principal
from support_agent.domain.policy import Policy
from support_agent.ports.clock import Clock
from support_agent.ports.storage import StoredPolicy, Transaction

POLICY_ACTIVATED = "policy.activated"

ParsePolicy = Callable[[Mapping[str, Any]], Policy]


class PoliciesInForce:
    """Gives the law of the moment. A row whose body does not match its hash is not believed."""

    def __init__(self, *, parse: ParsePolicy) -> None:
        self._parse = parse
        self._parsed: dict[str, Policy] = {}

    def current(self, tx: Transaction) -> Policy:
        """The policy in force.

        Raises:
            ConfigurationError: none is in force, or the stored body was changed.
        """
        stored = tx.policies.in_force()
        if stored is None:
            raise ConfigurationError(
                "no refund policy is in force; run: support-agent policies activate FILE "
                "(or support-agent db seed for the sample shop)"
            )
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


def activate(
    tx: Transaction,
    *,
    policy: Policy,
    body: Mapping[str, Any],
    by: Principal,
    clock: Clock,
    policies: PoliciesInForce,
) -> bool:
    """Put a policy in force; False when it is already. Audited."""
    policies.check_file(tx, policy)
    current = tx.policies.in_force()
    if current is not None and (current.id, current.version) == (policy.id, policy.version):
        return False
    now = clock.now()
    tx.policies.activate(
        StoredPolicy(
            id=policy.id,
            version=policy.version,
            hash=policy.hash,
            body=body,
            activated_at=now,
            activated_by=by.id,
        )
    )
    data = {"version": str(policy.version), "hash": policy.hash}
    tx.audit.append(
        AuditEvent(action=POLICY_ACTIVATED, actor=by, subject=policy.id, at=now, data=data)
    )
    return True

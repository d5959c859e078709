"""Putting a policy in force: where it lets more money pass, two persons have to want it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from support_agent.domain.audit import AuditEvent, AuditRow, holds
from support_agent.domain.errors import (
    ConfigurationError,
    DecisionRefused,
    HistoryBroken,
    InsufficientAuthority,
    NotProved,
    RecordChanged,
)
from support_agent.domain.people import Approver, Principal
from support_agent.domain.policy import Policy
from support_agent.domain.policy_change import raised_by
from support_agent.domain.reasons import Reason
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import StoredPolicy, Transaction
from support_agent.services.approvers import check_acting
from support_agent.services.authority import IN_FORCE, check_approver
from support_agent.services.policies import PoliciesInForce, activate, check_valid_from

POLICY_PROPOSED = "policy.proposed"


class Step(StrEnum):
    """How far a policy is."""

    UNCHANGED = "unchanged"  # it was in force already
    PROPOSED = "proposed"  # one person wants it, another has to
    ACTIVATED = "activated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What came of it; `raised` is where more money may pass, `others` who could be the second."""

    step: Step
    raised: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class PolicyActivation:
    """The door of the command line. Seeding an empty shop is one person's."""

    def __init__(self, *, policies: PoliciesInForce, keys: KeyRing, clock: Clock) -> None:
        self._policies = policies
        self._keys = keys
        self._clock = clock

    def put_in_force(
        self, tx: Transaction, *, policy: Policy, body: Mapping[str, Any], by: Principal
    ) -> Activation:
        """Activate it; or propose it first, where it raises a limit of the policy in force.

        Raises:
            ConfigurationError: a known version with other contents, or one that is not valid yet.
            NotAuthorised: it raises a limit, and `by` is no approver of the top level.
            DecisionRefused: SECOND_PERSON_NEEDED; the same person proposed it.
        """
        self._policies.check_file(tx, policy)
        check_valid_from(policy, self._clock.now())
        current = tx.policies.in_force()
        if current is not None and (current.id, current.version) == (policy.id, policy.version):
            return Activation(step=Step.UNCHANGED)
        raised = self._raised(tx, current, policy)
        if not raised or current is None:
            return self._activate(tx, policy, body, by, raised)
        level = self._top_level(tx, current, policy)
        approver = self._allowed(tx, by, level, raised)
        proposer = self._proposer(tx, current, policy, level)
        if proposer is None:
            return self._propose(tx, current, policy, approver, by, level, raised)
        if proposer.person_id == approver.person_id:
            raise DecisionRefused(Reason.SECOND_PERSON_NEEDED, name=approver.name)
        return self._activate(tx, policy, body, by, raised)

    def _raised(
        self, tx: Transaction, current: StoredPolicy | None, policy: Policy
    ) -> tuple[str, ...]:
        if current is None:
            return ()
        try:
            return raised_by(self._policies.current(tx), policy)
        except ConfigurationError as error:  # nobody can say that it allows no more than this one
            return (f"the policy in force cannot be used: {error}",)

    def _top_level(self, tx: Transaction, current: StoredPolicy, policy: Policy) -> int:
        """The top level of the policy in force; where that is not ours, no lower one than asked."""
        try:
            return self._policies.current(tx).top_level
        except ConfigurationError:
            pass
        try:
            return max(self._policies.parsed(current).top_level, policy.top_level)
        except ConfigurationError:
            return policy.top_level

    def _allowed(
        self, tx: Transaction, by: Principal, level: int, raised: tuple[str, ...]
    ) -> Approver:
        approver = check_acting(tx, by, self._keys)
        if approver is None:
            raise NotProved(
                f"this policy raises limits ({'; '.join(raised)}): two approvers of level {level} "
                "have to put it in force, each with --as NAME"
            )
        if approver.level < level:
            raise InsufficientAuthority(
                f"approver {approver.name!r} has level {approver.level}; raising limits needs two "
                f"approvers of level {level}",
                limit=None,
            )
        return approver

    def _proposer(
        self, tx: Transaction, current: StoredPolicy, policy: Policy, level: int
    ) -> Approver | None:
        """Who proposed exactly this in place of what is in force, if their word still counts."""
        row = _vouched(tx, "policy.proposal")
        if row is None or not holds(self._keys, row):
            return None
        activated = _vouched(tx, "policy")
        if activated is None or row.seq < activated.seq:  # said before this policy was in force
            return None
        event = row.event
        if event.data != _proposal(current, policy, event.data.get("person", "")):
            return None
        approver = tx.people.get(event.actor.id)
        if approver is None or not _stands(tx, approver, level, self._keys):
            return None
        return approver if approver.person_id == event.data["person"] else None

    def _propose(
        self,
        tx: Transaction,
        current: StoredPolicy,
        policy: Policy,
        approver: Approver,
        by: Principal,
        level: int,
        raised: tuple[str, ...],
    ) -> Activation:
        tx.audit.append(
            AuditEvent(
                action=POLICY_PROPOSED,
                actor=by,
                subject=IN_FORCE,
                at=self._clock.now(),
                data=_proposal(current, policy, approver.person_id),
            )
        )
        others = tuple(
            other.name
            for other in tx.people.list()
            if other.person_id != approver.person_id and _stands(tx, other, level, self._keys)
        )
        return Activation(step=Step.PROPOSED, raised=raised, others=others)

    def _activate(
        self,
        tx: Transaction,
        policy: Policy,
        body: Mapping[str, Any],
        by: Principal,
        raised: tuple[str, ...],
    ) -> Activation:
        activate(tx, policy=policy, body=body, by=by, clock=self._clock, policies=self._policies)
        return Activation(step=Step.ACTIVATED, raised=raised)


def _proposal(current: StoredPolicy, policy: Policy, person_id: str) -> dict[str, str]:
    """What the audit says of a proposal: what is wanted, in place of what, by whom."""
    return {
        "policy": policy.id,
        "version": str(policy.version),
        "hash": policy.hash,
        "instead_of": current.hash,
        "person": person_id,
    }


def _vouched(tx: Transaction, topic: str) -> AuditRow | None:
    try:
        return tx.audit.vouched(topic, IN_FORCE)
    except HistoryBroken:
        return None


def _stands(tx: Transaction, approver: Approver, level: int, keys: KeyRing) -> bool:
    if approver.disabled or approver.level < level:
        return False
    try:
        check_approver(tx, approver, keys)
    except RecordChanged:
        return False
    return True

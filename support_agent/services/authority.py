"""Who may decide, and by which policy, as the audit chain says: rows alone give no authority.

Who can write the database can raise a limit, swap a token or put a laxer policy in force. He
cannot sign the event that would have to go with it, so each row is held against its newest event
at the moment it is used, and not only when `audit verify` is run.
"""

import hashlib

from support_agent.domain.audit import holds
from support_agent.domain.errors import ConfigurationError, RecordChanged
from support_agent.domain.people import Approver
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import StoredPolicy, Transaction

APPROVER_CHANGED = "approver.changed"
TOKEN_SET = "approver.token_set"  # noqa: S105 - what happened, not a token
POLICY_ACTIVATED = "policy.activated"
IN_FORCE = "policy"  # the subject of every activation: the newest one is the law


def token_hash(token: str) -> str:
    """Tokens are 256 random bits, so a plain hash is enough to store."""
    return hashlib.sha256(token.encode()).hexdigest()


def authority_facts(approver: Approver) -> dict[str, str]:
    """What the audit says of an approver's authority."""
    limits = {f"limit_{currency}": str(limit) for currency, limit in approver.limits.items()}
    return {
        "person": approver.person_id,
        "level": str(approver.level),
        "disabled": str(approver.disabled).lower(),
        "customers": ",".join(sorted(approver.customer_ids)),
        **limits,
    }


def policy_facts(policy: StoredPolicy) -> dict[str, str]:
    """What the audit says of a policy that was put in force."""
    return {"policy": policy.id, "version": str(policy.version), "hash": policy.hash}


def check_approver(tx: Transaction, approver: Approver, keys: KeyRing) -> None:
    """Pass when the row is what its newest signed events say.

    Raises:
        RecordChanged: the row was changed by something else than this product.
    """
    authority = tx.audit.latest_for(approver.name, prefix=APPROVER_CHANGED)
    token = tx.audit.latest_for(approver.name, prefix=TOKEN_SET)
    genuine = (
        authority is not None
        and holds(keys, authority)
        and authority.event.data == authority_facts(approver)
        and (token is None or holds(keys, token))
        and (token.event.data.get("token_hash") if token else None) == approver.token_hash
    )
    if not genuine:
        raise RecordChanged("approver", approver.name)


def check_policy(tx: Transaction, policy: StoredPolicy, keys: KeyRing) -> None:
    """Pass when this is the policy that was put in force last.

    Raises:
        ConfigurationError: an activation that this product did not make.
    """
    row = tx.audit.latest_for(IN_FORCE, prefix=POLICY_ACTIVATED)
    if row is None or not holds(keys, row) or row.event.data != policy_facts(policy):
        raise ConfigurationError(
            f"policy {policy.id!r} version {policy.version} was put in force by something else "
            "than this program; run: support-agent audit verify"
        )

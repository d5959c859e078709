"""Who may decide, and by which policy, as the audit chain says: rows alone give no authority.

Who can write the database can raise a limit, swap a token or put a laxer policy in force. He
cannot sign the event that would have to go with it, so each row is held against its newest event
at the moment it is used, and not only when `audit verify` is run.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from support_agent.domain.audit import AuditRow, holds
from support_agent.domain.errors import ConfigurationError, HistoryBroken, RecordChanged
from support_agent.domain.people import Approver
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import StoredPolicy, Transaction

APPROVER_CHANGED = "approver.changed"
TOKEN_SET = "approver.token_set"  # noqa: S105 - what happened, not a token
POLICY_ACTIVATED = "policy.activated"
PERSON_ACCOUNTS = "person.accounts"
ACCOUNT = "account_"  # the customers linked to the approver after it
LIMIT = "limit_"  # what an approver reaches in the currency after it
IN_FORCE = "policy"  # the subject of every activation: the newest one is the law


def token_hash(token: str) -> str:
    """Tokens are 256 random bits, so a plain hash is enough to store."""
    return hashlib.sha256(token.encode()).hexdigest()


def authority_facts(approver: Approver) -> dict[str, str]:
    """What the audit says of an approver's authority."""
    limits = {f"{LIMIT}{currency}": str(limit) for currency, limit in approver.limits.items()}
    return {
        "person": approver.person_id,
        "level": str(approver.level),
        "disabled": str(approver.disabled).lower(),
        "customers": _customers(approver),
        **limits,
    }


def account_facts(accounts: Iterable[Approver]) -> dict[str, str]:
    """What the audit says of the approvers that one person is."""
    return {f"{ACCOUNT}{account.name}": _customers(account) for account in accounts}


def _customers(approver: Approver) -> str:
    return ",".join(sorted(approver.customer_ids))


def policy_facts(policy: StoredPolicy) -> dict[str, str]:
    """What the audit says of a policy that was put in force."""
    return {"policy": policy.id, "version": str(policy.version), "hash": policy.hash}


def check_approver(tx: Transaction, approver: Approver, keys: KeyRing) -> None:
    """Pass when the row is what its newest signed events say.

    Raises:
        RecordChanged: the row was changed by something else than this product, or nothing proves
            which events are the newest.
        ConfigurationError: the history has no index yet.
    """
    tx.audit.expect(("approver", approver.name), ("approver.token", approver.name))
    try:
        authority = tx.audit.vouched("approver", approver.name)
        token = tx.audit.vouched("approver.token", approver.name)
    except HistoryBroken as broken:
        raise RecordChanged("approver", approver.name) from broken
    genuine = (
        authority is not None
        and holds(keys, authority)
        and authority.event.data == authority_facts(approver)
        and (token is None or holds(keys, token))
        and (token.event.data.get("token_hash") if token else None) == approver.token_hash
    )
    if not genuine:
        raise RecordChanged("approver", approver.name)


def accounts_of(tx: Transaction, approver: Approver, keys: KeyRing) -> tuple[Approver, ...]:
    """Every approver that this person is, as the signed history says.

    Without one of them, or without its customers, a request would not look like the person's own.
    The rows of a person of whom nothing was signed yet are taken as they are.

    Raises:
        RecordChanged: one is missing, too many, or linked to other customers.
        ConfigurationError: the history has no index yet.
    """
    accounts = _rows_of(tx, approver.person_id)
    row = _vouched_accounts(tx, approver.person_id)
    if row is not None and not (holds(keys, row) and row.event.data == account_facts(accounts)):
        raise _other_accounts(approver.person_id)
    return accounts


def accounts_after(
    tx: Transaction, person_id: str, changed: Iterable[Approver]
) -> dict[str, str] | None:
    """What the audit has to say of the person's accounts once these of them are as given, if new.

    It starts from what was signed, as a change of one approver does. Of a person of whom nothing
    was, each account counts as it was made; a row that nothing proves is none.

    Raises:
        RecordChanged: nothing proves which accounts there were.
        ConfigurationError: the history has no index yet.
    """
    row = _vouched_accounts(tx, person_id)
    if row is not None:
        after = {**row.event.data, **account_facts(changed)}
        return None if after == row.event.data else after
    facts: dict[str, str] = {}
    for account in _rows_of(tx, person_id):
        with suppress(RecordChanged):
            facts |= account_facts([as_signed(tx, account)])
    return facts | account_facts(changed)


def accounts_left(tx: Transaction, approver: Approver) -> tuple[str, dict[str, str]] | None:
    """Whose account it was last, when that was another person, and which ones are left to them.

    Raises:
        RecordChanged, ConfigurationError: as `accounts_after`.
    """
    try:
        last = tx.audit.vouched("approver", approver.name)
    except HistoryBroken as broken:
        raise RecordChanged("approver", approver.name) from broken
    if last is None or last.event.data["person"] == approver.person_id:
        return None
    person_id = last.event.data["person"]
    row = _vouched_accounts(tx, person_id)
    if row is None:
        return None
    gone = account_facts([approver]).keys()
    return person_id, {name: told for name, told in row.event.data.items() if name not in gone}


def _rows_of(tx: Transaction, person_id: str) -> tuple[Approver, ...]:
    return tx.people.of_person(person_id)


def _vouched_accounts(tx: Transaction, person_id: str) -> AuditRow | None:
    try:
        return tx.audit.vouched("person", person_id)
    except HistoryBroken as broken:
        raise _other_accounts(person_id) from broken


def _other_accounts(person_id: str) -> RecordChanged:
    return RecordChanged("the list of accounts of person", person_id)


def as_signed(tx: Transaction, approver: Approver) -> Approver:
    """The approver as they were made last, whatever else was written into the row since.

    A change starts from here: signing the row as it is would make somebody's forgery ours.

    Raises:
        RecordChanged: nothing proves how they were made.
        ConfigurationError: the history has no index yet.
    """
    try:
        row = tx.audit.vouched("approver", approver.name)
    except HistoryBroken as broken:
        raise RecordChanged("approver", approver.name) from broken
    if row is None:
        raise RecordChanged("approver", approver.name)
    facts = row.event.data
    limits = {
        key.removeprefix(LIMIT): int(limit) for key, limit in facts.items() if key.startswith(LIMIT)
    }
    return replace(
        approver,
        person_id=facts["person"],
        level=int(facts["level"]),
        disabled=facts["disabled"] == "true",
        customer_ids=frozenset(filter(None, facts["customers"].split(","))),
        limits=limits,
    )


def check_policy(tx: Transaction, policy: StoredPolicy, keys: KeyRing) -> None:
    """Pass when this is the policy that was put in force last.

    Raises:
        ConfigurationError: an activation that this product did not make, or one that nothing proves
            to be the newest; or the history has no index yet.
    """
    try:
        row = tx.audit.vouched("policy", IN_FORCE)
    except HistoryBroken as broken:
        raise _by_something_else(policy) from broken
    if row is None or not holds(keys, row) or row.event.data != policy_facts(policy):
        raise _by_something_else(policy)


def _by_something_else(policy: StoredPolicy) -> ConfigurationError:
    return ConfigurationError(
        f"policy {policy.id!r} version {policy.version} was put in force by something else "
        "than this program; run: support-agent audit verify"
    )

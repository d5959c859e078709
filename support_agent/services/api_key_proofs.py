"""What was signed of a key: its row counts for nothing without it."""

from support_agent.domain.access import ApiKey, key_facts, key_of
from support_agent.domain.audit import AuditRow, holds
from support_agent.domain.errors import HistoryBroken, KeyNotFound, RecordChanged
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction

TOPIC = "api_key"


def is_genuine(tx: Transaction, key: ApiKey, keys: KeyRing) -> bool:
    """Whether the row is what was signed of it."""
    try:
        check_key(tx, key, keys)
    except RecordChanged:
        return False
    return True


def check_key(tx: Transaction, key: ApiKey, keys: KeyRing) -> None:
    """Pass when the row is what its newest signed event says.

    Raises:
        RecordChanged: somebody else than this program wrote it, or nothing proves it.
        ConfigurationError: the history has no index yet.
    """
    newest = _vouched(tx, key.id, keys)
    if newest is None or newest.event.data != key_facts(key):
        raise RecordChanged("API key", key.id)


def signed_key(tx: Transaction, key_id: str, keys: KeyRing) -> ApiKey:
    """The key as it was made or ended last, whatever its row says since, or if that is gone.

    Raises:
        KeyNotFound: nothing was ever signed of it.
        RecordChanged: nothing proves what was signed last.
    """
    newest = _vouched(tx, key_id, keys)
    if newest is None:
        raise KeyNotFound(key_id)
    return key_of(key_id, newest.event.data)


def _vouched(tx: Transaction, key_id: str, keys: KeyRing) -> AuditRow | None:
    try:
        newest = tx.audit.vouched(TOPIC, key_id)
    except HistoryBroken as broken:
        raise RecordChanged("API key", key_id) from broken
    if newest is not None and not holds(keys, newest):
        raise RecordChanged("API key", key_id)
    return newest

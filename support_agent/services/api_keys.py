"""Keys of the API: made once and shown once, proved by what was signed of them, never by a row."""

import hmac
import secrets
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from support_agent.domain.access import ApiKey, Scope, key_facts
from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    Conflict,
    KeyNotFound,
    KeyRefused,
    NotAuthorised,
)
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Database, Transaction
from support_agent.services.api_key_proofs import check_key, is_genuine, signed_key
from support_agent.services.api_key_rules import check_name, check_shape
from support_agent.services.authority import check_approver, token_hash

KEY_CREATED = "api_key.created"
KEY_CHANGED = "api_key.changed"  # it ends earlier than it did
PREFIX = "sak"  # support agent key: what a scanner for leaked secrets looks for
SECRET_BYTES = 32
DEFAULT_LIFE = timedelta(days=365)
PAGE = 200  # keys of one look
REFUSED = "the key is not one of ours, or no longer; support-agent keys list shows those that are"


class ApiKeys:
    """Makes, proves and ends keys. Their time runs by the machine's clock."""

    def __init__(
        self,
        *,
        database: Database,
        keys: KeyRing,
        clock: Clock,
        wall_clock: Callable[[], datetime],
        ids: Ids,
    ) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._wall_clock = wall_clock
        self._ids = ids

    async def create(
        self,
        *,
        name: str,
        scopes: frozenset[Scope],
        by: Principal,
        approver: str | None = None,
        channel: str | None = None,
        account: str | None = None,
        assurance: Assurance = Assurance.CLAIMED,
        lives: timedelta | None = DEFAULT_LIFE,
    ) -> tuple[ApiKey, str]:
        """A new key, and the text that is shown this once; without end where `lives` is None.

        Raises:
            InvalidInput: the scopes do not go together, or what they need is missing.
            ApproverNotFound, ApproverDisabled: nobody would decide with it.
            Conflict: a key of this name is another's: other scopes, approver or channel; or the
                name is an approver's, and the key is not.
        """
        now, secret = self._wall_clock(), secrets.token_urlsafe(SECRET_BYTES)
        key = ApiKey(
            id=self._ids.new("key"),
            name=name,
            secret_hash=token_hash(secret),
            scopes=scopes,
            approver=approver,
            channel=channel,
            account=account,
            assurance=assurance,
            created_at=now,
            created_by=by.id,
            expires_at=None if lives is None else now + lives,
        )
        check_shape(key)

        def write(tx: Transaction) -> None:
            tx.audit.hold()  # or of two keys of one name made at once neither would see the other
            check_name(tx, key, keys=self._keys, now=now)
            tx.api_keys.put(key)
            self._tell(tx, KEY_CREATED, key, by)

        await self._database.transact(write)
        return key, key_text(key.id, secret)

    async def rotate(
        self,
        key_id: str,
        *,
        overlap: timedelta,
        by: Principal,
        lives: timedelta | None = DEFAULT_LIFE,
    ) -> tuple[ApiKey, ApiKey, str]:
        """The old key, which ends after the overlap, and one like it with the text shown this once.

        The new one has a life of its own.

        Raises:
            KeyNotFound: unknown.
            Conflict: it ended already.
        """
        now, secret = self._wall_clock(), secrets.token_urlsafe(SECRET_BYTES)

        def write(tx: Transaction) -> tuple[ApiKey, ApiKey]:
            tx.audit.hold()  # or one that is revoked just now would be brought back
            old = self._live(tx, key_id, now)
            new = replace(
                old,
                id=self._ids.new("key"),
                secret_hash=token_hash(secret),
                created_at=now,
                created_by=by.id,
                expires_at=None if lives is None else now + lives,
            )
            ends = now + overlap
            ending = replace(old, expires_at=min(ends, old.expires_at or ends))
            tx.api_keys.put(ending)
            self._tell(tx, KEY_CHANGED, ending, by)
            tx.api_keys.put(new)
            self._tell(tx, KEY_CREATED, new, by)
            return ending, new

        old, new = await self._database.transact(write)
        return old, new, key_text(new.id, secret)

    async def revoke(self, key_id: str, *, by: Principal) -> ApiKey:
        """From now on the key opens nothing, and what it has open is closed.

        It ends as it was signed, so that nobody keeps a key alive by changing or hiding its row.

        Raises:
            KeyNotFound: unknown.
            RecordChanged: nothing proves what was signed of it.
            Conflict: it ended already.
        """
        now = self._wall_clock()

        def write(tx: Transaction) -> ApiKey:
            tx.audit.hold()  # or it would say when the key ends as it was before another change
            signed = signed_key(tx, key_id, self._keys)
            if signed.ended_at(now):
                raise _ended(key_id)
            revoked = replace(signed, revoked_at=now)
            tx.api_keys.put(revoked)
            self._tell(tx, KEY_CHANGED, revoked, by)
            return revoked

        return await self._database.transact(write)

    async def authenticate(self, text: str) -> ApiKey:
        """The key whose text this is.

        Raises:
            KeyRefused: there is none, it was revoked or is too old.
            RecordChanged: its row is not what was signed of it.
        """
        key_id, secret = _parts(text)
        now = self._wall_clock()

        def read(tx: Transaction) -> ApiKey:
            key = tx.api_keys.get(key_id)
            if key is None or not _is_secret_of(key, secret):
                raise KeyRefused(REFUSED)
            check_key(tx, key, self._keys)
            if key.revoked_at is not None:
                raise KeyRefused("the key was revoked; support-agent keys create makes another")
            if key.ended_at(now):
                raise KeyRefused("the key is too old; support-agent keys create makes another")
            if not _has_holder(tx, key):
                raise KeyRefused(f"the key is approver {key.approver!r}'s, who is switched off")
            return key

        return await self._database.read(read, brief=True)

    async def decider(self, key: ApiKey) -> Principal:
        """The person who decides with this key.

        Raises:
            NotAuthorised: it is nobody's, or the approver is gone or was changed.
        """

        def read(tx: Transaction) -> Principal:
            approver = tx.people.get(key.approver) if key.approver else None
            if approver is None:
                raise NotAuthorised("the key is no approver's, so nobody decides with it")
            check_approver(tx, approver, self._keys)
            return Principal(
                kind=PrincipalKind.APPROVER,
                id=approver.name,
                person_id=approver.person_id,
                proof=Proof.TOKEN,
                via=key.principal.via,
            )

        return await self._database.read(read, brief=True)

    async def live_ids(self) -> frozenset[str]:
        """Of the keys that have not ended: tells those that may be good from guesses, at one look.

        It is no proof of anything; `authenticate` is.
        """
        now = self._wall_clock()

        def read(tx: Transaction) -> frozenset[str]:
            return frozenset(key.id for key in every_key(tx) if not key.ended_at(now))

        return await self._database.read(read)

    def good(self, tx: Transaction, key_ids: Collection[str]) -> frozenset[str]:
        """Those of them that still open something, in one look; none that was changed."""
        now = self._wall_clock()
        found = tx.api_keys.some(key_ids) if key_ids else ()
        return frozenset(
            key.id
            for key in found
            if not key.ended_at(now) and is_genuine(tx, key, self._keys) and _has_holder(tx, key)
        )

    def _live(self, tx: Transaction, key_id: str, now: datetime) -> ApiKey:
        key = tx.api_keys.get(key_id)
        if key is None:
            raise KeyNotFound(key_id)
        check_key(tx, key, self._keys)
        if key.ended_at(now):
            raise _ended(key_id)
        return key

    def _tell(self, tx: Transaction, action: str, key: ApiKey, by: Principal) -> None:
        tx.audit.append(
            AuditEvent(
                action=action,
                actor=by,
                subject=key.id,
                at=self._clock.now(),
                data=key_facts(key),
            )
        )


def _has_holder(tx: Transaction, key: ApiKey) -> bool:
    """An approver who was switched off opens nothing, and so reads nothing either."""
    holder = tx.people.get(key.approver) if key.approver else None
    return key.approver is None or (holder is not None and not holder.disabled)


def _ended(key_id: str) -> Conflict:
    return Conflict(f"key {key_id!r} has ended already")


def key_text(key_id: str, secret: str) -> str:
    """What its holder sends: which key it is, and the secret."""
    return f"{PREFIX}_{key_id.removeprefix('key_')}_{secret}"


def id_of(text: str) -> str | None:
    """Which key the text says it is; None when it can be none."""
    try:
        return _parts(text)[0]
    except KeyRefused:
        return None


def _parts(text: str) -> tuple[str, str]:
    prefix, _, rest = text.partition("_")
    short_id, _, secret = rest.partition("_")
    if prefix != PREFIX or not short_id or not secret:
        raise KeyRefused(REFUSED)
    return f"key_{short_id}", secret


def _is_secret_of(key: ApiKey, secret: str) -> bool:
    """As bytes: a stored hash may hold anything, and text must be ASCII here."""
    return hmac.compare_digest(key.secret_hash.encode(), token_hash(secret).encode())


def every_key(tx: Transaction) -> Iterator[ApiKey]:
    """All keys, oldest first, those that ended too."""
    last: str | None = None
    while page := tx.api_keys.list(limit=PAGE, after=last):
        yield from page
        last = page[-1].id


def ending_soon(tx: Transaction, now: datetime, *, within: timedelta) -> tuple[ApiKey, ...]:
    """Keys that work today and end within that time, with none of their name that goes on."""
    live = [key for key in every_key(tx) if not key.ended_at(now)]
    last = now + within
    lasting = {key.name for key in live if key.expires_at is None or key.expires_at > last}
    return tuple(key for key in live if key.name not in lasting)

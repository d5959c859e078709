"""Keys of the API: made once and shown once, proved by what was signed of them, never by a row."""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from support_agent.domain.access import ApiKey, Scope, key_facts
from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    ApproverNotFound,
    Conflict,
    HistoryBroken,
    InvalidInput,
    KeyNotFound,
    KeyRefused,
    NotAuthorised,
    RecordChanged,
)
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Database, Transaction
from support_agent.services.authority import check_approver, token_hash

KEY_CREATED = "api_key.created"
KEY_CHANGED = "api_key.changed"  # it ends earlier than it did
TOPIC = "api_key"
PREFIX = "sak"  # support agent key: what a scanner for leaked secrets looks for
SECRET_BYTES = 32
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
        lives: timedelta | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key, and the text that is shown this once.

        Raises:
            InvalidInput: the scopes do not go together, or what they need is missing.
            ApproverNotFound: no such approver.
            Conflict: a key of this name is another's: other scopes, approver or channel.
        """
        _check(scopes, approver=approver, channel=channel, account=account, assurance=assurance)
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

        def write(tx: Transaction) -> None:
            if approver is not None and tx.people.get(approver) is None:
                raise ApproverNotFound(approver)
            for known in tx.api_keys.of_name(name):
                if not known.ended_at(now) and _power(known) != _power(key):
                    raise Conflict(
                        f"a key of the name {name!r} can do other things; a name stands for one "
                        "client: choose another, or revoke that key first"
                    )
            tx.api_keys.add(key)
            self._tell(tx, KEY_CREATED, key, by)

        await self._database.transact(write)
        return key, key_text(key.id, secret)

    async def rotate(
        self, key_id: str, *, overlap: timedelta, by: Principal
    ) -> tuple[ApiKey, ApiKey, str]:
        """The old key, which ends after the overlap, and one like it with the text shown this once.

        Raises:
            KeyNotFound: unknown.
            Conflict: it ended already.
        """
        now, secret = self._wall_clock(), secrets.token_urlsafe(SECRET_BYTES)

        def write(tx: Transaction) -> tuple[ApiKey, ApiKey]:
            old = self._live(tx, key_id, now)
            new = replace(
                old,
                id=self._ids.new("key"),
                secret_hash=token_hash(secret),
                created_at=now,
                created_by=by.id,
                expires_at=None
                if old.expires_at is None
                else now + (old.expires_at - old.created_at),
            )
            ends = now + overlap
            ending = replace(old, expires_at=min(ends, old.expires_at or ends))
            tx.api_keys.replace(ending)
            self._tell(tx, KEY_CHANGED, ending, by)
            tx.api_keys.add(new)
            self._tell(tx, KEY_CREATED, new, by)
            return ending, new

        old, new = await self._database.transact(write)
        return old, new, key_text(new.id, secret)

    async def revoke(self, key_id: str, *, by: Principal) -> ApiKey:
        """From now on the key opens nothing, and what it has open is closed.

        Raises:
            KeyNotFound: unknown.
            Conflict: it ended already.
        """
        now = self._wall_clock()

        def write(tx: Transaction) -> ApiKey:
            revoked = replace(self._live(tx, key_id, now), revoked_at=now)
            tx.api_keys.replace(revoked)
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
            if key is None or not hmac.compare_digest(key.secret_hash, token_hash(secret)):
                raise KeyRefused(REFUSED)
            check_key(tx, key, self._keys)
            if key.revoked_at is not None:
                raise KeyRefused("the key was revoked; support-agent keys create makes another")
            if key.ended_at(now):
                raise KeyRefused("the key is too old; support-agent keys create makes another")
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

    def _live(self, tx: Transaction, key_id: str, now: datetime) -> ApiKey:
        key = tx.api_keys.get(key_id)
        if key is None:
            raise KeyNotFound(key_id)
        check_key(tx, key, self._keys)
        if key.ended_at(now):
            raise Conflict(f"key {key_id!r} has ended already")
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


def key_text(key_id: str, secret: str) -> str:
    """What its holder sends: which key it is, and the secret."""
    return f"{PREFIX}_{key_id.removeprefix('key_')}_{secret}"


def _parts(text: str) -> tuple[str, str]:
    prefix, _, rest = text.partition("_")
    short_id, _, secret = rest.partition("_")
    if prefix != PREFIX or not short_id or not secret:
        raise KeyRefused(REFUSED)
    return f"key_{short_id}", secret


def check_key(tx: Transaction, key: ApiKey, keys: KeyRing) -> None:
    """Pass when the row is what its newest signed event says.

    Raises:
        RecordChanged: somebody else than this program wrote it, or nothing proves it.
        ConfigurationError: the history has no index yet.
    """
    try:
        newest = tx.audit.vouched(TOPIC, key.id)
    except HistoryBroken as broken:
        raise RecordChanged("API key", key.id) from broken
    if newest is None or not holds(keys, newest) or newest.event.data != key_facts(key):
        raise RecordChanged("API key", key.id)


def _power(key: ApiKey) -> tuple[object, ...]:
    return key.scopes, key.approver, key.channel, key.account, key.assurance


def _check(
    scopes: frozenset[Scope],
    *,
    approver: str | None,
    channel: str | None,
    account: str | None,
    assurance: Assurance,
) -> None:
    if not scopes:
        raise InvalidInput("scope", f"is needed; they are {', '.join(sorted(Scope))}")
    if scopes >= {Scope.CUSTOMERS_ACT, Scope.APPROVALS_DECIDE}:
        raise InvalidInput(
            "scope",
            "may not be both customers:act and approvals:decide: who speaks for customers does not "
            "decide; make two keys",
        )
    if (Scope.APPROVALS_DECIDE in scopes) != (approver is not None):
        raise InvalidInput("approver", "goes with the scope approvals:decide, each with the other")
    bound = (channel, account) != (None, None)
    if bound and (None in (channel, account) or Scope.CUSTOMERS_ACT not in scopes):
        raise InvalidInput(
            "channel", "is written channel:account and goes with the scope customers:act"
        )
    if assurance is Assurance.VERIFIED and not bound:
        raise InvalidInput(
            "assurance", "verified is for a key with a channel, which proves its customers itself"
        )

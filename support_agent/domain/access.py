"""Who may use the API: keys with scopes, and for which customer one of them speaks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from support_agent.domain.conversation import Assurance
from support_agent.domain.people import Principal, PrincipalKind, Proof

VIA = "api"  # how whoever uses a key is told apart from a terminal
API_CHANNEL = "api"  # the channel of keys that are bound to none


class Scope(StrEnum):
    """What a key may do. Stored; never renamed."""

    CUSTOMERS_ACT = "customers:act"  # speak for a customer, and see what is that customer's
    CONVERSATIONS_READ = "conversations:read"  # of all customers, with their runs
    RUNS_MANAGE = "runs:manage"  # cancel and resume the runs of all customers
    APPROVALS_READ = "approvals:read"
    APPROVALS_DECIDE = "approvals:decide"  # as the approver whose key it is
    REFUNDS_READ = "refunds:read"
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_MANAGE = "webhooks:manage"
    METRICS_READ = "metrics:read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key; `name` is whose it is, and stays when the key is rotated.

    Invariants:
        - One that may act for customers may not decide.
        - One that may decide is an approver's, and decides as that person.

    Attributes:
        channel, account: where the customers come from that it speaks for; None: from the API.
        assurance: how sure that channel is of who its customers are.
        expires_at, revoked_at: by the machine's clock, not by business time.
    """

    id: str
    name: str
    secret_hash: str
    scopes: frozenset[Scope]
    created_at: datetime
    created_by: str
    approver: str | None = None
    channel: str | None = None
    account: str | None = None
    assurance: Assurance = Assurance.CLAIMED
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        """Whoever holds it, as staff; an approver is proved by `ApiKeys.decider` instead."""
        return Principal(
            kind=PrincipalKind.STAFF, id=self.name, person_id=None, proof=Proof.TOKEN, via=VIA
        )

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes

    def ended_at(self, now: datetime) -> bool:
        """Revoked, or its time is over."""
        return self.revoked_at is not None or (
            self.expires_at is not None and self.expires_at <= now
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """The customer a key speaks for in one request, and how sure that is.

    VERIFIED by a token that the shop's backend signed, or by a channel that proves its customers.
    `until` is when that token ends; None when there is none.
    """

    customer_id: str
    contact: str
    channel: str
    account: str
    assurance: Assurance
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request: a key, and the customer it acts for if it may and said so."""

    key: ApiKey
    acting: Acting | None = None


def key_facts(key: ApiKey) -> Mapping[str, str]:
    """What the audit says of a key: all that gives it power, or tells how long it is to have it."""
    return {
        "name": key.name,
        "secret_hash": key.secret_hash,
        "scopes": ",".join(sorted(key.scopes)),
        "approver": key.approver or "",
        "channel": key.channel or "",
        "account": key.account or "",
        "assurance": str(int(key.assurance)),
        "created_at": _instant(key.created_at),
        "created_by": key.created_by,
        "expires_at": _instant(key.expires_at),
        "revoked_at": _instant(key.revoked_at),
    }


def _instant(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds") if moment else ""


def key_of(key_id: str, facts: Mapping[str, str]) -> ApiKey:
    """The key as it was signed; a scope that this program does not know gives nothing."""
    known = frozenset(Scope)
    return ApiKey(
        id=key_id,
        name=facts["name"],
        secret_hash=facts["secret_hash"],
        scopes=frozenset(Scope(one) for one in facts["scopes"].split(",") if one in known),
        approver=facts["approver"] or None,
        channel=facts["channel"] or None,
        account=facts["account"] or None,
        assurance=Assurance(int(facts["assurance"])),
        created_at=datetime.fromisoformat(facts["created_at"]),
        created_by=facts["created_by"],
        expires_at=_moment(facts["expires_at"]),
        revoked_at=_moment(facts["revoked_at"]),
    )


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

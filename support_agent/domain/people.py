"""Who acts: principals, and the approvers among them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PrincipalKind(StrEnum):
    CUSTOMER = "customer"
    OPERATOR = "operator"  # a person at the shop's terminal, speaking for a customer
    APPROVER = "approver"
    STAFF = "staff"
    SYSTEM = "system"


class Proof(StrEnum):
    """How we know. ASSERTED is believed on demo databases only, and shown as such."""

    TOKEN = "token"  # noqa: S105 - a word, not a secret
    ASSERTED = "asserted"
    CHANNEL = "channel"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who did something. Persons are compared by `person_id`, never by name."""

    kind: PrincipalKind
    id: str
    person_id: str | None
    proof: Proof
    via: str  # cli, api, tick, ...


SYSTEM = Principal(
    kind=PrincipalKind.SYSTEM, id="system", person_id=None, proof=Proof.SYSTEM, via="system"
)


def customer_principal(customer_id: str, *, via: str) -> Principal:
    """A customer whom the channel vouches for."""
    return Principal(
        kind=PrincipalKind.CUSTOMER,
        id=customer_id,
        person_id=None,
        proof=Proof.CHANNEL,
        via=via,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approver:
    """A person who may decide. `limits` in minor units; none in a currency = no authority."""

    name: str
    person_id: str
    level: int
    limits: Mapping[str, int]
    customer_ids: frozenset[str] = frozenset()  # accounts of this person at the shop
    disabled: bool = False
    token_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """For whom something is asked: from the channel's binding, never from the model."""

    customer_id: str
    principal: Principal
    operator: str | None
    conversation_id: str
    run_id: str | None

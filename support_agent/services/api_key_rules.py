"""Which keys of the API there may be: what goes together, and whose name a key may bear."""

import re
from datetime import datetime

from support_agent.domain.access import API_CHANNEL, ApiKey, Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    ApproverDisabled,
    ApproverNotFound,
    Conflict,
    InvalidInput,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction
from support_agent.services.api_key_proofs import is_genuine
from support_agent.services.authority import check_approver

LONGEST_NAME = 200
OWN_CHANNELS = frozenset({API_CHANNEL, "cli"})  # whose conversations a bridge must not reach
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")


def check_shape(key: ApiKey) -> None:
    """Pass when everything about the key goes together.

    Raises:
        InvalidInput: says what does not, and with what.
    """
    _check_word("name", key.name)
    _check_scopes(key)
    _check_channel(key)


def check_name(tx: Transaction, key: ApiKey, *, keys: KeyRing, now: datetime) -> None:
    """Pass when the name is free, or is that of the same client already.

    A name stands in the history and beside what was done, so that of an approver is only theirs.

    Raises:
        ApproverNotFound, ApproverDisabled, RecordChanged: nobody can decide with this key.
        Conflict: the name is somebody else's.
    """
    if key.approver is not None:
        approver = tx.people.get(key.approver)
        if approver is None:
            raise ApproverNotFound(key.approver)
        check_approver(tx, approver, keys)
        if approver.disabled:
            raise ApproverDisabled(approver.name)
    if key.name != key.approver and tx.people.get(key.name) is not None:
        raise Conflict(
            f"{key.name!r} is an approver, and this key would not be theirs: choose another name, "
            f"or make it their key with --approver {key.name}"
        )
    for known in tx.api_keys.of_name(key.name):
        same = known.ended_at(now) or _power(known) == _power(key)
        if not same and is_genuine(tx, known, keys):  # what a hand wrote keeps no name from us
            raise Conflict(
                f"a key of the name {key.name!r} can do other things; a name stands for one "
                "client: choose another, or revoke that key first"
            )


def _power(key: ApiKey) -> tuple[object, ...]:
    return key.scopes, key.approver, key.channel, key.account, key.assurance


def _check_word(field: str, text: str) -> None:
    if len(text) > LONGEST_NAME or not _WORD.fullmatch(text):
        raise InvalidInput(
            field,
            f"{text!r} must be 1 to {LONGEST_NAME} letters, digits, dots, dashes, +, @ or _, the "
            "first a letter or digit",
        )


def _check_scopes(key: ApiKey) -> None:
    if not key.scopes:
        raise InvalidInput("scope", f"is needed; they are {', '.join(sorted(Scope))}")
    if key.scopes >= {Scope.CUSTOMERS_ACT, Scope.APPROVALS_DECIDE}:
        raise InvalidInput(
            "scope",
            "may not be both customers:act and approvals:decide: who speaks for customers does not "
            "decide; make two keys",
        )
    if (Scope.APPROVALS_DECIDE in key.scopes) != (key.approver is not None):
        raise InvalidInput("approver", "goes with the scope approvals:decide, each with the other")


def _check_channel(key: ApiKey) -> None:
    bound = (key.channel, key.account) != (None, None)
    if bound:
        if key.channel is None or key.account is None or Scope.CUSTOMERS_ACT not in key.scopes:
            raise InvalidInput(
                "channel", "is written channel:account and goes with the scope customers:act"
            )
        _check_word("channel", key.channel)
        _check_word("channel", key.account)
        if key.channel in OWN_CHANNELS:
            raise InvalidInput(
                "channel", f"{key.channel!r} is this program's own; name the channel of a bridge"
            )
    if key.assurance is Assurance.VERIFIED and not bound:
        raise InvalidInput(
            "assurance", "verified is for a key with a channel, which proves its customers itself"
        )

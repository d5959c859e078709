"""Proving the audit chain: every link verifies, none is missing, and history equals the present."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from support_agent.domain.access import key_facts
from support_agent.domain.approvals import Decision, is_signed
from support_agent.domain.audit import START, UNPROVED, AuditEvent, AuditHead, AuditRow, holds
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.refunds import fingerprint
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import SwitchName, Transaction, Unreadable
from support_agent.services.api_keys import KEY_CHANGED, KEY_CREATED, every_key
from support_agent.services.audit_index import IndexCheck
from support_agent.services.authority import (
    APPROVER_CHANGED,
    PERSON_ACCOUNTS,
    POLICY_ACTIVATED,
    TOKEN_SET,
    account_facts,
    authority_facts,
    policy_facts,
)
from support_agent.services.destinations import (
    DESTINATION_ADDED,
    DESTINATION_ERASED,
    is_as_told,
)
from support_agent.services.request_facts import agrees
from support_agent.services.switches import SWITCH_CHANGED, switch_facts

Facts = Mapping[str, str]
Fingerprints = Mapping[str, tuple[int, str]]  # the round of a request and its fingerprint in it


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What `audit verify` found; `problems` is empty when the chain holds."""

    head: AuditHead
    events: int
    requests: int
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def verify(tx: Transaction, keys: KeyRing, *, anchor: AuditHead | None = None) -> AuditReport:
    """Walk the chain from its start, then compare the newest facts with the rows they speak of.

    `anchor` is a head seen earlier (from the log, an export): it must still be in the chain, which
    finds a tail that was cut off.
    """
    history = _History(last=START)
    index = IndexCheck()
    problems = _walk(tx, keys, anchor, history, index)
    fingerprints = _compare_requests(tx, history, problems)
    _compare_decisions(tx, keys, history, fingerprints, problems)
    _compare_authority(tx, history, problems)
    _compare_destinations(tx, history, problems)
    _compare_api_keys(tx, history, problems)
    problems += index.problems(tx)
    return AuditReport(
        head=tx.audit.head(),
        events=history.last.seq,
        requests=len(fingerprints),
        problems=tuple(problems),
    )


def check_keys(tx: Transaction, keys: KeyRing) -> None:
    """Pass when the newest event bears our signature and an index.

    Writing on with other keys would make a sound history look forged for good.

    Raises:
        ConfigurationError: other keys signed it, it was changed, or no index could be proved.
    """
    newest = tx.audit.newest()
    if newest is None:
        return
    if holds(keys, newest):
        _check_indexed(newest)
        return
    if not keys.knows(newest.key_id):
        raise ConfigurationError(
            f"this database was signed with key {newest.key_id!r}, which is not among the keys; "
            "add it (several are separated by commas, the first signs)",
            setting="SUPPORT_AGENT_SECURITY__KEYS",
        )
    raise ConfigurationError(
        f"the newest audit event does not verify under key {newest.key_id!r}: either this is "
        "another key of that name, or the database was changed; run: support-agent audit verify",
        setting="SUPPORT_AGENT_SECURITY__KEYS",
    )


def _check_indexed(newest: AuditRow) -> None:
    if newest.root is None:
        raise ConfigurationError(
            "the history has no index yet, so nothing counts; run: support-agent db upgrade"
        )
    if newest.root == UNPROVED:
        raise ConfigurationError(
            "the index of the history was changed by something else than this program, so nothing "
            "counts; run: support-agent audit verify, then support-agent db upgrade, which makes "
            "the index anew when no event is missing"
        )


# Events whose newest one says what a row has to be, and where it is noted.
_NEWEST = {
    APPROVER_CHANGED: "approvers",
    PERSON_ACCOUNTS: "people",
    SWITCH_CHANGED: "switches",
    DESTINATION_ADDED: "destinations",
    KEY_CREATED: "api_keys",
    KEY_CHANGED: "api_keys",
}


@dataclass(slots=True)
class _History:
    """What the chain says of the present: the newest facts about everything it speaks of."""

    last: AuditHead
    requests: dict[str, Facts] = field(default_factory=dict)
    rounds: dict[tuple[str, str], str] = field(default_factory=dict)  # fingerprints of past ones
    decisions: dict[str, str] = field(default_factory=dict)  # MAC by id
    approvers: dict[str, Facts] = field(default_factory=dict)
    people: dict[str, Facts] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    policy: Facts | None = None
    switches: dict[str, Facts] = field(default_factory=dict)
    destinations: dict[str, Facts] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)  # of the destinations
    api_keys: dict[str, Facts] = field(default_factory=dict)

    def note(self, event: AuditEvent) -> None:
        data = event.data
        if event.action.startswith("refund."):
            self._end_round(event.subject, data)
            self.requests[event.subject] = data
        elif event.action in _NEWEST:
            getattr(self, _NEWEST[event.action])[event.subject] = data
        elif event.action == TOKEN_SET:
            self.tokens[event.subject] = data.get("token_hash", "")
        elif event.action == POLICY_ACTIVATED:
            self.policy = data
        elif event.action == DESTINATION_ERASED:
            self.erased.add(event.subject)
        if "decision" in data:
            self.decisions[data["decision"]] = data.get("decision_mac", "")

    def _end_round(self, request_id: str, now: Facts) -> None:
        before = self.requests.get(request_id, now)
        if before.get("round") != now.get("round"):
            past = (request_id, before.get("round", ""))
            self.rounds[past] = before.get("fingerprint", "")


def _walk(
    tx: Transaction,
    keys: KeyRing,
    anchor: AuditHead | None,
    history: _History,
    index: IndexCheck,
) -> list[str]:
    problems: list[str] = []
    anchored = anchor is None or anchor.seq == 0
    for row in tx.audit.rows():
        problems += _link_problems(row, history.last, keys)
        anchored = anchored or (
            anchor is not None and (row.seq, row.mac) == (anchor.seq, anchor.mac)
        )
        history.last = AuditHead(seq=row.seq, mac=row.mac)
        history.note(row.event)
        index.follow(row)
    head = tx.audit.head()
    if head.seq != history.last.seq:
        problems.append(f"the chain has {history.last.seq} events, its head says {head.seq}")
    if head.mac != history.last.mac:
        problems.append("the head is not the last event")
    if anchor is not None and not anchored:
        problems.append(f"the anchored head {anchor.seq}:{anchor.mac[:12]} is not in the chain")
    return problems


def _link_problems(row: AuditRow, before: AuditHead, keys: KeyRing) -> list[str]:
    problems = []
    if row.seq != before.seq + 1:
        problems.append(f"event {before.seq + 1} is missing before {row.seq}")
    if row.prev_mac != before.mac:
        problems.append(f"event {row.seq} does not follow the one before it")
    if row.key_id and not keys.knows(row.key_id):  # one that cannot be read names no key
        problems.append(
            f"event {row.seq} was signed with key {row.key_id!r}, which is not among the keys"
        )
    elif not holds(keys, row):
        problems.append(f"event {row.seq} was changed")
    return problems


def _compare_requests(tx: Transaction, history: _History, problems: list[str]) -> Fingerprints:
    """Each request row against the last event about it; the rounds and fingerprints of the rows."""
    fingerprints: dict[str, tuple[int, str]] = {}
    for request in tx.requests.all():
        facts = history.requests.get(request.id)
        if isinstance(request, Unreadable):
            fingerprints[request.id] = (0, "")
            problems.append(f"request {request.id!r} cannot be read: its row was changed")
            continue
        fingerprints[request.id] = (request.round, fingerprint(request))
        if facts is None:
            problems.append(f"request {request.id!r} has no history")
        elif not agrees(request, facts):
            problems.append(f"request {request.id!r} is not what its history says")
    gone = history.requests.keys() - fingerprints.keys()
    problems += [f"request {missing!r} of the history is gone" for missing in sorted(gone)]
    return fingerprints


def _compare_decisions(
    tx: Transaction,
    keys: KeyRing,
    history: _History,
    fingerprints: Fingerprints,
    problems: list[str],
) -> None:
    """Each decision against its signature, its request and the event that it was made by."""
    seen = set()
    for decision in tx.decisions.all():
        seen.add(decision.id)
        if history.decisions.get(decision.id) != decision.mac:
            problems.append(f"decision {decision.id!r} is not in the history")
        if not is_signed(decision, keys):
            problems.append(f"decision {decision.id!r} does not bear our signature")
        elif _bound_in(decision, history, fingerprints) != decision.fingerprint:
            problems.append(f"decision {decision.id!r} is about another state of its request")
    gone = history.decisions.keys() - seen
    problems += [f"decision {missing!r} of the history is gone" for missing in sorted(gone)]


def _bound_in(decision: Decision, history: _History, fingerprints: Fingerprints) -> str | None:
    """The fingerprint of the decision's request in the decision's round."""
    round_, now = fingerprints.get(decision.request_id, (0, ""))
    if decision.round == round_:
        return now
    return history.rounds.get((decision.request_id, str(decision.round)))


def _compare_authority(tx: Transaction, history: _History, problems: list[str]) -> None:
    """Who may let pass how much: approvers and the policy in force, as somebody put them there."""
    approvers = tx.people.list()
    for approver in approvers:
        changed = history.approvers.pop(approver.name, None) != authority_facts(approver)
        if changed or history.tokens.get(approver.name) != approver.token_hash:
            problems.append(f"approver {approver.name!r} is not what its history says")
    problems += [f"approver {name!r} of the history is gone" for name in sorted(history.approvers)]
    for person_id, facts in sorted(history.people.items()):
        if account_facts(one for one in approvers if one.person_id == person_id) != facts:
            problems.append(f"the accounts of person {person_id!r} are not what history says")
    stored = tx.policies.in_force()
    if (policy_facts(stored) if stored else None) != history.policy:
        problems.append("the policy in force is not the one that was activated last")
    for name in SwitchName:
        switch = tx.switches.get(name)
        if (switch_facts(switch) if switch else None) != history.switches.get(name):
            problems.append(f"switch {name.value!r} is not what its history says")


def _compare_destinations(tx: Transaction, history: _History, problems: list[str]) -> None:
    """Each account that was added, and of whoever has one, those that nobody added."""
    for id_, facts in history.destinations.items():
        found = tx.destinations.get(id_)
        if found is None:
            problems.append(f"payout destination {id_!r} of the history is gone")
        elif not is_as_told(found, facts, erased=id_ in history.erased):
            problems.append(f"payout destination {id_!r} is not what its history says")
    for customer_id in sorted({facts["customer"] for facts in history.destinations.values()}):
        problems += [
            f"payout destination {account.id!r} has no history"
            for account in tx.destinations.of_customer(customer_id)
            if account.id not in history.destinations
        ]


def _compare_api_keys(tx: Transaction, history: _History, problems: list[str]) -> None:
    """Each key, those that ended too: one that was revoked must not come back to life."""
    there = set()
    for key in every_key(tx):
        there.add(key.id)
        facts = history.api_keys.get(key.id)
        if facts is None:
            problems.append(f"API key {key.id!r} has no history")
        elif facts != key_facts(key):
            problems.append(f"API key {key.id!r} is not what its history says")
    gone = history.api_keys.keys() - there
    problems += [f"API key {missing!r} of the history is gone" for missing in sorted(gone)]

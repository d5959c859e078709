"""A shop with a long history, for benchmarks: a few real requests, and very many in their mould.

The moulds are quoted, answered and filed through the product. Copies get ids of their own, with
fingerprints, an audit chain and an index that are really signed, so that they can be decided and
`audit verify` passes. A finished copy has its request and its two events; one that waits has its
order, books, conversation and messages too. Nothing of it is written by the product's own way in.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from support_agent import Agent, Assurance, Binding, Incoming, customer_principal, open_container
from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.faults import parse
from support_agent.adapters.db.stores.audit_index import replace_index, stored_entries
from support_agent.adapters.db.stores.audit_rows import EVENTS, event_values
from support_agent.adapters.db.stores.requests import REQUESTS, request_values
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.keys import load_keys
from support_agent.domain.audit import AuditEvent, AuditHead, link
from support_agent.domain.audit_index import AuditIndex
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import RefundRequest, RequestStatus, fingerprint
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import RequestFilter
from support_agent.services.refunds import state_facts
from support_agent.settings import Settings
from support_agent.testing import ScriptedModel
from support_agent.testing.clock import FixedClock

NOW = datetime.fromisoformat("2026-10-13T02:00:00+00:00")
WAITING = {"A100": "C001", "A300": "C003", "A301": "C003"}  # by order: 250,000 to 2,000,001
FINISHED = {"A102": "C001"}  # paid automatically
PENDING_SPAN = timedelta(days=2)  # filed within the last: none has expired
PENDING_SHARE = 20  # one of so many waits
ROWS_AT_ONCE = 2_000
HEADS = metadata.tables["audit_head"]
# What belongs to a request that waits, by the column that says to which.
PARTS: Mapping[str, str] = {
    "shop_orders": "id",
    "shop_order_lines": "order_id",
    "shop_payments": "order_id",
    "order_balances": "order_id",
    "line_balances": "order_id",
    "payment_balances": "order_id",
    "ledger_entries": "request_id",
    "conversations": "id",
    "messages": "conversation_id",
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mould:
    """A real request, and the rows that belong to it."""

    request: RefundRequest
    rows: Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Names:
    """The ids of copy number `number`."""

    number: int
    customers: int

    @property
    def request(self) -> str:
        return f"req_01{self.number:024}"

    @property
    def order(self) -> str:
        return f"B{self.number:08}"

    @property
    def conversation(self) -> str:
        return f"con_01{self.number:024}"

    @property
    def customer(self) -> str:
        # Spread, so that the requests of one customer do not lie side by side.
        return f"K{self.number * 7_919 % self.customers:07}"


def build(path: Path, requests: int) -> None:
    """Make the database of a shop with so many requests; its keys are in a file beside it."""
    url = f"sqlite:///{path}"
    command = Path(sys.executable).parent / "support-agent"
    env = {**os.environ, "SUPPORT_AGENT_DATABASE__URL": url}
    for step in ("upgrade", "seed"):
        done = [str(command), "db", step]
        subprocess.run(done, env=env, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    filed = asyncio.run(_file(url))
    keys = load_keys(configured=None, database_url=url)
    engine = sqlite_engine(
        parse(url),
        begin="BEGIN IMMEDIATE",
        busy_timeout_s=1,
        pragmas=("journal_mode=OFF", "synchronous=OFF", "foreign_keys=OFF", "cache_size=-800000"),
    )
    with engine.begin() as connection:
        moulds = [_mould(connection, request) for request in filed]
        _copy(connection, keys, moulds, requests)
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")  # ours has begun one
        connection.exec_driver_sql("ANALYZE")
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.exec_driver_sql("BEGIN")
    engine.dispose()


def settings_of(url: str) -> Settings:
    """Names are believed: tokens are not what is measured."""
    return Settings(_env_file=None, database={"url": url}, approvals={"proof": "asserted"})


async def _file(url: str) -> list[RefundRequest]:
    found = []
    for order_id, customer in {**WAITING, **FINISHED}.items():
        script = (
            {"tool": "quote_refund", "arguments": {"order_id": order_id}},
            {"answer": "Bạn có đồng ý không?"},
            {
                "tool": "request_refund",
                "arguments": {"quote_id": "{{quote_refund.quote_id}}"},
            },
            {"answer": "Đã ghi nhận."},
        )
        overrides = {"clock": FixedClock(NOW), "model": ScriptedModel(script)}
        async with open_container(settings_of(url), overrides=overrides) as container:
            await _talk(container.agent(), order_id, customer)
            mine = RequestFilter(order_id=order_id)
            page = await container.database().read(
                lambda tx, mine=mine: tx.requests.list(mine, limit=1)
            )
        found.append(page.data[0])
    return found


async def _talk(agent: Agent, order_id: str, customer: str) -> None:
    binding = Binding(
        channel="bench",
        account="local",
        external_contact=customer,
        customer_id=customer,
        assurance=Assurance.VERIFIED,
        principal=customer_principal(customer, via="bench"),
    )
    asked = await agent.take(Incoming(text=f"Hoàn tiền đơn {order_id}", binding=binding))
    await agent.take(
        Incoming(text="đồng ý", binding=binding, conversation_id=asked.conversation_id)
    )


def _mould(connection: sa.Connection, request: RefundRequest) -> Mould:
    ids = {
        "order_id": request.order_id,
        "request_id": request.id,
        "conversation_id": request.conversation_id,
    }
    rows = {}
    for name, column in PARTS.items():
        table = metadata.tables[name]
        owner = request.conversation_id if name == "conversations" else request.order_id
        found = connection.execute(
            sa.select(table).where(table.c[column] == ids.get(column, owner))
        )
        rows[name] = [
            {key: value for key, value in row.items() if not _counted(table, key)}
            for row in found.mappings()
        ]
    return Mould(request, rows)


def _counted(table: sa.Table, column: str) -> bool:
    """Whether the database numbers it."""
    return table.c[column].autoincrement is True


def _copy(connection: sa.Connection, keys: KeyRing, moulds: Sequence[Mould], requests: int) -> None:
    """The copies, the chain on from its head, and the index over all of it: as one transaction."""
    plan = _Plan(moulds, requests)
    head = AuditHead(**connection.execute(sa.select(HEADS.c.seq, HEADS.c.mac)).mappings().one())
    index = AuditIndex()
    for entry in stored_entries(connection):
        index.put(entry.topic, entry.subject, entry.seq)
    for number, seq in plan.newest_events(head.seq):
        index.put("refund", plan.names(number).request, seq)
    root = index.root()
    for start in range(0, requests, ROWS_AT_ONCE):
        rows: dict[str, list[Row]] = {}
        for number in range(start, min(start + ROWS_AT_ONCE, requests)):
            request = plan.request(number)
            rows.setdefault(REQUESTS.name, []).append(request_values(request))
            for event in _events(request):
                linked = link(keys, head, event, root)
                head = AuditHead(seq=linked.seq, mac=linked.mac)
                rows.setdefault(EVENTS.name, []).append(event_values(linked))
            for name, row in plan.parts(number):
                rows.setdefault(name, []).append(row)
        for name, some in rows.items():
            connection.execute(sa.insert(metadata.tables[name]), some)
    replace_index(connection, index)
    connection.execute(sa.update(HEADS).values(seq=head.seq, mac=head.mac))


class _Plan:
    """Which copy is made in which mould. Those that wait are every second one of the last."""

    def __init__(self, moulds: Sequence[Mould], requests: int) -> None:
        self._waiting, self._finished = moulds[:-1], moulds[-1]
        self._requests = requests
        self._first = requests - 2 * (requests // PENDING_SHARE)
        self._step = PENDING_SPAN / (requests - self._first)

    def names(self, number: int) -> Names:
        return Names(number, max(1, self._requests // 5))

    def waits(self, number: int) -> bool:
        return number >= self._first and number % 2 == 0

    def mould(self, number: int) -> Mould:
        """Of those that wait, most are small ones."""
        if not self.waits(number):
            return self._finished
        return self._waiting[max(0, number // 2 % 8 - 5)]

    def newest_events(self, seq: int) -> Iterator[tuple[int, int]]:
        for number in range(self._requests):
            seq += 1 if self.waits(number) else 2
            yield number, seq

    def request(self, number: int) -> RefundRequest:
        names, mould = self.names(number), self.mould(number).request
        waits = self.waits(number)
        created = NOW - (self._requests - number) * self._step
        swap = _swap(mould, names)
        request = replace(
            mould,
            id=names.request,
            quote_id=f"quo_01{number:024}",
            group_id=f"grp_01{number:024}",
            conversation_id=names.conversation if waits else None,
            run_id=None,
            customer_id=names.customer,
            order_id=names.order,
            payment_id=swap(mould.payment_id),
            gateway_payment_id=swap(mould.gateway_payment_id),
            destination=swap(mould.destination),
            lines=tuple(replace(line, line_id=swap(line.line_id)) for line in mould.lines),
            requester=replace(mould.requester, id=names.customer),
            created_at=created,
            expires_at=created + (mould.expires_at - mould.created_at),
            due_at=created + (mould.due_at - mould.created_at),
        )
        return replace(request, fingerprint=fingerprint(request))

    def parts(self, number: int) -> Iterator[tuple[str, Row]]:
        """The rows that belong to one that waits."""
        if not self.waits(number):
            return
        mould = self.mould(number)
        swap = _swap(mould.request, self.names(number))
        for name, rows in mould.rows.items():
            for row in rows:
                yield (
                    name,
                    {
                        key: swap(value) if isinstance(value, str) else value
                        for key, value in row.items()
                    },
                )


def _swap(mould: RefundRequest, names: Names) -> Any:  # noqa: ANN401 - a function on texts
    """Puts the copy's ids in the place of the mould's."""
    pairs = (
        (mould.id, names.request),
        (mould.conversation_id or "-", names.conversation),
        (mould.order_id, names.order),
        (mould.customer_id, names.customer),
    )

    def swap(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return swap


def _events(request: RefundRequest) -> Iterator[AuditEvent]:
    facts = state_facts(request)
    filed, at = facts, request.created_at
    paid = request.status is RequestStatus.REFUNDED
    if paid:
        filed = {**facts, "status": RequestStatus.APPROVED, "version": "1"}
    who = request.requester
    yield AuditEvent(action="refund.filed", actor=who, subject=request.id, at=at, data=filed)
    if paid:
        yield AuditEvent(
            action="refund.refunded", actor=SYSTEM, subject=request.id, at=at, data=facts
        )

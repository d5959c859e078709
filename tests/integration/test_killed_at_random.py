"""Servers, workers and the shop's refund endpoint are killed while everybody uses them.

What each does is told by one seed; when it does it is the machine's business. In the end every
refund was paid once, and nothing that anybody was told, sent or heard is missing or there twice.
"""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from support_agent.cli.app import app
from support_agent.container import Container, open_container
from support_agent.domain.access import Scope
from support_agent.domain.webhooks import EventType
from support_agent.services import reconciliation
from tests.guide import ROOT
from tests.kit import TODAY
from tests.nursery import Mortal, nursery
from tests.refund_kit import SECRET
from tests.serving_kit import key_for, serving_environment
from tests.storm import Shore, Talk, decide
from tests.webhook_kit import TAKEN, Came, Receiver, receiving, status

EXAMPLES = ROOT / "examples"
SEED = 20261013
STORM_S = 45.0  # at most; a tenth of it where the machine has nothing else to do
CUSTOMERS, PRICES = 3, (150_000, 600_000)
LATER = (  # the leases of the dead are over, and the pauses of what failed
    "UPDATE idempotency_keys SET lease_until = 0",
    "UPDATE conversations SET lease_until = 0 WHERE lease_until IS NOT NULL",
    "UPDATE webhook_deliveries SET retry_at = 0 WHERE state = 'pending'",
    "UPDATE outbox SET retry_at = 0 WHERE retry_at IS NOT NULL",
)
LEFT = (
    "SELECT count(*) FROM refund_requests WHERE status NOT IN ('REFUNDED', 'REJECTED')",
    "SELECT count(*) FROM runs WHERE status = 'running'",
    "SELECT count(*) FROM messages WHERE author = 'customer' AND run_id IS NULL",
    "SELECT count(*) FROM outbox WHERE fanned_at IS NULL",
    "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'",
)
ROUNDS = 8


def sold(url: str) -> None:
    """The example shop's tables, with two orders of each of its customers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        from existing_backend import database  # noqa: PLC0415 - it is not on the path before

        engine, today = sa.create_engine(url), TODAY.replace(tzinfo=None)
        with engine.begin() as connection:
            database.tables.create_all(connection)
            for n in range(CUSTOMERS):
                who = {"ma_kh": f"KH{n}", "ho_ten": f"Khách {n}"}
                connection.execute(database.customers.insert().values(who))
                for k, price in enumerate(PRICES):
                    place = (f"DH{n}00{k}", f"KH{n}", "Áo khoác gió", price, today)
                    database.sell(connection, *place, delivered=5)
        engine.dispose()


@pytest.fixture(params=["inline", "procrastinate"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    """The queue, the agent's database and the shop's."""
    if request.param == "inline":
        return "inline", request.getfixturevalue("shop_url"), f"sqlite:///{tmp_path / 'orders.db'}"
    orders = request.getfixturevalue("empty_postgres_url")
    return "procrastinate", request.getfixturevalue("queue_url"), orders


@pytest.fixture
def shop_socket() -> Iterator[socket.socket]:
    """Who asks while the shop is away waits for the next one."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening


def free_ports(many: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(many)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def fate(url: str, mortals: list[Mortal], dice: random.Random, over: asyncio.Event) -> None:
    """Kill one after the other; what it was answering may soon be answered by somebody else."""
    while not over.is_set():
        await asyncio.sleep(dice.uniform(0.2, 0.8))
        dead = dice.choice(mortals)
        await asyncio.to_thread(dead.stop)
        await asyncio.sleep(dice.uniform(0, 0.2))
        dead.start()
        await asyncio.to_thread(rows, url, LATER[0])


def unreliable(dice: random.Random) -> Any:
    def answer(_came: Came) -> bytes | None:
        return dice.choice((TAKEN, TAKEN, status(500), None))

    return answer


def rows(url: str, question: str) -> list[Any]:
    """What a database says to that, past everybody's code; or of a change, nothing."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        told = connection.execute(sa.text(question))
        found = list(told) if told.returns_rows else []
    engine.dispose()
    return found


async def settle(container: Container, url: str) -> None:
    """Everything that happens by itself, with time going by in between."""
    for _ in range(ROUNDS):
        for later in LATER:
            rows(url, later)
        for chore in container.chores():
            await chore.run()
        if not any(rows(url, left)[0][0] for left in LEFT):
            return
    pytest.fail("something never settles")


async def test_in_the_end_nothing_is_lost_and_nothing_is_there_twice(
    place, shop_socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    queue, url, orders = place
    dice = random.Random(SEED)  # noqa: S311 - of a test
    fd, ports = shop_socket.fileno(), free_ports(2)
    sold(orders)
    env = serving_environment(
        url,
        QUEUE__KIND=queue,
        QUEUE__LEASE_GRACE_SECONDS="1",
        QUEUE__MAX_ATTEMPTS="50",
        LIMITS__RUN_SECONDS="3",
        API__RATE_PER_MINUTE="100000",
        API__MAX_WAIT_SECONDS="3",
        API__STREAM_POLL_SECONDS="0.1",
        ORDERS__KIND="mapped",
        ORDERS__MAP=str(EXAMPLES / "existing_backend" / "orders.toml"),
        ORDERS__URL=orders,
        PAYMENTS__KIND="http",
        PAYMENTS__URL=f"http://127.0.0.1:{shop_socket.getsockname()[1]}/hoan-tien",
        PAYMENTS__ACCOUNT="vuon-nha",
        PAYMENTS__SIGNING_SECRETS=SECRET,
        PAYMENTS__TIMEOUT_SECONDS="3",
        WEBHOOKS__PRIVATE_TARGETS="127.0.0.1",
        WEBHOOKS__TIMEOUT_SECONDS="0.3",
    )
    shops = {"SHOP_DATABASE_URL": orders, "REFUND_SIGNING_SECRET": SECRET}
    web = await key_for(url, Scope.CUSTOMERS_ACT)
    staff = await key_for(url, Scope.WEBHOOKS_MANAGE, name="staff")
    deciding = (Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE)
    approvers = {
        name: await key_for(url, *deciding, name=f"desk-{name}", approver=name)
        for name in ("lan", "huong")
    }
    with nursery((str(ROOT), str(EXAMPLES)), descriptors=(fd,)) as started:

        def mortal(name: str, *words: str, program: str | None = None) -> Mortal:
            log = tmp_path / f"{name}.log"
            return Mortal(started, log, words, {**env, **shops}, program)

        ours = [mortal(f"serve-{port}", "serve", "--port", str(port)) for port in ports]
        ours.append(mortal("worker", "worker"))
        every = [*ours, mortal("shop", str(fd), program="tests.refund_shop")]
        for one in every:
            one.start()
        shore = Shore(servers=[f"http://127.0.0.1:{port}" for port in ports], dice=dice)
        async with receiving(unreliable(dice)) as receiver:
            hook = {"url": receiver.url, "events": [*EventType]}
            secret = (await shore.given("POST", "/v1/webhook-endpoints", staff, json=hook))[
                "secret"
            ]
            talks = [Talk(shore=shore, customer=f"KH{n}", key=web) for n in range(CUSTOMERS)]
            await storm(url, talks, every, approvers)
            receiver.answer = lambda _: TAKEN
            with monkeypatch.context() as patch:
                for name, value in env.items():
                    if name.startswith("SUPPORT_AGENT_"):
                        patch.setenv(name, value)
                patch.setattr(reconciliation, "IN_FLIGHT", timedelta(0))
                async with open_container() as container:
                    await settle(container, url)
                for words in (("refunds", "check"), ("audit", "verify")):
                    done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
                    assert done.exit_code == 0, done.output
            await asyncio.gather(*(said_and_heard(talk, url) for talk in talks))
            codes = [await asyncio.to_thread(one.stop, 15) for one in ours]
        logs = "".join(one.log.read_text() for one in every)

    assert sum(one.lives for one in every) > len(every) + 3
    assert codes == [0, 0, 0]
    assert "Traceback" not in logs
    assert {"500", "502"}.isdisjoint(shore.seen)
    paid_once(url, orders)
    told_all(url, receiver, secret)


async def storm(
    url: str, talks: list[Talk], mortals: list[Mortal], approvers: dict[str, dict[str, str]]
) -> None:
    """Two refunds of each customer, each decided where a person has to, while everybody dies."""

    async def story(talk: Talk) -> None:
        for k in range(len(PRICES)):
            asked = await talk.say(f"Hoàn tiền đơn DH{talk.customer[2:]}00{k} giúp tôi")
            talk.follow()
            assert len(asked["quotes"]) == 1
            filed = await talk.say("đồng ý")
            for request_id in filed["pending_approvals"]:
                answers = await decide(talk.shore, request_id, approvers)
                assert {answer.status_code for answer in answers} <= {200, 409, 412}
                # None at all, where the winner's server died before it could say so.
                assert len({answer.json()["by"] for answer in answers if answer.is_success}) <= 1

    over = asyncio.Event()
    dying = asyncio.create_task(fate(url, mortals, talks[0].shore.dice, over))
    try:
        async with asyncio.timeout(STORM_S):
            await asyncio.gather(*map(story, talks))
    finally:
        over.set()
        await dying


async def said_and_heard(talk: Talk, url: str) -> None:
    """Each message once, each event once, in order; each run began and ended for its readers."""
    talk.over.set()
    assert talk.reading is not None
    async with asyncio.timeout(STORM_S):  # one that hears the same again and again never ends
        await talk.reading
    messages = await talk.messages()
    assert [one["seq"] for one in messages] == list(range(1, len(messages) + 1))
    said = [(one["seq"], one["text"]) for one in messages if one["author"] == "customer"]
    assert said == talk.sent
    ids = [id_ for id_, _, _ in talk.heard]
    assert len(ids) == len(set(ids))
    heard = [data for _, name, data in talk.heard if name == "message"]
    unread = [{**one, "run_id": None} for one in messages]  # as most were when they were told
    assert [{**one, "run_id": None} for one in heard] == unread
    runs = rows(url, f"SELECT id FROM runs WHERE conversation_id = '{talk.id}' ORDER BY epoch")  # noqa: S608
    phases = [(data["id"], data["phase"]) for _, name, data in talk.heard if name == "run"]
    assert phases == [(run.id, phase) for run in runs for phase in ("begun", "ended")]


def paid_once(url: str, orders: str) -> None:
    """What the shop paid is what the requests say, and each of them once."""
    requests = rows(url, "SELECT id, order_id, amount_minor, status FROM refund_requests")
    paid = rows(orders, "SELECT khoa, ma_gd, so_tien FROM hoan_tien")
    assert Counter((row.khoa.split(":")[1], row.ma_gd, row.so_tien) for row in paid) == {
        (one.id, f"GD-{one.order_id}", one.amount_minor): 1
        for one in requests
        if one.status == "REFUNDED"
    }
    assert len(requests) == CUSTOMERS * len(PRICES)
    assert {one.status for one in requests} <= {"REFUNDED", "REJECTED"}


def told_all(url: str, receiver: Receiver, secret: str) -> None:
    """Every event came at least once, always under one id and as the same body."""
    bodies: dict[str, set[bytes]] = {}
    for came in receiver.came:
        came.verified(secret)
        bodies.setdefault(came.id, set()).add(came.body)
    assert {len(each) for each in bodies.values()} == {1}
    deliveries = rows(url, "SELECT event_id, type, state FROM webhook_deliveries")
    assert {one.state for one in deliveries} == {"delivered"}
    assert {one.event_id for one in deliveries} == bodies.keys()
    refunded = rows(url, "SELECT id FROM refund_requests WHERE status = 'REFUNDED'")
    runs = rows(url, "SELECT id FROM runs")
    kinds = Counter(one.type for one in deliveries)
    assert kinds["refund.executed"] == len(refunded)
    assert kinds["run.completed"] == len(runs)

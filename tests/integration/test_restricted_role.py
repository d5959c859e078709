"""Everything the program does, done by the role that owns nothing: a right it lacks shows here."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support_agent.adapters.db.condition import Held, held_rights
from support_agent.adapters.db.engines import postgres_engine
from support_agent.adapters.db.faults import parse
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.events import EventKind
from support_agent.ports.payments import GatewayStatus
from support_agent.resources import resource_dir
from support_agent.testing.gateway import Act
from tests.money_world import World
from tests.queue_kit import (
    PROCRASTINATE,
    answered,
    chores_of,
    eventually,
    jobs,
    open_with,
    post,
    working,
)
from tests.roles import Installed, Roles, copied, installed, refusals, two_roles

S = RequestStatus


@pytest.fixture(scope="module")
def shared(postgres: str) -> Iterator[Installed]:
    """For who only looks."""
    with two_roles(postgres) as roles:
        one = installed(roles)
        one.set_up()
        yield one


@pytest.fixture
def shop(shared: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    monkeypatch.chdir(tmp_path)
    with copied(shared.roles) as roles:
        yield installed(roles)


def filed(shop: Installed, order: str, customer: str = "C001") -> str:
    talk = ("--customer", customer, "--conversation")
    quoted = shop.json("ask", f"hoàn tiền đơn {order}", *talk[:2])
    shop.json("ask", "đồng ý", *talk, quoted["conversation_id"])
    return str(shop.json("refunds", "list", "--order", order)["data"][0]["id"])


def decide(shop: Installed, request: str, how: str, name: str, *words: str) -> None:
    version = shop.json("refunds", "show", request)["version"]
    shop("approvals", how, request, "--as", name, "--expect", str(version), *words)


def test_a_whole_day_of_the_desk_is_within_its_rights(shop, tmp_path):
    with refusals() as refused:
        first = filed(shop, "A100")
        assert shop.json("refunds", "list", "--order", "A100")["data"][0]["status"] == (
            "PENDING_APPROVAL"
        )
        assert shop.json("refunds", "show", filed(shop, "A103"))["status"] == "REFUNDED"
        shop("approvals", "list")
        shop("approvals", "show", first)
        decide(shop, first, "ask", "lan", "--question", "Còn nguyên chứ?")
        decide(shop, first, "reduce", "lan", "--amount", "200.000")
        decide(shop, first, "approve", "huong")
        assert shop.json("refunds", "show", first)["status"] == "REFUNDED"
        [other] = shop.json("refunds", "request", "--order", "A300", "--as", "huong")["data"]
        decide(shop, other["id"], "reject", "tuan")
        [third] = shop.json("refunds", "request", "--order", "A400", "--as", "huong")["data"]
        shop("refunds", "cancel", third["id"])
        staff(shop, tmp_path)
        looking(shop)
        for later in ("2026-10-15T09:00:00+07:00", "2026-10-20T09:00:00+07:00"):
            shop("tick", CLOCK__NOW=later)

        data_of_a_customer(shop)
        assert shop.json("audit", "verify")["ok"] is True
        assert shop.json("refunds", "check")["ok"] is True
    assert refused == []


def staff(shop: Installed, folder: Path) -> None:
    """What people change."""
    shop("approvers", "add", "hoa", "--person", "P-HOA", "--level", "1", "--limit", "VND=2.000.000")
    shop("approvers", "limit", "hoa", "VND=1.000.000")
    shop("approvers", "token", "hoa")
    shop("approvers", "disable", "hoa")
    account = ("--bank", "VCB", "--account", "0123456789", "--holder", "TRAN VAN SAU")
    added = shop.json("destinations", "add", "--customer", "C006", *account)
    shop("destinations", "show", added["id"], "--as", "lan")
    shop("payouts", "pause")
    shop("payouts", "resume")
    shop("auto-approval", "off")
    shop("auto-approval", "on")
    policy = folder / "policy.yaml"
    body = yaml.safe_load((resource_dir() / "data/policies/standard.yaml").read_text("utf-8"))
    policy.write_text(yaml.safe_dump(body | {"version": body["version"] + 1}), "utf-8")
    shop("policies", "check", str(policy))
    shop("policies", "activate", str(policy), "--as", "huong")
    talk = shop.json("ask", "Tôi muốn gặp người thật", "--customer", "C004")["conversation_id"]
    shop("conversations", "show", talk)
    for task in shop.json("tasks", "list")["data"]:
        shop("tasks", "done", task["id"])


def data_of_a_customer(shop: Installed) -> None:
    shop("ask", "Please answer me in English from now on", "--customer", "C001")
    shop("memory", "show", "C001")
    shop("memory", "forget", "C001")
    shop("privacy", "export", "C001")
    shop("privacy", "erase", "C001", "--yes")
    shop("privacy", "erase", "C006", "--yes")


def looking(shop: Installed) -> None:
    """What people only look at."""
    shop("conversations", "list")
    [run, *_] = shop.json("runs", "list")["data"]
    shop("runs", "show", run["id"])
    shop("refunds", "reconcile")
    shop("usage", "show")
    shop("usage", "top")
    shop("approvals", "report")
    shop("policies", "list")
    shop("db", "check")
    shop("doctor", "--deep")


class Kept:
    """Drops no database: the fixture does."""

    def drop(self, *urls: str) -> None:
        pass


def test_everything_a_gateway_may_do_is_booked_within_its_rights(shop):
    places: Any = Kept()
    with refusals() as refused:
        world = World(places, shop.roles.worker)
        try:
            adventures(world)
        finally:
            world.close()
    assert refused == []


def adventures(world: World) -> None:
    world.file("A400", 300_000)
    world.decide(-1, "huong", "approve", 100)
    world.pay(-1, Act.LOSE_ANSWER)
    world.wait(minutes=10)
    world.reconcile()
    assert world.requests()[-1].status is S.REFUNDED
    world.settle(-1, GatewayStatus.FAILED)
    world.reconcile()
    assert world.requests()[-1].status is S.FAILED
    world.retry(-1)
    world.decide(-1, "tuan", "approve", 100)
    world.pay(-1, Act.LOSE_ANSWER)
    world.gateway._made[-1].lost = True
    world.wait(hours=25)
    world.reconcile()
    assert world.requests()[-1].status is S.MANUAL_REVIEW
    world.resolve(-1, "huong")
    world.file("A401", 30_000)
    world.file("A100", None)
    world.refund_outside("A401", 50)
    world.reconcile()
    for kind in (EventKind.DISPUTE_OPENED, EventKind.DISPUTE_LOST):
        world.dispute("A100", kind)
        world.receive(0, old=False)
    world.tick()
    (total,) = world.run(world.shop.read(lambda tx: tx.books.totals()))
    assert total.refunded_minor > 300_000
    assert total.charged_back_minor == 250_000


def test_workers_are_woken_and_do_everything_within_their_rights(shop):
    """Under PostgreSQL's queue, whose tables and functions are others' than ours."""
    shop.upgrade(QUEUE__KIND="procrastinate")
    with refusals() as refused:
        asyncio.run(served_by_a_worker(shop.roles))
        shop("privacy", "erase", "C001", "--yes", QUEUE__KIND="procrastinate")
    assert refused == []


async def served_by_a_worker(roles: Roles) -> None:
    async with open_with(roles.worker, queue=PROCRASTINATE) as opened:
        first = await post(opened)
        async with working(opened.container, chores=chores_of(opened.container)):
            await eventually(lambda: answered(opened, first.conversation_id))
            await post(opened, "Còn đơn A101?", conversation=first.conversation_id)
            await eventually(lambda: answered(opened, first.conversation_id, times=2))
            await eventually(lambda: not jobs(roles.superuser))


def test_jobs_are_counted_and_those_of_a_worker_that_is_gone_are_found(shop):
    queue = {"QUEUE__KIND": "procrastinate"}
    shop.upgrade(**queue)
    assert rights(shop, **queue)["jobs"]["detail"] == "none; 0 stalled"
    left = "INSERT INTO procrastinate_jobs (queue_name, task_name, status) VALUES ('q', 'work', "
    shop.roles.as_superuser(f"{left} 'todo')", f"{left} 'doing')")

    found = rights(shop, **queue)["jobs"]

    assert found["level"] == "warn"
    assert "1 todo" in found["detail"]
    assert "1 stalled" in found["detail"]


def rights(shop: Installed, *, code: int = 0, **settings: str) -> Any:
    """The checks of `doctor --deep` by name."""
    checks = shop.json("doctor", "--deep", code=code, **settings)["checks"]
    return {check["name"]: check for check in checks}


class TestDoctor:
    """`doctor --deep` about the role it runs as."""

    def test_the_worker_is_bound_and_a_superuser_and_an_owner_are_not(self, shared):
        found = rights(shared)["rights"]
        assert (found["level"], shared.roles.worker_name in found["detail"]) == ("ok", True)

        for url, says in ((shared.roles.superuser, "superuser"), (shared.roles.owner, "owns")):
            found = rights(shared, DATABASE__URL=url)["rights"]
            assert (found["level"], says in found["detail"]) == ("warn", True)

    def test_the_owners_address_is_out_of_place_in_a_worker(self, shared):
        found = rights(shared, DATABASE__MIGRATE_URL=shared.roles.owner)

        assert found["owner"]["level"] == "warn"
        assert "synthetic" not in found["owner"]["detail"]

    @pytest.mark.parametrize(
        ("statement", "held"),
        [
            ("GRANT DELETE ON audit_events TO {worker}", {"too_much": ("DELETE audit_events",)}),
            (
                "GRANT UPDATE (amount_minor) ON refund_decisions TO {worker}",
                {"too_much": ("UPDATE refund_decisions",)},
            ),
            ("GRANT UPDATE ON ledger_entries TO PUBLIC", {"too_much": ("UPDATE ledger_entries",)}),
            ("GRANT TRUNCATE ON policies TO {worker}", {"too_much": ("TRUNCATE policies",)}),
            ("GRANT CREATE ON SCHEMA public TO {worker}", {"may_create": True}),
            ("ALTER TABLE tasks OWNER TO {worker}", {"owns": ("tasks",)}),
            ("ALTER ROLE {worker} SUPERUSER", {"is_superuser": True}),
            ("REVOKE INSERT ON tasks FROM {worker}", {"missing": ("INSERT tasks",)}),
        ],
    )
    def test_a_right_too_many_or_too_few_is_found(self, shared, statement, held):
        found = held_after(shared, statement)

        assert found.role == shared.roles.worker_name
        assert {name: getattr(found, name) for name in held} == held
        assert found.is_bound == ("missing" in held)

    @pytest.mark.parametrize(
        ("role", "name"), [("pg_write_all_data", "too_much"), ("{owner}", "owns")]
    )
    def test_what_comes_from_another_role_counts_as_well(self, shared, role, name):
        assert len(getattr(held_after(shared, f"GRANT {role} TO {{worker}}"), name)) > 5

    def test_a_right_too_few_is_given_by_an_upgrade(self, shop):
        shop.roles.as_superuser(f"REVOKE INSERT ON tasks FROM {shop.roles.worker_name}")
        assert "lacks INSERT tasks" in rights(shop, code=1)["rights"]["detail"]

        shop.upgrade()

        assert rights(shop)["rights"]["level"] == "ok"

    def test_on_a_live_database_a_role_that_is_not_bound_fails(self, shop):
        shop.roles.as_superuser(
            "ALTER TABLE installation DISABLE TRIGGER ALL",
            "UPDATE installation SET kind = 'live'",
        )
        live = {"CLOCK__NOW": "", "APPROVALS__PROOF": "", "PAYMENTS__LEDGER_IS_BOOKS_ONLY": "true"}
        shop("approvers", "token", "lan", **live)

        owner = rights(shop, code=1, DATABASE__URL=shop.roles.owner, **live)["rights"]

        assert (owner["level"], owner["ok"]) == ("fail", False)


def held_after(shop: Installed, statement: str) -> Held:
    """The worker's rights inside a transaction in which somebody changed them."""
    names = {"worker": shop.roles.worker_name, "owner": shop.roles.owner_name}
    engine = postgres_engine(parse(shop.roles.superuser), busy_timeout_s=10, size=1)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement.format(**names))
            connection.exec_driver_sql(f"SET LOCAL ROLE {shop.roles.worker_name}")
            held = held_rights(connection)
            connection.rollback()
    finally:
        engine.dispose()
    assert held is not None
    return held

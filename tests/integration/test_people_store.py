"""Approvers, policies in force and the installation's stamp."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.db.schema import SCHEMA_REVISION
from support_agent.domain.errors import ApproverNotFound
from support_agent.domain.people import Approver
from support_agent.ports.storage import StoredPolicy, Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
LAN = Approver(
    name="lan",
    person_id="p-lan",
    level=1,
    limits={"VND": 2_000_000, "USD": 10_000},
    customer_ids=frozenset({"C009", "C010"}),
)
STANDARD = StoredPolicy(
    id="standard",
    version=1,
    hash="h1",
    body={"window_days": 30, "note": "30 ngày kể từ khi nhận"},
    valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    activated_at=NOW,
    activated_by="lan",
)


async def test_an_approver_comes_back_as_put(database):
    assert await database.transact(lambda tx: tx.people.put(LAN)) is True

    assert await database.read(lambda tx: tx.people.get("lan")) == LAN
    assert await database.read(lambda tx: tx.people.get("Lan")) is None


async def test_putting_the_same_again_changes_nothing(database):
    await database.transact(lambda tx: tx.people.put(LAN))

    assert await database.transact(lambda tx: tx.people.put(LAN)) is False


@pytest.mark.parametrize(
    "change",
    [
        {"person_id": "p-other"},
        {"level": 2},
        {"limits": {"VND": 1}},
        {"customer_ids": frozenset[str]()},
        {"disabled": True},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_any_change_is_kept_and_the_token_survives_it(change, database):
    await database.transact(lambda tx: tx.people.put(LAN))
    await database.transact(lambda tx: tx.people.set_token("lan", "hash"))

    assert await database.transact(lambda tx: tx.people.put(replace(LAN, **change))) is True

    stored = await database.read(lambda tx: tx.people.get("lan"))
    assert stored == replace(LAN, **change | {"token_hash": "hash"})


async def test_a_token_for_nobody_is_an_error(database):
    with pytest.raises(ApproverNotFound, match="'nobody'"):
        await database.transact(lambda tx: tx.people.set_token("nobody", "hash"))


async def test_approvers_are_listed_by_level_and_name(database):
    def fill(tx: Transaction) -> None:
        for name, level in (("an", 2), ("mai", 1), ("binh", 1)):
            tx.people.put(replace(LAN, name=name, level=level))

    await database.transact(fill)

    listed = await database.read(lambda tx: tx.people.list())
    assert [approver.name for approver in listed] == ["binh", "mai", "an"]


async def test_an_approver_without_a_level_is_refused_by_the_database(database):
    with pytest.raises(sa.exc.IntegrityError):
        await database.transact(lambda tx: tx.people.put(replace(LAN, level=0)))


async def test_without_an_activation_no_policy_is_in_force(database):
    assert await database.read(lambda tx: tx.policies.in_force()) is None
    assert await database.read(lambda tx: tx.policies.get("standard", 1)) is None
    assert await database.read(lambda tx: tx.policies.list()) == ()


async def test_the_newest_activation_is_in_force(database):
    second = replace(STANDARD, version=2, hash="h2", activated_at=NOW + timedelta(days=1))
    back = replace(STANDARD, activated_at=NOW + timedelta(days=2), activated_by="mai")

    for policy in (STANDARD, second, back):
        await database.transact(lambda tx, policy=policy: tx.policies.activate(policy))

        assert await database.read(lambda tx: tx.policies.in_force()) == policy

    assert await database.read(lambda tx: tx.policies.list()) == (back, second)
    assert await database.read(lambda tx: tx.policies.get("standard", 1)) == back


async def test_a_known_version_keeps_its_body(database):
    await database.transact(lambda tx: tx.policies.activate(STANDARD))
    forged = replace(STANDARD, hash="h9", body={"window_days": 999}, activated_by="mai")

    await database.transact(lambda tx: tx.policies.activate(forged))

    in_force = await database.read(lambda tx: tx.policies.in_force())
    assert in_force == replace(STANDARD, activated_by="mai")


@pytest.mark.parametrize("live", [False, True])
async def test_the_stamp_tells_the_installation_apart(live, empty_url, keys):
    upgrade(empty_url, live=live)
    database = SqlDatabase(empty_url, keys)

    def stamp(tx: Transaction) -> tuple[str, bool, str]:
        return tx.installation.id(), tx.installation.is_live(), tx.installation.revision()

    first, again = await database.read(stamp), await database.read(stamp)

    assert first == again
    assert first[0].startswith("inst_")
    assert first[1:] == (live, SCHEMA_REVISION)
    await database.aclose()

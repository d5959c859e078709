"""What stops a start, and what a live database does not allow."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.keys import ensure_key_file
from support_agent.adapters.policy_files import policy_from_body
from support_agent.container import open_container
from support_agent.domain.approvals import Choice
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.people import SYSTEM, Approver
from support_agent.domain.refunds import RequestStatus
from support_agent.services.audit import verify
from support_agent.services.policies import activate
from support_agent.services.seeding import SampleShop
from support_agent.settings import Settings
from support_agent.testing.clock import FixedClock
from tests.kit import (
    KEYS,
    TODAY,
    Shop,
    copy_database,
    make_database,
    open_shop,
    sample,
    settings_for,
)

FIT_FOR_LIVE: dict[str, Any] = {
    "approvals": {"proof": "token"},
    "payments": {"ledger_is_books_only": True},
    "security": {"keys": KEYS},
}


async def start_fails(settings: Settings) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        async with open_container(settings):
            pytest.fail("it opened")
    return raised.value


async def test_a_missing_database_is_named_and_not_made(tmp_path):
    path = tmp_path / "nowhere" / "shop.db"

    error = await start_fails(settings_for(f"sqlite:///{path}"))

    assert error.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert f"there is no database at {str(path)!r}; run `support-agent db upgrade`" in str(error)
    assert not path.parent.exists()


async def test_without_keys_too_the_missing_database_is_what_is_told(tmp_path):
    error = await start_fails(settings_for(f"sqlite:///{tmp_path / 'x.db'}", security={}))

    assert error.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert "db upgrade" in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///shop.db?mode=ro",
        "mysql://user:s3cret@host/shop",
        "postgresql//user:s3cret@host/shop",
        "http://user:s3cret@host/shop",
        "sqlite:////",
    ],
)
async def test_a_bad_address_names_the_setting_and_shows_no_password(url):
    error = await start_fails(settings_for(url))

    assert error.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert "s3cret" not in str(error)


async def test_a_folder_is_no_database(tmp_path):
    error = await start_fails(settings_for(f"sqlite:///{tmp_path}"))

    assert error.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert "is not a file; name one" in str(error)


@pytest.mark.parametrize("live", [False, True])
def test_a_path_that_cannot_be_made_is_told_at_the_upgrade(tmp_path, live):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigurationError, match="SUPPORT_AGENT_DATABASE__URL: the folder of"):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'shop.db'}", live=live)


async def test_a_database_without_keys_says_where_they_come_from(shop_url):
    error = await start_fails(settings_for(shop_url, security={}))

    assert error.setting == "SUPPORT_AGENT_SECURITY__KEYS"
    assert "'shop.keys'" in str(error)


@pytest.fixture
def unsigned_url(tmp_path: Path) -> str:
    """A demo database in which nothing was signed yet, with generated keys beside it."""
    url = make_database(tmp_path / "unsigned.db")
    ensure_key_file(url)
    return url


async def test_a_demo_database_opens_with_its_generated_keys(unsigned_url):
    async with open_container(settings_for(unsigned_url, security={})) as container:
        assert [name for name, _ in container.keys().keys] == ["k1"]


async def test_without_a_policy_it_opens_and_says_so_on_use(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    upgrade(url, live=False)

    async with open_container(settings_for(url)) as container:
        with pytest.raises(ConfigurationError, match=r"no refund policy is in force.*activate"):
            await container.database().read(container.policies().current)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE policies SET body = replace(body, '\"auto\":200000', '\"auto\":2000000')",
        "UPDATE policies SET hash = replace(hash, substr(hash, 1, 4), '0000')",
    ],
)
async def test_a_policy_that_was_changed_in_the_database_stops_the_start(shop_url, change):
    tamper(shop_url, change)

    error = await start_fails(settings_for(shop_url))

    assert "policy 'standard' version 2 was changed in the database" in str(error)


async def test_a_stored_policy_that_makes_no_sense_stops_the_start(shop_url):
    tamper(shop_url, "UPDATE policies SET body = replace(body, '\"auto\":', '\"automatic\":')")

    error = await start_fails(settings_for(shop_url))

    assert "policy 'standard' version 2 in the database cannot be used" in str(error)
    assert "automatic" in str(error)


async def test_a_policy_changed_while_running_is_not_believed_by_the_next_start(shop):
    await shop.filed("A100")
    tamper(shop.url, "UPDATE policies SET body = replace(body, ':30', ':3000')")

    error = await start_fails(settings_for(shop.url))

    assert "does not match its hash" in str(error)


def tamper(url: str, change: str) -> None:
    """What somebody does who can write the file, past the triggers."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'policies'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(change).rowcount == 1
    connection.close()


async def test_a_policy_that_counts_days_elsewhere_stops_the_start(shop_url):
    error = await start_fails(settings_for(shop_url, shop={"time_zone": "Europe/London"}))

    assert error.setting == "SUPPORT_AGENT_SHOP__TIME_ZONE"
    assert "'Asia/Ho_Chi_Minh'" in str(error)


def changed_sample() -> SampleShop:
    """The sample shop with another window under the same policy version."""
    known = sample()
    body = {**known.policy_body, "window_days": 60}
    return SampleShop(
        customers=known.customers,
        orders=known.orders,
        approvers=known.approvers,
        policy=policy_from_body(body),
        policy_body=body,
    )


async def test_a_known_policy_version_with_other_contents_stops_the_seed(shop):
    with pytest.raises(ConfigurationError, match="'standard' version 2 is known with other"):
        await shop.container.seeding().run(changed_sample())

    assert (await shop.read(shop.container.policies().current)).window_days == 30


async def test_a_known_policy_version_with_other_contents_cannot_be_activated(shop):
    changed, policies = changed_sample(), shop.container.policies()

    def write(tx: Any) -> bool:
        return activate(
            tx,
            policy=changed.policy,
            body=changed.policy_body,
            by=SYSTEM,
            clock=shop.clock,
            policies=policies,
        )

    with pytest.raises(ConfigurationError, match="give the changed file a new version number"):
        await shop.write(write)

    assert len(await shop.read(lambda tx: tx.policies.list())) == 1


@pytest.fixture(scope="session")
def live_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "live.db"
    upgrade(f"sqlite:///{path}", live=True)
    return path


@pytest.fixture
def live_url(live_template: Path, tmp_path: Path) -> str:
    """A migrated database stamped live, empty."""
    return copy_database(live_template, tmp_path / "live.db")


@pytest.mark.parametrize(
    ("sections", "names"),
    [
        ({"clock": {"now": TODAY}}, ["CLOCK__NOW"]),
        ({"approvals": {"proof": "asserted"}}, ["APPROVALS__PROOF"]),
        ({"model": {"kind": "scripted", "script": "x.jsonl"}}, ["MODEL__KIND=scripted"]),
        ({"payments": {}}, ["PAYMENTS__KIND=ledger", "PAYMENTS__LEDGER_IS_BOOKS_ONLY=true"]),
        ({"security": {}}, ["SECURITY__KEYS"]),
        (
            {"clock": {"now": TODAY}, "approvals": {"proof": "asserted"}, "payments": {}},
            ["CLOCK__NOW", "APPROVALS__PROOF", "PAYMENTS__KIND=ledger"],
        ),
    ],
)
async def test_a_live_database_refuses_what_is_for_demonstration(live_url, sections, names):
    ensure_key_file(live_url)

    error = await start_fails(settings_for(live_url, **{**FIT_FOR_LIVE, **sections}))

    assert "this database is live" in str(error)
    for name in names:
        assert name in str(error)


@pytest.mark.parametrize("profile", ["dev", "demo", "test", "prod"])
async def test_a_live_database_opens_with_settings_fit_for_it(live_url, profile):
    async with open_container(settings_for(live_url, profile=profile, **FIT_FOR_LIVE)) as container:
        assert await container.database().read(lambda tx: tx.installation.is_live())


async def test_a_demo_database_takes_all_that_a_live_one_refuses(unsigned_url, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"answer": "Vâng."}\n', encoding="utf-8")
    settings = settings_for(
        unsigned_url,
        clock={"now": TODAY},
        model={"kind": "scripted", "script": script},
        security={},
    )

    async with open_container(settings) as container:
        assert container.clock().now() == TODAY


async def test_a_live_database_is_not_seeded(live_url):
    async with open_container(settings_for(live_url, **FIT_FOR_LIVE)) as container:
        with pytest.raises(ConfigurationError, match="this database is live"):
            await container.seeding().run(sample())

        assert await container.orders().get("A100") is None
        assert await container.database().read(lambda tx: tx.people.list()) == ()


def test_a_demo_database_never_becomes_live(shop_url):
    with pytest.raises(ConfigurationError, match="stamped as a demo and never becomes live"):
        upgrade(shop_url, live=True)


def test_a_live_database_stays_live(live_url):
    assert upgrade(live_url, live=False).kind == "live"


async def stock(shop: Shop) -> None:
    """What an operator brings into a live shop: customers, orders, a policy, an approver."""
    known = sample()
    await shop.container.orders().put_customers(known.customers)
    await shop.container.orders().put_orders(known.orders)

    def write(tx: Any) -> None:
        policies = shop.container.policies()
        activate(
            tx,
            policy=known.policy,
            body=known.policy_body,
            by=SYSTEM,
            clock=shop.clock,
            policies=policies,
        )

    await shop.write(write)
    lan = Approver(name="lan", person_id="P-LAN", level=1, limits={"VND": 2_000_000})
    await shop.container.approvers().add(lan, by=SYSTEM)
    await shop.container.approvers().set_token("lan", "a token", by=SYSTEM)


async def test_books_only_on_a_live_database_says_recorded_and_never_refunded(live_url):
    async with open_shop(live_url, **FIT_FOR_LIVE) as shop:
        await stock(shop)
        quoted = await shop.quote("A100")
        request = (await shop.answer(quoted)).requests[0]
        lan = await shop.container.approvals().prove("lan", "a token", via="test")
        approved = await shop.container.approvals().approve(request.id, by=lan)
        paid = await shop.container.payouts().pay(request.id)
        at_once = await shop.answer(await shop.quote("A102"))
        notice = await shop.read(lambda tx: tx.conversations.messages(quoted.conversation_id)[-1])
        decisions = await shop.read(lambda tx: tx.decisions.of(request.id))

    assert approved.status is RequestStatus.APPROVED
    assert paid.status is RequestStatus.REFUNDED
    assert [decision.choice for decision in decisions] == [Choice.APPROVE]
    assert "Đã ghi sổ khoản hoàn 250.000\u00a0₫" in notice.text
    assert "Đã ghi sổ khoản hoàn 120.000\u00a0₫" in at_once.answer
    assert "Đã hoàn" not in notice.text + at_once.answer


async def test_the_same_refund_on_a_demo_ledger_says_refunded(shop_url):
    async with open_shop(shop_url) as shop:
        result = await shop.answer(await shop.quote("A102"))

    assert "Đã hoàn 120.000\u00a0₫" in result.answer


async def test_an_unreadable_setting_is_told_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPPORT_AGENT_MODEL__KIND", "gpt")

    with pytest.raises(ConfigurationError, match="SUPPORT_AGENT_MODEL__KIND"):
        async with open_container(overrides={"clock": FixedClock(TODAY)}):
            pytest.fail("it opened")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"kind": "scripted"}, "SUPPORT_AGENT_MODEL__SCRIPT: is needed"),
        ({"kind": "scripted", "script": "missing.jsonl"}, "SUPPORT_AGENT_MODEL__SCRIPT: cannot"),
        ({"kind": "openai"}, "OPENAI_API_KEY: is missing"),
    ],
)
async def test_a_model_that_cannot_be_built_stops_a_turn_but_not_the_queue(
    shop_url, monkeypatch, tmp_path, model, says
):
    monkeypatch.chdir(tmp_path)

    async with open_container(settings_for(shop_url, model=model)) as container:
        assert container.approvals() is not None
        with pytest.raises(ConfigurationError, match=says):
            container.agent()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (f"other:{'ab' * 32}", "signed with key 'test', which is not among the keys"),
        (f"test:{'ab' * 32}", "another key of that name, or the database was changed"),
    ],
)
async def test_keys_that_did_not_sign_the_history_stop_the_start(shop_url, keys, says):
    """Writing on with them would make a sound history look forged for good."""
    error = await start_fails(settings_for(shop_url, security={"keys": keys}))

    assert says in str(error)
    assert error.setting == "SUPPORT_AGENT_SECURITY__KEYS"


async def test_a_new_key_before_the_old_one_opens_and_signs(shop_url):
    rotated = f"new:{'ab' * 32},{KEYS}"
    async with open_shop(shop_url, security={"keys": rotated}) as shop:
        await shop.filed("A100")
        newest = await shop.read(lambda tx: tx.audit.newest())
        report = await shop.read(lambda tx: verify(tx, shop.container.keys()))

    assert newest.key_id == "new"
    assert report.problems == ()


async def test_a_broken_history_can_still_be_examined(shop_url):
    settings = settings_for(shop_url, security={"keys": f"other:{'ab' * 32}"})
    async with open_container(settings, check_history=False) as container:
        report = await container.database().read(lambda tx: verify(tx, container.keys()))

    assert "signed with key 'test', which is not among the keys" in report.problems[0]

"""The container with PAYMENTS__KIND=stripe: what it needs, what it refuses, what it costs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.keys import ensure_key_file
from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.adapters.payments.stripe_events import StripeEvents
from support_agent.container import Container, open_container
from support_agent.domain.errors import ConfigurationError
from tests.kit import KEYS, TODAY, make_database, sample, settings_for

TEST_KEY, LIVE_KEY, ACCOUNT = "sk_test_synthetic", "rk_live_synthetic", "acct_ours"
STRIPE = {
    "kind": "stripe",
    "stripe_key": TEST_KEY,
    "stripe_account": ACCOUNT,
    "webhook_secrets": "whsec_synthetic",
}
FIT_FOR_LIVE: dict[str, Any] = {
    "approvals": {"proof": "token"},
    "payments": STRIPE | {"stripe_key": LIVE_KEY},
    "security": {"keys": KEYS},
}


@pytest.fixture(scope="module")
def demo_url(tmp_path_factory) -> str:
    """A migrated demo database, empty; nothing is written to it."""
    return make_database(tmp_path_factory.mktemp("stripe") / "demo.db")


@pytest.fixture(scope="module")
def live_url(tmp_path_factory) -> str:
    """The same, stamped live."""
    url = f"sqlite:///{tmp_path_factory.mktemp('stripe') / 'live.db'}"
    upgrade(url, live=True)
    return url


async def start_fails(url: str, **sections: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        async with open_container(settings_for(url, **sections)):
            pytest.fail("it opened")
    return str(raised.value)


async def test_everything_can_be_built_in_front_of_stripe(demo_url):
    settings = settings_for(demo_url, payments=STRIPE, openai_api_key="sk-nobodys")
    async with open_container(settings) as container:
        providers = container.providers.items()
        built = {name: provider() for name, provider in providers}

    assert set(built) == set(Container.providers)
    assert isinstance(built["gateway"], StripeGateway)
    assert isinstance(built["events"], StripeEvents)
    assert not built["gateway"].books_only


@pytest.mark.parametrize("missing", ["stripe_key", "stripe_account"])
async def test_what_it_needs_is_named_at_the_start(demo_url, missing):
    said = await start_fails(demo_url, payments=STRIPE | {missing: None})

    assert said.startswith(f"SUPPORT_AGENT_PAYMENTS__{missing.upper()}: is needed")


async def test_a_key_that_is_none_of_stripes_is_not_repeated(demo_url):
    said = await start_fails(
        demo_url,
        approvals={"proof": "token"},
        payments=STRIPE | {"stripe_key": "pk_live_synthetic"},
    )

    assert said.startswith("SUPPORT_AGENT_PAYMENTS__STRIPE_KEY: ")
    assert "synthetic" not in said


async def test_without_a_webhook_secret_only_events_are_refused(demo_url):
    settings = settings_for(demo_url, payments=STRIPE | {"webhook_secrets": None})
    async with open_container(settings) as container:
        assert container.payouts() is not None
        with pytest.raises(ConfigurationError, match="PAYMENTS__WEBHOOK_SECRETS: is needed"):
            container.events()


async def test_a_live_database_takes_a_live_key(live_url):
    async with open_container(settings_for(live_url, **FIT_FOR_LIVE)) as container:
        assert container.gateway().livemode


@pytest.mark.parametrize("key", ["sk_test_synthetic", "rk_test_synthetic"])
async def test_a_test_key_beside_a_live_database_is_a_danger(live_url, key):
    payments = STRIPE | {"stripe_key": key}
    said = await start_fails(live_url, **FIT_FOR_LIVE | {"payments": payments})

    assert "this database is live" in said
    assert "PAYMENTS__STRIPE_KEY is a test key" in said
    assert "PAYMENTS__KIND=ledger" not in said
    assert "synthetic" not in said


@pytest.mark.parametrize(
    ("sections", "name"),
    [
        ({"clock": {"now": TODAY}}, "CLOCK__NOW"),
        ({"approvals": {"proof": "asserted"}}, "APPROVALS__PROOF"),
        ({"model": {"kind": "scripted", "script": "x.jsonl"}}, "MODEL__KIND=scripted"),
        ({"security": {}}, "SECURITY__KEYS"),
        (
            {"payments": FIT_FOR_LIVE["payments"] | {"stripe_url": "http://127.0.0.1:9"}},
            "PAYMENTS__STRIPE_URL",
        ),
    ],
)
async def test_a_live_key_refuses_what_is_for_demonstration_on_any_database(
    demo_url, sections, name
):
    ensure_key_file(demo_url)

    said = await start_fails(demo_url, **FIT_FOR_LIVE | sections)

    assert "the key in PAYMENTS__STRIPE_KEY is live" in said
    assert name in said


async def test_a_live_key_is_not_given_the_sample_shop(demo_url):
    async with open_container(settings_for(demo_url, **FIT_FOR_LIVE)) as container:
        with pytest.raises(ConfigurationError, match="moves real money"):
            await container.seeding().run(sample())

        assert await container.orders().get("A100") is None


def test_the_package_is_imported_by_the_first_payment_and_by_nothing_before(demo_url, tmp_path):
    program = f"""
import asyncio, sys
from support_agent.container import open_container
from tests.kit import settings_for

async def main():
    async with open_container(settings_for({demo_url!r}, payments={STRIPE!r})) as container:
        for name in ("approvals", "payouts", "gateway", "events", "seeding"):
            container.providers[name]()
        print(sorted({{"stripe", "httpx2", "requests"}} & {{*sys.modules}}))

asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"

"""Our tables are not made among those of the shop whose orders we read."""

import pytest

from support_agent.building.checks import check_own_tables
from support_agent.domain.errors import ConfigurationError
from tests.kit import settings_for

SHOP = "postgresql://reader:one@db/shop"


def settings(url: str, shop: str, kind: str = "mapped"):
    return settings_for(url, orders={"kind": kind, "url": shop})


@pytest.mark.parametrize(
    ("url", "shop"),
    [
        ("sqlite:///var/shop.db", "sqlite:///var/../var/shop.db"),
        ("postgresql+psycopg://reader:two@db:5432/shop", SHOP),
    ],
)
def test_the_same_place_is_refused(url, shop):
    with pytest.raises(ConfigurationError, match="is the shop's own database"):
        check_own_tables(settings(url, shop))


@pytest.mark.parametrize(
    ("url", "shop"),
    [
        ("sqlite:///var/support.db", "sqlite:///var/shop.db"),
        ("postgresql://agent@db/shop", SHOP),  # a role that is led to a schema of its own
        ("postgresql://reader@db/shop?options=-csearch_path%3Dagent", SHOP),
        ("postgresql://reader@db/support", SHOP),
        ("sqlite:///var/support.db", "no address"),
    ],
)
def test_another_place_on_the_same_server_is_not(url, shop):
    check_own_tables(settings(url, shop))

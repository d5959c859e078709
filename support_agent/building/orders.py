"""The shop's orders where settings say they are, one function a kind."""

from typing import TYPE_CHECKING, Any

from support_agent.adapters.orders.cached import CachedOrders
from support_agent.adapters.orders.guarded import GuardedOrders
from support_agent.building.plugins import closed_if_it_can, made
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.orders import OrderRepository
from support_agent.settings import Settings

# Maps are imported where one is read: their models would cost every other command 40 ms.
if TYPE_CHECKING:
    from support_agent.adapters.orders.http import HttpOrders
    from support_agent.adapters.orders.mapped.orders import MappedOrders

CLASS = "SUPPORT_AGENT_ORDERS__CLASS"
AUTH = "SUPPORT_AGENT_ORDERS__AUTH"
MAP = "SUPPORT_AGENT_ORDERS__MAP"
URL = "SUPPORT_AGENT_ORDERS__URL"


def mapped_orders(settings: Settings, *, timeout_s: float | None = None) -> "MappedOrders":
    """Orders in the tables that ORDERS__MAP describes, in the database of ORDERS__URL.

    Raises:
        ConfigurationError: map or address are missing, or say what they cannot say.
    """
    orders = settings.orders
    if orders.map is None:
        raise ConfigurationError(
            "is needed when ORDERS__KIND=mapped; name the TOML file that describes the tables",
            setting=MAP,
        )
    if orders.url is None:
        raise ConfigurationError(
            "is needed when ORDERS__KIND=mapped; write the address of the shop's database by a "
            "role that may only read: postgresql://reader:password@host/shop, or "
            "sqlite:///path/to/shop.db",
            setting=URL,
        )
    from support_agent.adapters.orders.mapped.connecting import ForeignDatabase  # noqa: PLC0415 - see above
    from support_agent.adapters.orders.mapped.map_file import load_map  # noqa: PLC0415
    from support_agent.adapters.orders.mapped.orders import MappedOrders  # noqa: PLC0415

    shape = load_map(orders.map)
    database = ForeignDatabase(orders.url, timeout_s=timeout_s or orders.timeout_seconds)
    return MappedOrders(shape, database)


def http_orders(settings: Settings) -> "HttpOrders":
    """Orders behind the API that ORDERS__MAP describes.

    Raises:
        ConfigurationError: no map, one that is wrong, or a secret that fits into no header.
    """
    if settings.orders.map is None:
        raise ConfigurationError(
            "is needed when ORDERS__KIND=http; name the TOML file that describes the API",
            setting=MAP,
        )
    from support_agent.adapters.orders.http import HttpOrders  # noqa: PLC0415 - see above
    from support_agent.adapters.orders.http_map import load_http_map  # noqa: PLC0415

    told = load_http_map(settings.orders.map)
    auth = settings.orders.auth.get_secret_value() if settings.orders.auth else None
    if auth is None and told.auth_header is not None:
        raise ConfigurationError(
            f"is needed: the map sends it in the header {told.auth_header}", setting=AUTH
        )
    if auth is not None and (not auth.strip() or not (auth.isascii() and auth.isprintable())):
        raise ConfigurationError("holds what fits into no header, or nothing", setting=AUTH)
    return HttpOrders(told=told, auth=auth, timeout_s=settings.orders.timeout_seconds)


def own_orders(settings: Settings, to_close: list[Any]) -> GuardedOrders:
    """The class that ORDERS__CLASS names, closed when it has an `aclose`.

    Raises:
        ConfigurationError: it cannot be made, or is no OrderRepository.
    """
    orders = made(settings.orders.class_, setting=CLASS, port=OrderRepository)
    closed_if_it_can(orders, to_close, setting=CLASS)
    return GuardedOrders(orders, timeout_s=settings.orders.timeout_seconds)


def talk_orders(orders: OrderRepository, settings: Settings) -> OrderRepository:
    """What tools that only tell read: a moment old where the shop is asked over HTTP."""
    keep_s = settings.orders.cache_seconds
    if settings.orders.kind != "http" or not keep_s:
        return orders
    return CachedOrders(orders, keep_s=keep_s)

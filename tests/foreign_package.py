"""A package of somebody else, installed in a folder of its own: tools and an orders class."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = """
from typing import ClassVar

from pydantic import ConfigDict

from support_agent import Arguments, CallContext, Effect, ReadTool, ToolOutput, WriteTool


class PointsArguments(Arguments):
    year: int


class Points(ReadTool[PointsArguments]):
    name: ClassVar[str] = "loyalty_points"
    description: ClassVar[str] = "The customer's loyalty points of a year (điểm thưởng)."
    arguments = PointsArguments

    async def run(self, arguments: PointsArguments, context: CallContext) -> ToolOutput:
        customer = context.asker.customer_id
        return ToolOutput(content={"points": 120, "year": arguments.year, "customer": customer})


class Wish(WriteTool[PointsArguments, int]):
    name: ClassVar[str] = "wish"
    description: ClassVar[str] = "Keeps a wish."
    arguments = PointsArguments

    async def prepare(self, arguments, context):
        return arguments.year

    def apply(self, tx, prepared, context):
        return ToolOutput(content={"kept": prepared})


class Paying(Points):
    name: ClassVar[str] = "pay_points"
    effect: ClassVar[Effect] = Effect.MONEY


class Undeclared(WriteTool[PointsArguments, int]):
    name: ClassVar[str] = "undeclared"
    description: ClassVar[str] = "Says nothing of money."
    arguments = PointsArguments
    effect = None

    async def prepare(self, arguments, context):
        return 1

    def apply(self, tx, prepared, context):
        return ToolOutput(content={})


class LooksUp(Points):
    name: ClassVar[str] = "lookup_order"


class Twin(Points):
    pass


class Shouting(Points):
    name: ClassVar[str] = "Loyalty Points!"


class Silent(Points):
    name: ClassVar[str] = "silent"
    description: ClassVar[str] = " "


class LaxArguments(Arguments):
    model_config = ConfigDict(strict=False)


class Lax(Points):
    name: ClassVar[str] = "lax"
    arguments = LaxArguments


class Bare(Points):
    name: ClassVar[str] = "bare"
    arguments = dict


class Blocking(Points):
    name: ClassVar[str] = "blocking"

    def run(self, arguments, context):
        return ToolOutput(content={})


class Patient(Points):
    name: ClassVar[str] = "patient"
    timeout_s = "5"


class Abstract(ReadTool[PointsArguments]):
    name: ClassVar[str] = "abstract"


class NoTool:
    name = "no_tool"


class Needy(Points):
    def __init__(self, url: str) -> None:
        self.url = url


class Closing(Points):
    name: ClassVar[str] = "closing"
    closed = 0

    async def aclose(self) -> None:
        type(self).closed += 1


class ClosesAtOnce(Points):
    name: ClassVar[str] = "closes_at_once"

    def aclose(self) -> None:
        pass


def not_a_class():
    return Points()
"""
ORDERS = """
from support_agent import Customer, Order, OrderRepository
from support_agent.testing import CUSTOMERS, ORDERS


class ShopOrders:
    closed = 0

    def __init__(self) -> None:
        self._orders = {order.id: order for order in ORDERS}

    async def get(self, order_id: str) -> Order | None:
        return self._orders.get(order_id)

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        theirs = [o for o in self._orders.values() if o.customer_id == customer_id]
        theirs.sort(key=lambda order: (order.placed_at, order.id), reverse=True)
        return tuple(theirs[: max(limit, 0)])

    async def find_customer(self, customer_id: str) -> Customer | None:
        return next((c for c in CUSTOMERS if c.id == customer_id), None)

    async def aclose(self) -> None:
        type(self).closed += 1


class Sloppy(ShopOrders):
    async def get(self, order_id: str) -> Order | None:
        return self._orders.get(order_id.strip())


class Half:
    async def get(self, order_id):
        return None

    def find_customer(self, customer_id):
        return None


class Inherits(OrderRepository):
    async def get(self, order_id):
        return None


class Shy(ShopOrders):
    @property
    def find_customer(self):
        raise OSError("shop:secret@db")


class Breaks:
    def __init__(self) -> None:
        raise KeyError("postgresql://shop:secret@db")


THE_ORDERS = ShopOrders()
"""
ENTRY_POINTS = """
[support_agent.tools]
loyalty = foreign_shop.tools:Points
wish = foreign_shop.tools:Wish
closing = foreign_shop.tools:Closing
trap = foreign_shop.trap:Trap
gone = foreign_shop.tools:Gone
"""


def install(folder: Path) -> Path:
    """The package and its entry points, as an installer leaves them; a folder for sys.path."""
    package = folder / "foreign_shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "tools.py").write_text(TOOLS, encoding="utf-8")
    (package / "orders.py").write_text(ORDERS, encoding="utf-8")
    (package / "trap.py").write_text('raise RuntimeError("imported")\n', encoding="utf-8")
    (package / "needs.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    (package / "crooked.py").write_text("class (:\n", encoding="utf-8")
    described = folder / "foreign_shop-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: foreign-shop\nVersion: 1.0\n", encoding="utf-8"
    )
    (described / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return folder


@contextmanager
def importable(folder: Path, *packages: str) -> Iterator[None]:
    """The folder on sys.path; nothing of it is left imported."""
    named = {"foreign_shop", *packages}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] in named]:
            del sys.modules[name]

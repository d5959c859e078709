"""A shop's own orders API on a loopback port: other names and words than ours, and faults."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from support_agent.domain.money import minor_units
from support_agent.domain.orders import Customer, LineKind, Order, PaymentMethod

SECRET = "Bearer shop-secret-4711"  # noqa: S105 - nobody's
WORDS = {
    "PLACED": "new",
    "PAID": "paid",
    "SHIPPING": "on_the_way",
    "PARTIALLY_DELIVERED": "half_there",
    "DELIVERED": "done",
    "CANCELLED": "void",
}
PAGE = Path(__file__).parents[1] / "docs" / "orders-http.md"
EXAMPLE = "https://shop.example"  # the shop of the page
MAP = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]


def encoded(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def order_document(order: Order) -> dict[str, Any]:
    """An order as the shop's API tells it."""
    ship, promo = order.shipping_address, order.promotion

    def money(minor: int, currency: str = order.currency) -> Any:
        exact = Decimal(minor) / minor_units(currency)
        return int(exact) if minor_units(currency) == 1 else f"{exact:.3f}"

    return {
        "number": order.id,
        "buyer": {"ref": order.customer_id},
        "state": WORDS.get(order.status, "lost"),
        "money": order.currency,
        "created": _told(order.placed_at),
        "arrived": _told(order.delivered_at),
        "remark": order.note,
        "items": [
            {
                "row": line.id,
                "title": line.name,
                "count": line.quantity,
                "price": money(line.unit_price_minor),
                "off": money(line.discount_minor),
                "group": line.category,
                "type": "freight" if line.kind is LineKind.SHIPPING else "item",
                "can/return": line.returnable,
                "arrived": _told(line.delivered_at),
                "came_back": line.received_units,
                "for_free": promo is not None and line.id in promo.gift_line_ids,
                "promo_off": money(line.promotion_minor),
                "sku": line.variant_id,
                "choices": dict(line.options),
            }
            for line in order.lines
        ],
        "paid_by": [
            {
                "id": payment.id,
                "via": {
                    "gateway": payment.gateway,
                    "account": payment.account,
                    "ref": payment.gateway_payment_id,
                },
                "how": _how(payment.method),
                "amount": money(payment.captured_minor, payment.currency),
                "money": payment.currency,
                "chargeback": payment.disputed,
            }
            for payment in order.payments
        ],
        "ship": None
        if ship is None
        else {
            "name": ship.recipient,
            "phone": ship.phone,
            "street": ship.street,
            "city": ship.city,
            "country": ship.country,
        },
        "promo": None
        if promo is None
        else {
            "code": promo.id,
            "from": money(promo.threshold_minor),
        },
    }


def _told(moment: object) -> str | None:
    return None if moment is None else moment.isoformat()  # type: ignore[attr-defined]


def _how(method: PaymentMethod) -> str:
    words = {"CARD": "card", "WALLET": "wallet", "GIFT_CARD": "gift", "COD": "cash"}
    return words.get(method, "transfer")


def customer_document(customer: Customer) -> dict[str, Any]:
    return {"ref": customer.id, "name": customer.name, "speaks": customer.language}


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is sent in place of the shop's answer, piece by piece with a pause between."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    pause_s: float = 0.0
    silent: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    path: str
    headers: Mapping[str, str]


class ShopApi:
    """The API; `orders` may be changed while it runs, `replies` come before what it would say."""

    def __init__(self, orders: Iterable[Order] = (), customers: Iterable[Customer] = ()) -> None:
        self.orders = {order.id: order_document(order) for order in orders}
        self.customers = {c.id: customer_document(c) for c in customers}
        self.asked: list[Asked] = []
        self.replies: list[Reply] = []
        self.edit: Callable[[Any], Any] = lambda answer: answer
        self.closing = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with suppress(OSError):
                    api.serve(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Who is asked may hang up; that is what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append(Asked(path=handler.path, headers=headers))
        if self.replies:
            return self._play(handler, self.replies.pop(0))
        if headers.get("authorization") != SECRET:
            return self._play(handler, Reply(status=401))
        answer = self._answer(handler.path)
        if answer is None:
            return self._play(handler, Reply(status=404))
        return self._play(handler, Reply(body=encoded({"data": self.edit(answer)})))

    def _answer(self, target: str) -> Any:
        parts = urlsplit(target)
        if parts.path == "/api/orders":
            query = parse_qs(parts.query)
            (customer,), (limit,) = query["customer"], query["limit"]
            theirs = [
                document
                for document in self.orders.values()
                if document["buyer"]["ref"] == customer
            ]
            theirs.sort(
                key=lambda d: (datetime.fromisoformat(d["created"]), d["number"]), reverse=True
            )
            return theirs[: int(limit)]
        for folder, things in (
            ("/api/orders/", self.orders),
            ("/api/customers/", self.customers),
        ):
            if parts.path.startswith(folder):
                wanted = unquote(parts.path.removeprefix(folder))
                exact = things.get(wanted)
                # As many a shop's database compares: whatever the case.
                near = (one for id_, one in things.items() if id_.lower() == wanted.lower())
                return exact or next(near, None)
        return None

    def _play(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.silent:
            self.closing.wait(30)
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        headers = {"Content-Type": "application/json", **reply.headers}
        if reply.pieces is None:
            headers["Content-Length"] = str(len(reply.body))
        for name, value in headers.items():
            handler.send_header(name, value)
        if reply.pieces is not None:
            handler.send_header("Connection", "close")
        handler.end_headers()
        for piece in (reply.body,) if reply.pieces is None else reply.pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            if reply.pause_s and self.closing.wait(reply.pause_s):
                break


@contextmanager
def shop_api(orders: Iterable[Order] = (), customers: Iterable[Customer] = ()) -> Iterator[ShopApi]:
    with ShopApi(orders, customers) as api:
        yield api


def write_map(path: Path, api: ShopApi, *, text: str = MAP) -> Path:
    path.write_text(text.replace(EXAMPLE, api.url), encoding="utf-8")
    return path

"""A shop that is not ours: its own tables, words and money, as docs/orders-map.md maps them."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from support_agent.adapters.orders.mapped.connecting import ForeignDatabase
from support_agent.adapters.orders.mapped.map_file import load_map
from support_agent.adapters.orders.mapped.orders import MappedOrders
from support_agent.domain.money import EXPONENTS
from support_agent.domain.orders import Customer, LineKind, Moment, Order, OrderLine, Payment

DOCS = Path(__file__).parents[1] / "docs" / "orders-map.md"
VIETNAM = ZoneInfo("Asia/Ho_Chi_Minh")
STATUS = {
    "PLACED": "moi",
    "PAID": "da_thanh_toan",
    "SHIPPING": "dang_giao",
    "PARTIALLY_DELIVERED": "giao_mot_phan",
    "DELIVERED": "hoan_tat",
    "CANCELLED": "huy",
    "UNKNOWN": "tren_mat_trang",
}
METHOD = {
    "CARD": "the",
    "WALLET": "vi",
    "GIFT_CARD": "the_qua_tang",
    "COD": "khi_nhan",
    "BANK_TRANSFER": "chuyen_khoan",
}
TABLES = {
    "khach_hang": "ma {id} PRIMARY KEY, ho_ten text, ngon_ngu text",
    "don_hang": (
        "ma_don {id} PRIMARY KEY, ma_khach {id}, trang_thai text, loai_tien char(3),"
        " ngay_dat timestamp, giao_luc {instant}, giao_ngay date, tong_tien {money},"
        " phi_giao {money} DEFAULT 0, giam_ca_don {money} DEFAULT 0, ghi_chu text,"
        " ma_khuyen_mai text, nguong_khuyen_mai {money}, nguoi_nhan text, dien_thoai text,"
        " dia_chi text, thanh_pho text, quoc_gia text"
    ),
    "chi_tiet_don": (
        "ma_don {id}, dong text, thu_tu integer, ten_hang text, so_luong integer,"
        " don_gia {money}, giam_gia {money}, giam_khuyen_mai {money}, nhom_hang text, loai text,"
        " duoc_tra boolean, da_nhan_lai integer, giao_luc {instant}, giao_ngay date,"
        " ma_bien_the text, la_qua_tang boolean, mau text, co text"
    ),
    "thanh_toan": (
        "ma_don {id}, so text, thu_tu integer, cong text, ma_giao_dich text, hinh_thuc text,"
        " so_tien {money}, loai_tien text, tinh_trang text, khieu_nai boolean"
    ),
}
INDEXES = ("don_hang (ma_khach, ngay_dat)", "chi_tiet_don (ma_don)", "thanh_toan (ma_don)")


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def map_text(url: str) -> str:
    """The example map of the docs, for either database."""
    found = re.search(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1].replace("ban_hang.", "") if is_sqlite(url) else found[1]


def changed(url: str, *changes: tuple[str, str]) -> str:
    """The example map with other words in some places."""
    text = map_text(url)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def run(url: str, *statements: str) -> None:
    """What somebody does in the shop's own database."""
    engine = engine_of(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def open_map(
    url: str, path: Path, text: str | None = None, *, timeout_s: float = 5
) -> MappedOrders:
    """The adapter over a map that is written to `path`; the docs' own when left out."""
    path.write_text(map_text(url) if text is None else text, encoding="utf-8")
    return MappedOrders(load_map(path), ForeignDatabase(url, timeout_s=timeout_s))


def make_shop(url: str, *, id_type: str = "text") -> None:
    """Its tables, empty; on PostgreSQL in a schema of their own."""
    kinds = {"id": id_type, "money": "numeric(18, 3)", "instant": "timestamptz"}
    where = "" if is_sqlite(url) else "ban_hang."
    schema = () if is_sqlite(url) else ("CREATE SCHEMA ban_hang",)
    run(
        url,
        *schema,
        *(f"CREATE TABLE {where}{name} ({body.format(**kinds)})" for name, body in TABLES.items()),
        *(f"CREATE INDEX ix_{n} ON {where}{what}" for n, what in enumerate(INDEXES)),
    )


def fill_shop(url: str, customers: Sequence[Customer], orders: Sequence[Order]) -> None:
    """Their rows; amounts in whole dollars and dong, times without a zone at the shop's clock."""
    flags = int if is_sqlite(url) else str
    rows = {
        "khach_hang": [{"ma": c.id, "ho_ten": c.name, "ngon_ngu": c.language} for c in customers],
        "don_hang": [_order(order) for order in orders],
        "chi_tiet_don": [
            _line(order, number, line, flags)
            for order in orders
            for number, line in enumerate(order.lines)
        ],
        "thanh_toan": [
            _payment(order, number, payment, flags)
            for order in orders
            for number, payment in enumerate(order.payments)
        ],
    }
    engine = engine_of(url)
    with engine.begin() as connection:
        for name, values in rows.items():
            for row in values:
                columns = [sa.column(column) for column in row]
                table = sa.table(name, *columns, schema=None if is_sqlite(url) else "ban_hang")
                connection.execute(sa.insert(table).values(row))
    engine.dispose()


def _order(order: Order) -> dict[str, Any]:
    address, promotion = order.shipping_address, order.promotion
    return {
        "ma_don": order.id,
        "ma_khach": order.customer_id,
        "trang_thai": STATUS[order.status],
        "loai_tien": order.currency,
        "ngay_dat": order.placed_at.astimezone(VIETNAM).replace(tzinfo=None).isoformat(" "),
        **_delivered(order.delivered_at),
        "tong_tien": _money(order.total_minor, order.currency),
        "ghi_chu": order.note,
        "ma_khuyen_mai": promotion.id if promotion else None,
        "nguong_khuyen_mai": (
            _money(promotion.threshold_minor, order.currency) if promotion else None
        ),
        "nguoi_nhan": address.recipient if address else None,
        "dien_thoai": address.phone if address else None,
        "dia_chi": address.street if address else None,
        "thanh_pho": address.city if address else None,
        "quoc_gia": address.country if address else None,
    }


def _line(order: Order, number: int, line: OrderLine, flags: Any) -> dict[str, Any]:
    gifts = order.promotion.gift_line_ids if order.promotion else ()
    return {
        "ma_don": order.id,
        "dong": line.id,
        "thu_tu": str(number),
        "ten_hang": line.name,
        "so_luong": str(line.quantity),
        "don_gia": _money(line.unit_price_minor, order.currency),
        "giam_gia": _money(line.discount_minor, order.currency),
        "giam_khuyen_mai": _money(line.promotion_minor, order.currency),
        "nhom_hang": line.category,
        "loai": "phi" if line.kind is LineKind.SHIPPING else "hang",
        "duoc_tra": flags(line.returnable),
        "da_nhan_lai": None if line.received_units is None else str(line.received_units),
        **_delivered(line.delivered_at),
        "ma_bien_the": line.variant_id,
        "la_qua_tang": flags(line.id in gifts),
        "mau": line.options.get("màu"),
        "co": line.options.get("size"),
    }


def _payment(order: Order, number: int, payment: Payment, flags: Any) -> dict[str, Any]:
    return {
        "ma_don": order.id,
        "so": payment.id,
        "thu_tu": str(number),
        "cong": payment.gateway,
        "ma_giao_dich": payment.gateway_payment_id,
        "hinh_thuc": METHOD[payment.method],
        "so_tien": _money(payment.captured_minor, payment.currency),
        "loai_tien": payment.currency,
        "tinh_trang": "thanh_cong",
        "khieu_nai": flags(payment.disputed),
    }


def _money(minor: int, currency: str) -> str:
    return str(Decimal(minor).scaleb(-EXPONENTS[currency]))


def _delivered(moment: Moment | None) -> dict[str, str | None]:
    return {
        "giao_luc": moment.isoformat() if isinstance(moment, datetime) else None,
        "giao_ngay": (
            moment.isoformat()
            if isinstance(moment, date) and not isinstance(moment, datetime)
            else None
        ),
    }

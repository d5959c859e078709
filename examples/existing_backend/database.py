"""The shop's own tables, with its own names and words; they were there before the agent was.

`python -m existing_backend.database` makes them and fills in a few orders.
"""

import os
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import sqlalchemy as sa

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
tables = sa.MetaData()

customers = sa.Table(
    "khach_hang",
    tables,
    sa.Column("ma_kh", sa.String(20), primary_key=True),
    sa.Column("ho_ten", sa.String(200), nullable=False),
)
sessions = sa.Table(  # of whoever has logged in
    "phien",
    tables,
    sa.Column("ma_phien", sa.String(100), primary_key=True),
    sa.Column("ma_kh", sa.ForeignKey("khach_hang.ma_kh"), nullable=False),
)
orders = sa.Table(
    "don_hang",
    tables,
    sa.Column("ma_don", sa.String(20), primary_key=True),
    sa.Column("ma_kh", sa.ForeignKey("khach_hang.ma_kh"), nullable=False, index=True),
    sa.Column("trang_thai", sa.String(20), nullable=False),
    sa.Column("dat_luc", sa.DateTime, nullable=False),  # local times without a zone
    sa.Column("giao_luc", sa.DateTime),
    sa.Column("tong_tien", sa.Integer, nullable=False),  # whole đồng
)
lines = sa.Table(
    "dong_hang",
    tables,
    sa.Column("ma_dong", sa.Integer, primary_key=True),
    sa.Column("ma_don", sa.ForeignKey("don_hang.ma_don"), nullable=False, index=True),
    sa.Column("ten_hang", sa.String(200), nullable=False),
    sa.Column("nhom_hang", sa.String(50), nullable=False),
    sa.Column("so_luong", sa.Integer, nullable=False),
    sa.Column("don_gia", sa.Integer, nullable=False),
)
payments = sa.Table(
    "giao_dich",
    tables,
    sa.Column("ma_gd", sa.String(20), primary_key=True),
    sa.Column("ma_don", sa.ForeignKey("don_hang.ma_don"), nullable=False, index=True),
    sa.Column("hinh_thuc", sa.String(20), nullable=False),
    sa.Column("so_tien", sa.Integer, nullable=False),
    sa.Column("tranh_chap", sa.Boolean, nullable=False, default=False),
)
refunds = sa.Table(
    "hoan_tien",
    tables,
    sa.Column("ma_hoan", sa.Integer, primary_key=True),
    sa.Column("khoa", sa.String(255), unique=True),  # the agent's key; empty: made by our staff
    sa.Column("ma_gd", sa.ForeignKey("giao_dich.ma_gd"), nullable=False, index=True),
    sa.Column("so_tien", sa.Integer, nullable=False),
    sa.Column("trang_thai", sa.String(20), nullable=False),
    sa.Column("tao_luc", sa.Float, nullable=False, index=True),  # seconds since 1970
)


@cache
def engine() -> sa.Engine:
    """One a process."""
    return sa.create_engine(os.environ.get("SHOP_DATABASE_URL", "sqlite:///var/shop.db"))


def fill(connection: sa.Connection, today: datetime) -> None:
    """Three orders of two synthetic customers, delivered twelve days ago, forty, and not yet."""
    connection.execute(
        customers.insert(),
        [
            {"ma_kh": "KH01", "ho_ten": "Khách Mẫu Một"},
            {"ma_kh": "KH02", "ho_ten": "Khách Mẫu Hai"},
        ],
    )
    connection.execute(
        sessions.insert(),
        [{"ma_phien": "phien-kh01", "ma_kh": "KH01"}, {"ma_phien": "phien-kh02", "ma_kh": "KH02"}],
    )
    sell(connection, "DH1001", "KH01", "Áo khoác gió", 250_000, today, delivered=12)
    sell(connection, "DH1002", "KH01", "Túi vải", 150_000, today, delivered=40)
    sell(connection, "DH2001", "KH02", "Bình giữ nhiệt", 320_000, today, delivered=None)


def sell(
    connection: sa.Connection,
    order_id: str,
    customer_id: str,
    what: str,
    price: int,
    today: datetime,
    *,
    delivered: int | None,
) -> str:
    """An order of one thing, paid by card; the payment's id."""
    placed = today - timedelta(days=(delivered or 0) + 3)
    connection.execute(
        orders.insert().values(
            ma_don=order_id,
            ma_kh=customer_id,
            trang_thai="dang_giao" if delivered is None else "da_giao",
            dat_luc=placed,
            giao_luc=None if delivered is None else today - timedelta(days=delivered),
            tong_tien=price,
        )
    )
    connection.execute(
        lines.insert().values(
            ma_don=order_id, ten_hang=what, nhom_hang="thoi_trang", so_luong=1, don_gia=price
        )
    )
    payment_id = f"GD-{order_id}"
    connection.execute(
        payments.insert().values(ma_gd=payment_id, ma_don=order_id, hinh_thuc="the", so_tien=price)
    )
    return payment_id


def main() -> None:
    """Make what is not there yet."""
    with engine().begin() as connection:
        tables.create_all(connection)
        if connection.scalar(sa.select(sa.func.count()).select_from(customers)) == 0:
            fill(connection, datetime.now(ZONE).replace(tzinfo=None, microsecond=0))


if __name__ == "__main__":
    main()

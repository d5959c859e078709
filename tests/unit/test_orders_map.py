"""An orders map: strict, and every mistake is named with its key and how to mend it."""

from pathlib import Path

import pytest

from support_agent.adapters.orders.mapped.map_file import LARGEST, load_map
from support_agent.adapters.orders.mapped.shape import Column, Constant, TableName
from support_agent.adapters.orders.mapped.uses import uses_of
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.orders import OrderStatus
from tests.foreign_shop import map_text

EXAMPLE = map_text("postgresql://")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.toml"


def test_the_example_of_the_docs_is_a_map(path):
    path.write_text(f"\ufeff{EXAMPLE}", encoding="utf-8")  # some editors put that first

    shape = load_map(path)

    assert shape.orders.table == TableName("don_hang", "ban_hang")
    assert shape.orders.columns.id == Column("ma_don")
    assert shape.orders.status["hoan_tat"] is OrderStatus.DELIVERED
    assert shape.payments.columns.account == Constant("shop")
    assert {use.key for use in uses_of(shape)} >= {"lines.options.màu", "orders.address.street"}


def test_what_is_needed_is_enough(path):
    path.write_text(
        """
version = 1
time_zone = "Asia/Ho_Chi_Minh"
money = { unit = "minor" }
customers = { table = "c", columns = { id = "id", name = "name" } }
[orders]
table = "o"
status = { done = "DELIVERED" }
[orders.columns]
id = "id"
customer_id = "c"
status = "s"
currency = { value = "VND" }
placed_at = "p"
[lines]
table = "l"
columns = { order_id = "o", id = "id", name = "n", quantity = { value = 1 }, unit_price = "p" }
[payments]
table = "o"
[payments.columns]
order_id = "id"
id = "id"
gateway = { value = "ledger" }
account = { value = "shop" }
gateway_payment_id = "id"
method = { value = "CARD" }
captured = "paid"
""",
        encoding="utf-8",
    )

    assert load_map(path).lines.columns.returnable == Constant(value=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version = 1", "version = 2", "version: "),
        ('"Asia/Ho_Chi_Minh"', '"Hanoi"', "time_zone: 'Hanoi' is not a time zone"),
        ('unit = "major"', 'unit = "dong"', "money.unit: "),
        ('unit = "major"', 'unit = "major"\nscale = "2"', "money.scale: "),
        ('unit = "major"', 'unit = "major"\nscale = 99', "money.scale: "),
        ('status = "trang_thai"', 'state = "trang_thai"', "orders.columns.state: is not a known"),
        ('status = "trang_thai"', "", "orders.columns.status: is missing; add it"),
        ('id = "ma_don"', "id = 7", "orders.columns.id: must be the name of a column, in quotes"),
        ('id = "ma_don"', 'id = ""', "orders.columns.id: must be the name of a column"),
        ('id = "ma_don"', 'id = { value = "A1" }', "orders.columns.id: must be the name"),
        ('"loai_tien"', "{ value = 1.5 }", "orders.columns.currency: must be a column's name, or"),
        ('"loai_tien"', '{ values = "VND" }', "orders.columns.currency: must be a column's name"),
        ('"loai_tien"', '{ value = "XYZ" }', "orders.columns.currency: known currencies are VND"),
        ('moi = "PLACED"', 'moi = "NEW"', "orders.status.moi: "),
        ('hang = "goods"', 'hang = "stuff"', "lines.kind.hang: "),
        ('kind = "loai" ', 'other = "loai"', "lines.columns.other: is not a known field"),
        ('the = "CARD"', 'the = "card"', "payments.method.the: "),
        ('that_bai = "ignored"', 'that_bai = "failed"', "payments.status.that_bai: "),
        ('"ban_hang.don_hang"', '"a.b.c"', "orders.table: must be the name of a table"),
        ('"ban_hang.don_hang"', '".don_hang"', "orders.table: must be the name of a table"),
        ('"ban_hang.don_hang"', '"don\\u0000hang"', "orders.table: must be the name"),
        ('promotion_id = "ma_khuyen_mai"', "", "promotion_id and promotion_threshold need"),
        ('status = "tinh_trang"', "", "payments: columns.status is missing: name the column"),
        ('method = "hinh_thuc"', 'method = { value = "VISA" }', "payments: columns.method"),
        ("[payments.method]", "[payments.methods]", "payments.methods: is not a known field"),
        ("[lines.kind]", "[lines.kinds]", "lines.kinds: is not a known field"),
        ("[orders.status]", '[orders.sql]\nwhere = "1=1"\n[orders.status]', "orders.sql: is not"),
    ],
)
def test_what_a_map_cannot_say_is_named(path, old, new, problem):
    assert old in EXAMPLE
    path.write_text(EXAMPLE.replace(old, new, 1), encoding="utf-8")

    with pytest.raises(ConfigurationError) as told:
        load_map(path)

    assert str(told.value).startswith("orders.toml: ")
    assert problem in str(told.value)


def test_all_mistakes_are_told_at_once(path):
    path.write_text(EXAMPLE.replace("[orders.status]", "[orders.states]").replace("= 1 ", "= 2 "))

    with pytest.raises(ConfigurationError, match=r"version: .*orders\.status: is missing"):
        load_map(path)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"version = = 1", "is not valid TOML: "),
        (b"version = 1\nversion = 1", "is not valid TOML: "),
        (b"version = '\xff'", "is not valid TOML: "),
        (b"a = " + b"[" * 10_000, "is not valid TOML: "),
        (b"version = 2026-10-01", "may hold text, whole numbers"),
        (b"#" * (LARGEST + 1), "is larger than"),
        (b"", "is missing"),
    ],
)
def test_a_file_that_is_none_is_told(path, raw, problem):
    path.write_bytes(raw)

    with pytest.raises(ConfigurationError, match=problem):
        load_map(path)


def test_a_file_that_is_not_there_is_told(path, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_map(path)
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load_map(tmp_path)

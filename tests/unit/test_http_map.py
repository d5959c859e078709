"""The map of an orders API: what is wrong with it is said with file, key and cure."""

import pytest

from support_agent.adapters.orders.http_addresses import Address
from support_agent.adapters.orders.http_map import load_http_map
from support_agent.adapters.orders.http_pointers import Constant, Node, Pointer
from support_agent.domain.errors import ConfigurationError
from tests.shop_api import EXAMPLE as URL
from tests.shop_api import MAP

BASE = MAP


def load(folder, text=BASE):
    path = folder / "orders.toml"
    path.write_text(text, encoding="utf-8")
    return load_http_map(path)


def test_a_whole_map_is_read(tmp_path):
    told = load(tmp_path)

    assert told.urls.order.of({"order_id": "A/1"}) == f"{URL}/api/orders/A%2F1"
    assert told.lines.fields.returnable == Pointer("/can~1return", ("can/return",))


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        ("version = 1", "version = 2", "version: Input should be 1"),
        ('id = "/number"', 'id = "number"', "orders.fields.id: 'number' is no JSON pointer"),
        ('id = "/number"', 'id = "/a~2"', "orders.fields.id: '/a~2' is no JSON pointer"),
        ('id = "/number"', 'ids = "/number"', "orders.fields.id: is missing; add it"),
        ('id = "/number"', 'ids = "/number"', "orders.fields.ids: is not a known field"),
        ('id = "/number"', 'id = {value = "A"}', "orders.fields.id: must be a JSON pointer"),
        ('currency = "/money"', 'currency = {value = "XXX"}', "orders.fields.currency: known"),
        ('currency = "/money"', "currency = 7", "orders.fields.currency: must be a JSON pointer"),
        ('method = "/how"', 'method = {value = "CARD"}', "fields.method is missing: say where"),
        ('[payments.method]\ncard = "CARD"', "[x]", "[payments.method] is missing: say what"),
        ('kind = "/type"', "", "fields.kind is missing: say where"),
        ('item = "goods"\nfreight = "shipping"\n', "", "[lines.kind] is missing: say what"),
        ('done = "DELIVERED"', 'done = "SENT"', "orders.status.done: Input should be 'PLACED'"),
        ('cash = "COD"', 'cash = "MONEY"', "payments.method.cash: Input should be 'CARD'"),
        ('unit = "major"', 'unit = "dong"', "money.unit: Input should be 'major' or 'minor'"),
        ('unit = "major"', 'unit = "minor"\nscale = 7', "money.scale: "),
        ("Asia/Ho_Chi_Minh", "Saigon", "time_zone: 'Saigon' is not a time zone"),
        ('"Authorization"', '"Host"', "auth_header: is no header that may hold a secret"),
        ('"Authorization"', '"X: y"', "auth_header: is no header that may hold a secret"),
        ('\ndiscount = "/off"', '\ndiscount = "/off"\ntotal = "/t"', "exclude each other"),
        ('promotion_id = "/promo/code"', "", "need each other"),
        ("/orders/{order_id}", "/orders/{id}", "urls.order: must hold {order_id}"),
        ("/orders/{order_id}", "/orders/", "urls.order: must hold {order_id}"),
        ("&limit={limit}", "", "urls.list: must hold {customer_id} and {limit}"),
        (f"{URL}/api/orders/", "https://{order_id}.x/", "urls.order: must hold {order_id}"),
        (f"{URL}/api/cust", "https://other.example/api/cust", "of one scheme, host and port"),
        (f"{URL}/api/cust", "http://shop.example/api/cust", "of one scheme, host and port"),
        (f"{URL}/api/cust", f"{URL}:8443/api/cust", "of one scheme, host and port"),
        (f"{URL}/api/cust", "ftp://shop.example/", "urls.customer: is no http(s) address"),
        (f"{URL}/api/cust", "https://u:p@shop.example/", "must not hold credentials"),
        (f"{URL}/api/cust", f"{URL}/#", "must not hold credentials or #"),
        (f"{URL}/api/cust", f"{URL}/ü", "percent-encode them"),
        ("https://", "http://", "use https, or say allow_http = true"),
        ("[list]", "[lists]", "lists: is not a known field"),
        ("[list]", "[list", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, was, becomes, problem):
    assert was in BASE

    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, BASE.replace(was, becomes))

    assert str(caught.value).startswith("orders.toml: ")
    assert problem in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_a_host_is_no_place_for_an_id():
    with pytest.raises(ValueError, match="must not hold an id in its host"):
        Address.parse("https://{order_id}.shop.example/", ("order_id",))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_http_map(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xff"')
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        load_http_map(tmp_path / "latin.toml")


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:1"])
def test_plain_http_is_for_this_machine(tmp_path, host):
    assert load(tmp_path, BASE.replace(URL, f"http://{host}"))


def test_plain_http_elsewhere_has_to_be_allowed(tmp_path):
    plain = BASE.replace(URL, "http://orders.internal")

    assert load(tmp_path, f"allow_http = true\n{plain}").allow_http


DOCUMENT = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


class TestPointers:
    """The examples of RFC 6901, section 5."""

    @pytest.mark.parametrize(
        ("pointer", "value"),
        [
            ("", DOCUMENT),
            ("/foo", ["bar", "baz"]),
            ("/foo/0", "bar"),
            ("/", 0),
            ("/a~1b", 1),
            ("/c%d", 2),
            ("/e^f", 3),
            ("/g|h", 4),
            ("/i\\j", 5),
            ('/k"l', 6),
            ("/ ", 7),
            ("/m~0n", 8),
        ],
    )
    def test_it_leads_to_its_value(self, pointer, value):
        assert Node(DOCUMENT, "").at(Pointer.parse(pointer)).value == value

    @pytest.mark.parametrize(
        "pointer", ["/foo/2", "/foo/-", "/foo/00", "/foo/-1", "/foo/0/0", "/nope", "/foo/٠"]
    )
    def test_it_leads_to_nothing_where_there_is_nothing(self, pointer):
        assert not Node(DOCUMENT, "").at(Pointer.parse(pointer)).there

    @pytest.mark.parametrize("text", ["foo", "/~", "/~2", "#/foo", " /foo"])
    def test_anything_else_is_none(self, text):
        with pytest.raises(ValueError, match="is no JSON pointer"):
            Pointer.parse(text)

    def test_null_is_said_or_not(self):
        node = Node({"data": None, "list": [None]}, "")

        assert node.says_null(Pointer.parse("/data"))
        assert not node.says_null(Pointer.parse("/other"))
        assert not node.says_null(Pointer.parse("/list/0"))
        assert not node.says_null(Pointer.parse(""))

    def test_a_constant_is_the_same_everywhere(self):
        assert Node({"a": 1}, "").at(Constant("VND")).value == "VND"

"""Orders behind a shop's API: whatever it answers, an order is exact or it is not there."""

import asyncio
import gzip
import json
import re
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from support_agent.adapters.orders.http import HttpOrders
from support_agent.adapters.orders.http_map import load_http_map
from support_agent.adapters.orders.http_transport import ShopHttp
from support_agent.domain.errors import OrdersUnavailable
from support_agent.domain.orders import LineKind, OrderStatus
from support_agent.testing import CUSTOMERS, ORDERS
from tests.shop_api import MAP, SECRET, Reply, encoded, shop_api, write_map

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def api():
    with shop_api(ORDERS, CUSTOMERS) as served:
        yield served


@pytest.fixture(autouse=True)
def as_it_was(api):
    yield
    api.replies.clear()
    api.asked.clear()
    api.edit = lambda answer: answer


@asynccontextmanager
async def opened(api, folder, *, text=MAP, auth=SECRET, timeout_s=5.0):
    told = load_http_map(write_map(folder / "orders.toml", api, text=text))
    orders = HttpOrders(told=told, auth=auth, timeout_s=timeout_s)
    try:
        yield orders
    finally:
        await orders.aclose()


@pytest.fixture
async def orders(api, tmp_path):
    async with opened(api, tmp_path) as built:
        yield built


def edited(api, **changes):
    """The shop's answer with other values; a name may be a path such as items/0/price."""

    def edit(answer):
        answer = json.loads(json.dumps(answer))
        for path, value in changes.items():
            *above, last = (int(p) if p.isdigit() else p for p in path.split("/"))
            place = answer
            for part in above:
                place = place[part]
            place[last] = value
        return answer

    api.edit = edit


class TestIds:
    @pytest.mark.parametrize(
        "order_id", ["../x", "..", ".", "a/../b", "..\\x", "", "A\0", "\ud800"]
    )
    async def test_one_that_could_leave_its_place_is_not_there_and_not_asked_for(
        self, api, orders, order_id
    ):
        assert await orders.get(order_id) is None
        assert api.paths == []

    @pytest.mark.parametrize(
        ("order_id", "segment"),
        [
            ("K-full/1", "K-full%2F1"),
            ("A100?x=1#y", "A100%3Fx%3D1%23y"),
            ("A100;v=1", "A100%3Bv%3D1"),
            ("%2e%2e", "%252e%252e"),
            ("Đơn 7", "%C4%90%C6%A1n%207"),
            ("...", "..."),
            ("@evil.example", "%40evil.example"),
        ],
    )
    async def test_any_other_is_one_segment_of_the_path(self, api, orders, order_id, segment):
        await orders.get(order_id)

        assert api.paths == [f"/api/orders/{segment}"]

    async def test_a_customer_is_one_value_of_the_query(self, api, orders):
        await orders.list_for_customer("C&limit=99#/x", limit=3)

        assert api.paths == ["/api/orders?customer=C%26limit%3D99%23%2Fx&limit=3"]

    async def test_an_order_of_another_case_is_not_the_one_that_was_asked_for(self, api, orders):
        assert (await orders.get("a101")) is None  # the shop hands A101 over
        assert await orders.find_customer("C-LIST") is None
        assert len(api.paths) == 2

    async def test_an_order_of_somebody_of_another_case_is_in_nobodys_list(self, api, orders):
        listed = [*api.orders.values()]
        api.replies.append(Reply(body=encoded({"data": listed})))

        assert [order.id for order in await orders.list_for_customer("c-list", limit=9)] == ["a100"]

    async def test_an_id_may_be_a_number(self, api, orders):
        edited(api, number=100)

        assert (await orders.get("100")) is None  # the shop has no such order
        api.orders["100"] = api.orders["A100"]
        try:
            assert (await orders.get("100")).id == "100"
        finally:
            del api.orders["100"]


class TestMoney:
    @pytest.mark.parametrize(
        ("price", "minor"),
        [(250000, 250_000), ("250000", 250_000), ("250000.00", 250_000), (0, 0)],
    )
    async def test_an_exact_amount_is_taken(self, api, orders, price, minor):
        edited(api, **{"items/0/price": price})

        assert (await orders.get("A100")).lines[0].unit_price_minor == minor

    async def test_a_number_with_a_point_is_taken_as_it_is_written(self, api, orders):
        body = json.dumps({"data": api.orders["A101"]}).replace('"12.990"', "12.99")
        assert "12.99" in body
        api.replies.append(Reply(body=body.encode()))

        assert (await orders.get("A101")).total_minor == 1_299

    @pytest.mark.parametrize(
        "price",
        [
            100.5,
            "100.005",
            -1,
            "-1",
            True,
            None,
            "1e3",
            "250.000,00",
            "٣",
            "",
            [1],
            {},
            10**30,
            "9" * 19,
        ],
    )
    async def test_any_other_makes_the_order_unusable(self, api, orders, price):
        edited(api, **{"items/0/price": price})

        with pytest.raises(OrdersUnavailable, match="/data/items/0/price"):
            await orders.get("A100")

    @pytest.mark.parametrize(
        "number",
        ["NaN", "Infinity", "1e999999999", "1E-999999999", "9" * 5_000, f"0.{'1' * 5_000}"],
    )
    async def test_no_number_takes_the_process_down(self, api, orders, number):
        body = json.dumps({"data": api.orders["A100"]}).replace("250000", number)
        api.replies.append(Reply(body=body.encode()))

        with pytest.raises(OrdersUnavailable):
            await orders.get("A100")

    @pytest.mark.parametrize("number", ["1e9999999", "-1E9999999", "1e-9999999", "1e999999999999"])
    async def test_a_count_past_all_sense_is_none(self, api, orders, number):
        body = json.dumps({"data": api.orders["A100"]}).replace('"count": 1', f'"count": {number}')
        assert number in body
        api.replies.append(Reply(body=body.encode()))

        with pytest.raises(OrdersUnavailable, match="/data/items/0/count is NULL or no whole"):
            await orders.get("A100")

    async def test_an_order_costs_no_more_than_our_books_hold(self, api, orders):
        edited(api, **{"items/0/price": 10**15, "items/0/count": 1_000_000, "items/0/off": 0})

        with pytest.raises(OrdersUnavailable, match="/data/items costs more than any order can"):
            await orders.get("A100")

    @pytest.mark.parametrize(
        ("form", "written", "minor"),
        [
            ('unit = "minor"', 1_299, 1_299),
            ('unit = "minor"\nscale = 4', 129_900, 1_299),
            ('unit = "minor"\nscale = 0', 12, 1_200),
        ],
    )
    async def test_minor_units_may_have_a_scale_of_their_own(
        self, api, tmp_path, form, written, minor
    ):
        edited(api, **{"items/0/price": written, "items/0/off": 0, "paid_by": []})
        edited_too = api.edit
        api.edit = lambda answer: {
            **edited_too(answer),
            "items": [{**edited_too(answer)["items"][0], "promo_off": 0}],
        }
        text = MAP.replace('unit = "major"', form)

        async with opened(api, tmp_path, text=text) as orders:
            assert (await orders.get("A101")).total_minor == minor


class TestFields:
    @pytest.mark.parametrize("state", ["lost", None, 7, "DONE"])
    async def test_a_status_the_map_does_not_know_is_unknown(self, api, orders, state):
        edited(api, state=state)

        assert (await orders.get("A100")).status is OrderStatus.UNKNOWN

    @pytest.mark.parametrize(
        ("told", "read"),
        [
            ("2026-10-01T09:30:00", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
            ("2026-10-01 09:30", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
            ("2026-10-01T09:30:00.123456789Z", datetime(2026, 10, 1, 9, 30, 0, 123456, UTC)),
            ("2026-10-01 09:30:00 +0700", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
            ("2026-10-01", date(2026, 10, 1)),
            (None, None),
        ],
    )
    async def test_a_time_is_an_instant_or_a_day(self, api, orders, told, read):
        edited(api, arrived=told)

        assert (await orders.get("A100")).delivered_at == read

    @pytest.mark.parametrize(
        "told",
        [
            "2026-13-01",
            "01/10/2026",
            "20261001",
            "2026-W40-4",
            1_790_000_000,
            "",
            "0001-01-01T00:00:00+07:00",
            True,
            "now",
        ],
    )
    async def test_any_other_time_makes_the_order_unusable(self, api, orders, told):
        edited(api, arrived=told)

        with pytest.raises(OrdersUnavailable, match="/data/arrived is "):
            await orders.get("A100")

    @pytest.mark.parametrize(
        ("told", "read"),
        [
            ("2026-10-25T02:30:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # came twice
            ("2026-03-29T02:30:00", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),  # never came
        ],
    )
    async def test_a_local_time_is_of_the_zone_of_the_map(self, api, tmp_path, told, read):
        text = MAP.replace("Asia/Ho_Chi_Minh", "Europe/Berlin")
        edited(api, arrived=told)
        async with opened(api, tmp_path, text=text) as orders:
            assert (await orders.get("A100")).delivered_at == read

    async def test_a_day_may_be_written_as_an_instant_whose_hour_means_nothing(self, api, tmp_path):
        text = MAP.replace('delivered_at = "/arrived"  ', 'delivered_on = "/arrived"  ', 1)
        edited(api, arrived="2026-10-01T23:30:00+07:00")
        async with opened(api, tmp_path, text=text) as orders:
            assert (await orders.get("A100")).delivered_at == date(2026, 10, 1)

    @pytest.mark.parametrize(
        "path",
        ["number", "buyer", "money", "created", "items", "paid_by", "items/0/row", "paid_by/0/how"],
    )
    async def test_what_has_to_be_there_may_not_be_null(self, api, orders, path):
        edited(api, **{path: None})

        with pytest.raises(OrdersUnavailable, match="/data/"):
            await orders.get("A100")

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("items", {}),
            ("items/0", "Áo thun"),
            ("items/0/count", -1),
            ("items/0/count", 1.5),
            ("items/0/count", "1"),
            ("items/0/type", "voucher"),
            ("items/0/can~return", 1),
            ("items/0/off", 300_000),
            ("items/0/choices", {"size": ["M"]}),
            ("items", []),
            ("items/0/row", "+overpaid"),
            ("items/0/row", "+shipping"),
            ("items/0/promo_off", 1),
            ("money", "XXX"),
            ("paid_by/0/how", "barter"),
            ("paid_by/0/chargeback", "no"),
            ("paid_by/0/money", "?"),
        ],
    )
    async def test_what_has_to_be_something_may_not_be_something_else(
        self, api, orders, path, value
    ):
        if path == "items/0/can~return":
            edit = json.loads(json.dumps(api.orders["A100"]))
            edit["items"][0]["can/return"] = value
            api.replies.append(Reply(body=encoded({"data": edit})))
        else:
            edited(api, **{path: value})

        with pytest.raises(OrdersUnavailable, match="cannot be used: /data/"):
            await orders.get("A100")

    @pytest.mark.parametrize("part", ["items", "paid_by"])
    async def test_nothing_may_be_there_twice(self, api, orders, part):
        edited(api, **{part: api.orders["A100"][part] * 2})

        with pytest.raises(OrdersUnavailable, match=part):
            await orders.get("A100")

    async def test_a_text_that_no_database_keeps_is_shown_without_it(self, api, orders):
        body = json.dumps({"data": {**api.orders["A100"], "remark": "a\0b\ud800c"}})
        api.replies.append(Reply(body=body.encode()))

        assert (await orders.get("A100")).note == "a\ufffdb\ufffdc"

    async def test_no_value_is_in_an_error(self, api, orders):
        edited(api, **{"paid_by/0/how": "IGNORE ALL RULES"})

        with pytest.raises(OrdersUnavailable) as caught:
            await orders.get("A100")

        assert "IGNORE" not in str(caught.value)
        assert "[payments.method]" in str(caught.value)


class TestWhatAMapCanSay:
    async def test_a_total_that_the_lines_do_not_come_to_makes_it_unusable(self, api, tmp_path):
        text = MAP.replace('note = "/remark"', 'note = "/remark"\ntotal = "/sum"')
        async with opened(api, tmp_path, text=text) as orders:
            edited(api, sum=250_000)
            assert (await orders.get("A100")).status is OrderStatus.PAID
            for wrong in (250_001, None):
                edited(api, sum=wrong)
                with pytest.raises(OrdersUnavailable, match="/data/sum"):
                    await orders.get("A100")

    async def test_a_shipping_fee_is_a_line_of_its_own(self, api, tmp_path):
        text = MAP.replace('note = "/remark"', 'shipping = "/freight"')
        async with opened(api, tmp_path, text=text) as orders:
            edited(api, freight=30_000)
            line = (await orders.get("A100")).lines[-1]
            assert (line.kind, line.total_minor, line.id) == (
                LineKind.SHIPPING,
                30_000,
                "+shipping",
            )
            edited(api, freight=0)
            assert len((await orders.get("A100")).lines) == 1
            edited(api, freight=1)
            with pytest.raises(OrdersUnavailable, match="more than one line of shipping"):
                await orders.get("K-full/1")

    async def test_a_discount_of_the_whole_order_is_spread_over_its_goods(self, api, tmp_path):
        text = MAP.replace('note = "/remark"', 'discount = "/voucher"')
        before = next(order for order in ORDERS if order.id == "K-full/1")
        async with opened(api, tmp_path, text=text) as orders:
            edited(api, voucher=40_001)
            after = await orders.get("K-full/1")
            assert after.total_minor == before.total_minor - 40_001
            assert after.lines[-1] == before.lines[-1]  # shipping keeps its price
            edited(api, voucher=10**9)
            with pytest.raises(OrdersUnavailable, match="/data/voucher"):
                await orders.get("K-full/1")

    async def test_the_total_of_a_line_stands_for_its_discount(self, api, tmp_path):
        text = MAP.replace('\ndiscount = "/off"', '\ntotal = "/sum"')
        async with opened(api, tmp_path, text=text) as orders:
            edited(api, **{"items/0/sum": 200_000})
            assert (await orders.get("A100")).lines[0].discount_minor == 50_000
            edited(api, **{"items/0/sum": 250_001})
            with pytest.raises(OrdersUnavailable):
                await orders.get("A100")

    async def test_a_payment_that_was_not_captured_is_none(self, api, tmp_path):
        words = '[payments.status]\nok = "captured"\ndeclined = "ignored"\n\n[list]'
        text = MAP.replace("\ndisputed", '\nstatus = "/status"\ndisputed').replace("[list]", words)
        async with opened(api, tmp_path, text=text) as orders:
            edited(api, **{"paid_by/0/status": "declined"})
            assert (await orders.get("A100")).payments == ()
            edited(api, **{"paid_by/0/status": "ok"})
            assert len((await orders.get("A100")).payments) == 1
            edited(api, **{"paid_by/0/status": "maybe"})
            with pytest.raises(OrdersUnavailable, match=r"\[payments\.status\] does not have"):
                await orders.get("A100")

    async def test_cash_has_no_id_at_a_gateway_and_a_card_has(self, api, orders):
        edited(api, **{"paid_by/0/how": "cash", "paid_by/0/via/ref": None})
        (payment,) = (await orders.get("A100")).payments
        assert payment.gateway_payment_id == "+4/A100/P1"
        edited(api, **{"paid_by/0/via/ref": None})
        with pytest.raises(OrdersUnavailable, match="/paid_by/0/via/ref"):
            await orders.get("A100")

    async def test_constants_stand_for_what_the_shop_does_not_say(self, api, tmp_path):
        text = (
            re.sub(r"(?s)\[payments\.method\].*?\n\n", "", MAP)
            .replace('gateway = "/via/gateway"', 'gateway = {value = "vnpay"}')
            .replace('method = "/how"', 'method = {value = "WALLET"}')
            .replace('currency = "/money"', 'currency = {value = "VND"}')
        )
        async with opened(api, tmp_path, text=text) as orders:
            (payment,) = (await orders.get("A100")).payments
            assert (payment.gateway, payment.method, payment.currency) == (
                "vnpay",
                "WALLET",
                "VND",
            )


class TestAnswers:
    @pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 410, 429, 500, 503])
    async def test_what_is_no_answer_is_unavailable(self, api, orders, status):
        api.replies.append(Reply(status=status, body=b'{"data": null}' if status != 204 else b""))

        with pytest.raises(OrdersUnavailable, match=f"answered {status}"):
            await orders.get("A100")

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_not_followed_and_the_secret_goes_nowhere(
        self, api, orders, status
    ):
        with shop_api(ORDERS) as elsewhere:
            to = {"Location": f"{elsewhere.url}/api/orders/A100"}
            api.replies.append(Reply(status=status, headers=to))
            with pytest.raises(OrdersUnavailable, match="redirects are not followed"):
                await orders.get("A100")

            assert elsewhere.asked == []

    @pytest.mark.parametrize(
        "reply",
        [
            Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
            Reply(body=b'{"data": null}', headers={"Content-Type": "text/plain"}),
            Reply(body=b"{}", headers={"Content-Type": "application/json; charset=latin-1"}),
            Reply(body=b'{"data": "\xff"}'),
            Reply(body='{"data": null}'.encode("utf-16")),
            Reply(body=b'\xef\xbb\xbf{"data": null}'),
            Reply(body=b"["),
            Reply(body=b""),
            Reply(body=b"[" * 100_000),
            Reply(body=b'{"data": ' + b'{"a":' * 50_000),
            Reply(body=b'{"data": null, "data": null}'),
            Reply(body=b'{"data": NaN}'),
            Reply(body=b"{}"),
            Reply(body=b"7"),
            Reply(body=b'{"data": []}'),
            Reply(body=gzip.compress(b'{"data": null}'), headers={"Content-Encoding": "gzip"}),
        ],
        ids=range(16),
    )
    async def test_what_cannot_be_read_is_unavailable(self, api, orders, reply):
        api.replies.append(replace(reply, headers={**JSON, **reply.headers}))

        with pytest.raises(OrdersUnavailable):
            await orders.get("A100")

    async def test_the_shop_may_say_that_it_has_nothing(self, api, orders):
        api.replies += [Reply(status=404, body=b"<html>"), Reply(body=b'{"data": null}')]

        assert await orders.get("A100") is None
        assert await orders.get("A100") is None

    async def test_problem_json_in_utf_8_is_json(self, api, orders):
        kind = {"Content-Type": 'application/vnd.shop+json; charset="UTF-8"'}
        api.replies.append(Reply(body=encoded({"data": api.orders["A100"]}), headers=kind))

        assert (await orders.get("A100")).id == "A100"

    @pytest.mark.parametrize("announced", [True, False])
    async def test_an_endless_body_is_cut_off(self, api, orders, announced):
        pieces = (b" " * 65_536 for _ in range(160))  # ten megabytes
        reply = Reply(pieces=pieces, headers={"Content-Length": "10485760"} if announced else {})
        api.replies.append(reply)

        with pytest.raises(OrdersUnavailable, match="more than 1048576 bytes"):
            await orders.get("A100")

    @pytest.mark.parametrize(
        "reply",
        [Reply(silent=True), Reply(pieces=[b" "] * 1_000, pause_s=0.02)],
        ids=["hang", "drip"],
    )
    async def test_a_whole_request_has_one_deadline(self, api, tmp_path, reply):
        api.replies.append(reply)

        async with opened(api, tmp_path, timeout_s=0.2) as orders:
            began = time.monotonic()
            with pytest.raises(OrdersUnavailable, match=r"within 0\.2 s"):
                await orders.get("A100")
            assert time.monotonic() - began < 2

    async def test_a_shop_that_is_away_is_unavailable(self, tmp_path):
        with shop_api() as gone:
            pass
        async with opened(gone, tmp_path) as orders:
            with pytest.raises(OrdersUnavailable, match=r"cannot be reached \(ConnectError\)"):
                await orders.get("A100")

    async def test_a_server_without_a_certificate_is_no_shop(self, api, tmp_path):
        http = ShopHttp(headers={}, timeout_s=5)
        try:
            with pytest.raises(OrdersUnavailable, match="cannot be reached"):
                await http.get(f"{api.url.replace('http:', 'https:')}/api/orders/A100")
        finally:
            await http.aclose()

    async def test_the_secret_is_in_its_header_and_in_no_error(self, api, tmp_path):
        async with opened(api, tmp_path, auth="Bearer wrong-4711") as orders:
            with pytest.raises(OrdersUnavailable) as caught:
                await orders.get("A100")

        assert api.asked[0].headers["authorization"] == "Bearer wrong-4711"
        assert "4711" not in f"{caught.value!r}"

    async def test_nothing_of_the_environment_is_taken(self, api, orders, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

        assert (await orders.get("A100")).id == "A100"

    async def test_a_cookie_is_not_kept(self, api, orders):
        body = encoded({"data": api.orders["A100"]})
        api.replies.append(Reply(body=body, headers={"Set-Cookie": "session=1; Path=/"}))
        for _ in range(2):
            await orders.get("A100")

        assert "cookie" not in api.asked[1].headers

    async def test_many_at_once_are_all_answered(self, orders):
        found = await asyncio.gather(*(orders.get("A100") for _ in range(40)))

        assert {order.id for order in found} == {"A100"}

    @pytest.mark.parametrize("more", ["", 'id = "/number"\n'], ids=["whole", "ids"])
    async def test_what_cannot_be_used_is_left_out_of_a_list(self, api, tmp_path, more):
        broken = {**api.orders["A101"], "money": "XXX"}
        kept, api.orders["A101"] = api.orders["A101"], broken
        try:
            async with opened(api, tmp_path, text=f"{MAP}{more}") as orders:
                listed = await orders.list_for_customer("C-list", limit=10)
        finally:
            api.orders["A101"] = kept

        assert {order.id for order in listed} == {"A100", "A102", "A103"}

    async def test_one_of_a_list_of_ids_that_fails_fails_the_list(self, api, tmp_path):
        async with opened(api, tmp_path, text=f'{MAP}id = "/number"\n') as orders:
            assert len(await orders.list_for_customer("C-list", limit=10)) == 4
            edited_list = encoded({"data": [{"number": "A100"}, {"number": "gone"}]})
            api.replies.append(Reply(body=edited_list))
            assert len(await orders.list_for_customer("C-list", limit=10)) == 1
            api.replies += [Reply(body=edited_list), Reply(status=500)]
            with pytest.raises(OrdersUnavailable):
                await orders.list_for_customer("C-list", limit=10)

"""The sample shop and policies: what the files cover, and what a mistake in them is told."""

import json
import shutil
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from support_agent.adapters.policy_files import load_policy, policy_body, policy_from_body
from support_agent.adapters.shop_files import (
    load_approvers,
    load_customers,
    load_orders,
)
from support_agent.domain.assessment import assess, required_approvals, required_level
from support_agent.domain.errors import ConfigurationError, RefundRefused
from support_agent.domain.orders import OrderStatus, PaymentMethod
from support_agent.domain.policy import OrderBooks, ShippingRule, Verdict
from support_agent.domain.reasons import Reason, sentence

DATA = Path(__file__).parents[2] / "data"
SHOP = DATA / "shop"
STANDARD = DATA / "policies" / "standard.yaml"
STRICT = DATA / "policies" / "strict.yaml"
NOW = datetime(2026, 10, 13, 9, tzinfo=timezone(timedelta(hours=7)))

# Orders whose payments are meant not to add up to their lines.
UNEVEN = {"A503": "not paid yet", "A606": "paid in another currency", "A607": "captured twice"}


@pytest.fixture(scope="module")
def orders():
    return {order.id: order for order in load_orders(SHOP)}


@pytest.fixture(scope="module")
def standard():
    return load_policy(STANDARD)


@pytest.fixture(scope="module")
def assessed(orders, standard):
    return {id_: assess(order, OrderBooks(), standard, NOW) for id_, order in orders.items()}


def levels(assessed, policy):
    found = Counter()
    for answer in assessed.values():
        if answer.verdict in {Verdict.ELIGIBLE, Verdict.PARTIAL}:
            try:
                found[required_level(policy, answer.currency, answer.max_refundable_minor)] += 1
            except RefundRefused as refused:
                found[refused.reason] += 1
    return found


def test_the_story_order_is_on_day_12_and_needs_level_1(orders, assessed, standard):
    answer = assessed["A100"]

    assert (orders["A100"].customer_id, orders["A100"].total_minor) == ("C001", 250_000)
    assert (answer.verdict, answer.days_since_delivery) == (Verdict.ELIGIBLE, 12)
    assert (answer.last_day, answer.max_refundable_minor) == (date(2026, 10, 31), 250_000)
    assert required_level(standard, "VND", 250_000) == 1


def test_the_order_on_its_way_is_refused(orders, assessed):
    assert (orders["A101"].status, orders["A101"].total_minor) == (OrderStatus.SHIPPING, 480_000)
    assert assessed["A101"].reasons == (Reason.ORDER_SHIPPING,)


def test_the_shop_is_large_enough_and_its_ids_are_unique(orders):
    payments = [p for order in orders.values() for p in order.payments]
    lines = [line.id for order in orders.values() for line in order.lines]

    assert len(orders) == len(load_orders(SHOP)) >= 34
    assert len({order.customer_id for order in orders.values()}) >= 7
    assert len(set(lines)) == len(lines)
    assert len({(p.gateway, p.account, p.gateway_payment_id) for p in payments}) == len(payments)


def test_every_order_belongs_to_a_known_customer(orders):
    known = {customer.id for customer in load_customers(SHOP)}

    assert {order.customer_id for order in orders.values()} <= known


def test_payments_add_up_to_the_lines_where_not_meant_otherwise(orders):
    def paid(order):
        return sum(payment.captured_minor for payment in order.payments)

    uneven = {id_ for id_, order in orders.items() if paid(order) != order.total_minor}

    assert uneven == set(UNEVEN)


def test_every_verdict_and_every_reason_of_plain_orders_occurs(assessed):
    answers = assessed.values()
    reasons = {r for answer in answers for r in answer.reasons}
    reasons |= {r for answer in answers for part in answer.lines for r in part.reasons}

    assert {answer.verdict for answer in answers} == set(Verdict)
    assert reasons == {
        Reason.WITHIN_WINDOW,
        Reason.WINDOW_EXPIRED,
        Reason.ORDER_NOT_PAID,
        Reason.ORDER_NOT_SHIPPED,
        Reason.ORDER_SHIPPING,
        Reason.ORDER_CANCELLED,
        Reason.STATUS_UNKNOWN,
        Reason.LINE_NOT_DELIVERED,
        Reason.DELIVERED_AT_MISSING,
        Reason.CLOCK_OR_DATA,
        Reason.NON_RETURNABLE,
        Reason.DISPUTED,
        Reason.CURRENCY_MISMATCH,
        Reason.CURRENCY_WITHOUT_LIMITS,
        Reason.PAYMENT_NEEDS_PERSON,
        Reason.SHIPPING_KEPT,
    }
    for answer in answers:
        assert all(sentence(r, "vi", **answer.facts) for r in answer.reasons)


def test_every_tier_and_both_sides_of_each_limit_occur(assessed, standard):
    amounts = {answer.max_refundable_minor for answer in assessed.values()}

    assert set(levels(assessed, standard)) == {0, 1, 2, Reason.ABOVE_POLICY_LIMIT}
    assert {200_000, 200_001, 2_000_000, 2_000_001, 300_000, 1_000_000} <= amounts
    assert {required_approvals(standard, "VND", amount) for amount in amounts} == {1, 2}


def test_every_boundary_of_the_window_occurs(orders, assessed):
    days = {answer.days_since_delivery for answer in assessed.values()}
    moments = [order.delivered_at for order in orders.values()]

    assert {0, 12, 30, 31} <= days
    assert any(type(moment) is date for moment in moments)
    assert (assessed["A203"].days_since_delivery, assessed["A203"].verdict) == (
        30,
        Verdict.ELIGIBLE,
    )


def test_every_status_and_payment_method_occurs(orders):
    shop = orders.values()
    tenders = [{p.method for p in order.payments} for order in shop]

    assert {order.status for order in shop} == set(OrderStatus)
    assert set().union(*tenders) == set(PaymentMethod)
    assert {PaymentMethod.CARD, PaymentMethod.GIFT_CARD} in tenders
    assert Counter(order.currency for order in shop)["USD"] == 1


def test_hostile_texts_and_variants_reach_the_domain_as_they_were_written(orders):
    texts = " ".join([orders["A703"].note, *(line.name for line in orders["A703"].lines)])

    assert {"\x1b", "\x07", "\r", "\n", "\u202e", "\u200b", "\u2066"} <= set(texts)
    shoe = orders["A704"].lines[0]
    assert (shoe.variant_id, shoe.options) == ("SHOE-42-BLACK", {"size": "42", "color": "đen"})


def test_discounts_are_the_lines_share(orders):
    assert [line.total_minor for line in orders["A402"].lines] == [54_000, 36_000]


def test_the_approvers_cover_levels_a_disabled_one_and_one_who_buys_here():
    people = {approver.name: approver for approver in load_approvers(SHOP)}

    assert {name: (p.level, p.disabled) for name, p in people.items()} == {
        "lan": (1, False),
        "minh": (1, False),
        "huong": (2, False),
        "tuan": (2, False),
        "dung": (1, True),
    }
    assert people["minh"].customer_ids == {"C003"}
    assert people["huong"].limits == {"VND": 20_000_000, "USD": 50_000}
    assert len({person.person_id for person in people.values()}) == len(people)


def test_the_policy_text_takes_its_numbers_from_the_fields(standard):
    assert "trong vòng 30 ngày kể từ ngày giao" in standard.text["vi"]
    assert "200.000\u00a0₫" in standard.text["vi"]
    assert "within 30 days" in standard.text["en"]
    assert "within 14 days" in load_policy(STRICT).text["en"]


def test_the_second_policy_judges_the_same_shop_differently(orders, assessed, standard):
    strict = load_policy(STRICT)
    again = {id_: assess(order, OrderBooks(), strict, NOW) for id_, order in orders.items()}

    assert again["A303"].reasons == (Reason.NON_RETURNABLE,)
    assert again["A200"].reasons == (Reason.WINDOW_EXPIRED,)
    assert again["A100"].last_day == date(2026, 10, 15)
    assert required_level(strict, "VND", 120_000) == 1 > required_level(standard, "VND", 120_000)
    # Returns are counted: two of three, none, and where nobody counted a person looks.
    assert (assessed["A610"].max_refundable_minor, again["A610"].max_refundable_minor) == (
        180_000,
        120_000,
    )
    assert again["A611"].reasons == (Reason.RETURN_NOT_RECEIVED,)
    assert again["A100"].reasons == (Reason.RETURN_NOT_COUNTED,)
    # Shipping stays with the shop.
    assert assessed["A608"].max_refundable_minor == 230_000
    assert again["A608"].lines[2].reasons == (Reason.SHIPPING_KEPT,)


@pytest.mark.parametrize("path", [STANDARD, STRICT], ids=lambda path: path.stem)
def test_a_body_stored_as_json_reads_back_to_an_equal_policy(path):
    stored = json.dumps(policy_body(path))

    assert policy_from_body(json.loads(stored)) == load_policy(path)


def test_a_body_from_before_the_later_rules_means_what_it_always_did():
    """Version 1 as it was released: the same hash, no new rule."""
    released = json.loads((Path(__file__).parent / "policy_standard_1.json").read_text("utf-8"))

    policy = policy_from_body(released)

    assert (policy.id, policy.version) == ("standard", 1)
    assert policy.hash == "299fc7938bad2e294929824a31db1cfd6e2f647d20b32c86e0691d5b1cb67a7e"
    assert (policy.tender_order, policy.shipping) == ((), ShippingRule.NEVER)
    assert (policy.clawback, policy.return_required) == (False, False)
    assert policy.limits["VND"].per_pair_day is None


def test_the_later_rules_are_read_as_they_are_written(standard):
    strict = load_policy(STRICT)

    assert standard.tender_order == (
        PaymentMethod.GIFT_CARD,
        PaymentMethod.WALLET,
        PaymentMethod.CARD,
        PaymentMethod.BANK_TRANSFER,
        PaymentMethod.COD,
    )
    assert (standard.shipping, strict.shipping) == (ShippingRule.FULL_RETURN, ShippingRule.NEVER)
    assert (standard.clawback, strict.clawback) == (True, False)
    assert (standard.return_required, strict.return_required) == (False, True)
    assert standard.limits["VND"].per_pair_day == 20_000_000
    assert strict.limits["VND"].per_pair_day == 5_000_000


def test_the_hash_is_of_the_content_not_of_its_spelling(tmp_path, standard):
    body = policy_body(STANDARD)
    reordered = dict(reversed(body.items()))
    changed = body | {"window_days": 31}

    assert policy_from_body(reordered).hash == standard.hash
    assert policy_from_body(changed).hash != standard.hash
    assert len(standard.hash) == 64


def limits(**changes):
    return {"limits": {"VND": policy_body(STANDARD)["limits"]["VND"] | changes}}


def text(vi):
    return {"text": {"vi": vi, "en": "ok"}}


BAD_POLICIES = [
    (limits(auto="250.000"), "limits.VND.auto: .*valid integer, not '250.000'"),
    (limits(auto=True), "limits.VND.auto"),
    (limits(auto=200_000.0), "limits.VND.auto"),
    (limits(auto=-1), "limits.VND.auto"),
    (limits(auto=2_000_001), "auto 2000001 must not be above the first level 2000000"),
    (limits(levels=[2_000_000, 2_000_000]), "limits.VND: levels must rise"),
    (limits(levels=[]), "limits.VND.levels"),
    (limits(levels=[0]), "limits.VND.levels.0"),
    (limits(levels="2000000"), "limits.VND.levels"),
    (limits(four_eyes_from=200_000), "four_eyes_from must be above auto"),
    (limits(per_aprover_day=1), "per_aprover_day: is not a known field"),
    ({"limits": {"VND": {"auto": 1, "levels": [2]}}}, "four_eyes_from: is missing; add it"),
    (
        {"limits": {"XXX": limits()["limits"]["VND"]}},
        "'XXX' is not a known currency; known are VND",
    ),
    ({"version": 0}, "version"),
    ({"version": "1"}, "version: .*not '1'"),
    ({"window_days": -1}, "window_days"),
    ({"window_days": "30"}, "window_days"),
    ({"time_zone": "Asia/Saigonn"}, "time_zone: 'Asia/Saigonn' is not a time zone"),
    ({"time_zone": "Asia"}, "time_zone: 'Asia' is not a time zone"),
    ({"time_zone": "../etc/passwd"}, "time_zone"),
    ({"refundable_statuses": ["DELIVERD"]}, "refundable_statuses.*not 'DELIVERD'"),
    ({"refundable_statuses": ["SHIPPING"]}, "SHIPPING is none of DELIVERED, PARTIALLY_DELIVERED"),
    ({"refundable_statuses": []}, "refundable_statuses"),
    ({"valid_from": "2026-01-01T00:00:00"}, "valid_from: .*has no UTC offset; write it like"),
    ({"valid_from": "soon"}, "valid_from: 'soon' is not a date and time"),
    ({"text": {"vi": "chỉ tiếng Việt"}}, "text.en: is missing; add it"),
    (
        text("trong {window} ngày"),
        r"text.vi: \{window\} cannot be filled; known are \{window_days\}",
    ),
    (text("trong {window_days!r} ngày"), "text.vi: {window_days} cannot be filled"),
    (text("trong {window_days.__class__} ngày"), "text.vi"),
    (text("đến {auto_USD}"), "text.vi: {auto_USD} cannot be filled"),
    (text("trong {window_days ngày"), "text.vi: .*write a literal brace twice"),
    (text("{window_days} ngày") | {"window_days": None}, "text.vi: {window_days} cannot be filled"),
    ({"tender_order": ["GIFT_CARD", "CARD", "GIFT_CARD"]}, "tender_order names a method twice"),
    ({"tender_order": ["CASH"]}, "tender_order.0: .*not 'CASH'"),
    ({"tender_order": "CARD"}, "tender_order: .*not 'CARD'"),
    ({"tender_order": None}, "tender_order: .*not None"),
    ({"shipping": "always"}, "shipping: .*'never' or 'full_return', not 'always'"),
    ({"shipping": True}, "shipping"),
    ({"clawback": "true"}, "clawback: .*valid boolean, not 'true'"),
    ({"clawback": 1}, "clawback: .*not 1"),
    ({"return_required": "yes"}, "return_required: .*valid boolean, not 'yes'"),
    ({"return_required": None}, "return_required: .*not None"),
    (limits(per_pair_day=-1), "limits.VND.per_pair_day"),
    (limits(per_pair_day="1"), "limits.VND.per_pair_day: .*not '1'"),
    ({"surprise": 1}, "surprise: is not a known field"),
    ({"surprise": float("nan")}, "may hold text, whole numbers, lists and mappings only"),
    ({"valid_from": NOW}, "may hold text, whole numbers, lists and mappings only"),
]


@pytest.mark.parametrize(("change", "message"), BAD_POLICIES)
def test_a_mistake_in_a_policy_names_the_field_and_the_way_out(change, message):
    with pytest.raises(ConfigurationError, match=message):
        policy_from_body(policy_body(STANDARD) | change)


BAD_YAML = [
    ("id: [", "is not valid YAML"),
    ("id: a\nid: b\n", "the key 'id' is there twice"),
    ("1: a\n", "the key 1 is not text"),
    ("? [a]\n: b\n", "is not text"),
    ("<<: {id: a}\n", "<<: is not a known field"),
    ("id: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
    ("- id\n", "must be a mapping"),
    ("", "must be a mapping"),
    ("id: &a [*a]\n", "may hold text"),
]


@pytest.mark.parametrize(("content", "message"), BAD_YAML)
def test_a_file_that_is_no_policy_is_named(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=rf"(?s)mine\.yaml.*{message}"):
        load_policy(path)


def test_numbers_are_read_as_they_are_written(tmp_path):
    for written in ("0200000", "2_000", "1:30", "250.000", "1e3", "0x10", "yes"):
        path = tmp_path / "mine.yaml"
        source = STANDARD.read_text(encoding="utf-8")
        path.write_text(source.replace("auto: 200000 ", f"auto: {written} "), encoding="utf-8")

        with pytest.raises(ConfigurationError, match=f"valid integer, not '{written}'"):
            load_policy(path)


def test_a_missing_and_an_unreadable_file_are_named(tmp_path):
    (tmp_path / "latin.yaml").write_bytes("id: Hoàn".encode("latin-1"))

    with pytest.raises(ConfigurationError, match=r"none\.yaml: cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match=r"latin\.yaml: is not valid YAML"):
        load_policy(tmp_path / "latin.yaml")


LAN = "{name: lan, person_id: P-LAN, level: 1, limits: {VND: 2000000}}"

BAD_SHOPS = [
    ("orders.yaml", "quantity: 10,", "quantity: 0,", r"entry \d+ \('A401'\): lines.0.quantity"),
    ("orders.yaml", "quantity: 10,", 'quantity: "10",', "lines.0.quantity: .*not '10'"),
    ("orders.yaml", "discount_minor: 6000,", "discount_minor: 60001,", "discount_minor is above"),
    ("orders.yaml", "discount_minor: 6000,", "discont: 6000,", "discont: is not a known field"),
    ("orders.yaml", "received_units: 2", "received_units: 4", "received_units is above quantity"),
    ("orders.yaml", "received_units: 2", "received_units: -1", "received_units"),
    ("orders.yaml", "received_units: 2", 'received_units: "2"', "received_units: .*not '2'"),
    ("orders.yaml", "promotion_minor: 6000,", "promotion_minor: 6001,", "cannot be above it"),
    ("orders.yaml", "kind: shipping", "kind: fee", "kind: .*not 'fee'"),
    ("orders.yaml", "[A609-3]", "[A609-9]", "promotion.gift_line_ids: 'A609-9' is no goods line"),
    ("orders.yaml", "[A609-3]", "[A609-3, A608-1]", "'A608-1' is no goods line"),
    ("orders.yaml", "threshold_minor: 100000", "threshold_minor: 0", "promotion.threshold_minor"),
    ("orders.yaml", "  promotion: {id: THANG10, threshold_minor: 100000, gift_line_ids: [A609-3]}\n", "", "promotion is missing"),
    ("orders.yaml", "80000, category: home}", "80000, category: home, kind: shipping}", "shipping is one line an order"),
    ("orders.yaml", "returnable: false", "returnable: no", "returnable: .*not 'no'"),
    ("orders.yaml", "status: UNKNOWN", "status: LOST", r"'A504'\): status: .*not 'LOST'"),
    ("orders.yaml", "customer_id: C007", "customer_id: C099", "customer 'C099' is not in customers.yaml"),
    ("orders.yaml", "id: A101\n", "id: A100\n", "orders.yaml: id 'A100' is there twice"),
    ("orders.yaml", "id: A100-2,", "id: A100-1,", "lines.id 'A100-1' is there twice"),
    ("orders.yaml", "id: PAY-A607-2,", "id: PAY-A607-1,", "payments.id 'PAY-A607-1' is there twice"),
    ("orders.yaml", "led_A607_2", "led_A607_1", "gateway_payment_id .* is there twice"),
    ("orders.yaml", "captured_minor: 250000,", "captured_minor: -1,", "payments.0.captured_minor"),
    ("orders.yaml", "2026-10-01T10:00:00+07:00\n", "2026-10-01T10:00:00\n", "delivered_at: .*no UTC offset"),
    ("orders.yaml", "delivered_at: 2026-10-01\n", "delivered_at: 2026-02-30\n", "delivered_at"),
    ("orders.yaml", "delivered_at: 2026-10-01\n", "delivered_at: 20261001\n", "delivered_at: 20261001 is not"),
    ("orders.yaml", "currency: USD\n", "currency: USDT\n", "'USDT' is not a known currency"),
    ("customers.yaml", "id: C002", "id: C001", "customers.yaml: id 'C001' is there twice"),
    ("customers.yaml", "language: en", "language: fr", "'C006'.*language: .*not 'fr'"),
    ("customers.yaml", "id: C002", "id: C 2", "id: .*not 'C 2'"),
    ("approvers.yaml", "level: 1", "level: 0", r"approvers.yaml: entry 1 \('lan'\): level"),
    ("approvers.yaml", "customer_ids: [C003]", "customer_ids: [C099]", "customer 'C099' is not in"),
    ("approvers.yaml", "name: minh", "name: lan", "name 'lan' is there twice"),
    ("approvers.yaml", "VND: 2000000", "VND: 2.000.000", "limits.VND: .*not '2.000.000'"),
    ("approvers.yaml", f"- {LAN}", f"{LAN}\n", "approvers.yaml: is not valid YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "message"), BAD_SHOPS)
def test_a_mistake_in_the_shop_names_file_entry_and_field(tmp_path, name, old, new, message):
    shop = Path(shutil.copytree(SHOP, tmp_path / "shop"))
    source = (shop / name).read_text(encoding="utf-8")
    assert old in source
    (shop / name).write_text(source.replace(old, new, 1), encoding="utf-8")
    load = {"orders.yaml": load_orders, "customers.yaml": load_customers}.get(name, load_approvers)

    with pytest.raises(ConfigurationError, match=message) as caught:
        load(shop)
    assert name in str(caught.value)


def test_a_shop_file_that_is_no_list_is_named(tmp_path):
    (tmp_path / "customers.yaml").write_text("id: C001\n", encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"customers\.yaml: must be a list"):
        load_customers(tmp_path)

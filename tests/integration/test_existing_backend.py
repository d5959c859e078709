"""The example shop, mounted and served as docs/integrate.md says, and killed while it pays."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest

from tests.guide import DYING, ROOT, SERVER, Walker, steps, walking

EXAMPLE = ROOT / "examples" / "existing_backend"
MOUNTING = EXAMPLE / "with_agent.py"
CUSTOMER, STRANGER = {"cookie": "phien=phien-kh01"}, {"cookie": "phien=phien-kh02"}


@pytest.fixture(scope="module")
def walker(tmp_path_factory) -> Iterator[Walker]:
    """Somebody who followed the page to its end."""
    with walking(tmp_path_factory.mktemp("checkout")) as walker:
        walker.told = {}
        for number, lines in steps().items():
            walker.told[number] = [walker.do(line) for line in lines]
        yield walker


def rows(walker: Walker, file: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """What is in a database, past everybody's code."""
    with closing(sqlite3.connect(walker.folder / "var" / file)) as connection, connection:
        return connection.execute(sql, values).fetchall()


def shop(walker: Walker, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """The shop's own tables."""
    return rows(walker, "shop.db", sql, *values)


def test_the_page_leads_from_the_question_to_the_notice(walker):
    asked, _, quoted, filed = walker.told["7"]
    queue, _, brief, decided = walker.told["8"][:4]
    heard = [row["text"] for row in json.loads(walker.told["8"][-1])["data"]]

    assert "250.000\u00a0₫" in json.loads(asked)["answer"]
    assert [quote["amount"] for quote in json.loads(quoted)["quotes"]] == [
        {"amount_minor": 250_000, "currency": "VND"}
    ]
    (request_id,) = json.loads(filed)["pending_approvals"]
    assert [row["id"] for row in json.loads(queue)["data"]] == [request_id]
    assert json.loads(brief)["id"] == request_id
    assert json.loads(decided)["request"]["status"] == "REFUNDED"
    assert "250.000\u00a0₫" in heard[-1]
    assert heard[0] == "Đơn DH1001 của tôi có được hoàn tiền không?"


def test_the_doctor_of_the_page_names_what_is_attached(walker):
    told = walker.told["5"][-1]

    assert "mapped, by examples/existing_backend/orders.toml" in told
    assert "http, the refund endpoint of account vuon-nha, no real money" in told
    assert "1 active, 0 with a token, 1 with a key of the API" in told


def test_the_shop_paid_once_by_the_requests_key(walker):
    request_id = walker.environment["REQUEST"]

    assert shop(walker, "SELECT khoa, so_tien FROM hoan_tien WHERE ma_gd = 'GD-DH1001'") == [
        (f"refund:{request_id}:1", 250_000)
    ]


class TestWhoAsks:
    def test_nobody_asks_without_the_shops_login(self, walker):
        answer = walker.curl("POST", "/tro-giup/conversations", json={"text": "Chào"})

        assert answer.status_code == 401

    def test_another_customers_conversation_is_as_good_as_none(self, walker):
        known = walker.environment["CONVERSATION"]
        for conversation in (known, "con_00000000000000000000000000"):
            path = f"/tro-giup/conversations/{conversation}/messages"
            assert walker.curl("GET", path, headers=STRANGER).status_code == 404
            said = walker.curl("POST", path, headers=STRANGER, json={"text": "Chào"})
            assert said.status_code == 404

    def test_another_customers_order_is_not_told(self, walker):
        answer = ask(walker, "Đơn DH1001 có được hoàn tiền không?", headers=STRANGER)

        assert "250.000" not in answer["answer"]
        assert "Áo khoác" not in json.dumps(answer, ensure_ascii=False)

    def test_the_chat_windows_key_decides_nothing(self, walker):
        request_id = walker.environment["REQUEST"]
        for path in ("approvals", f"approvals/{request_id}"):
            answer = walker.curl("GET", f"/tro-giup/{path}", headers=CUSTOMER)
            assert answer.status_code in {403, 404}, path

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
    def test_a_form_of_another_site_says_nothing_for_a_customer(self, walker, kind):
        """A browser sends the cookie with it, and can send no JSON without asking first."""
        path = f"/tro-giup/conversations/{walker.environment['CONVERSATION']}/messages"
        headers = CUSTOMER if kind is None else {**CUSTOMER, "content-type": kind}
        answer = walker.curl("POST", path, headers=headers, content=b'{"text": "C\xc3\xb3"}')

        assert answer.status_code == 415

    @pytest.mark.parametrize(
        "path", ["..%2Fopenapi.json", "%2E%2E/readyz", "conversations%3Fx", "conversations%23x"]
    )
    def test_a_path_leads_nowhere_else(self, walker, path):
        assert walker.curl("GET", f"/tro-giup/{path}", headers=CUSTOMER).status_code == 422

    def test_the_agents_own_address_wants_a_key(self, walker):
        assert walker.curl("GET", "/support/v1/approvals").status_code == 401
        assert walker.curl("GET", "/support/healthz").is_success

    def test_the_shop_goes_on_as_it_was(self, walker):
        assert [o["ma_don"] for o in walker.curl("GET", "/don-hang", headers=CUSTOMER).json()][
            :2
        ] == ["DH1001", "DH1002"]


def ask(
    walker: Walker, text: str, conversation: str | None = None, *, headers: dict[str, str]
) -> Any:
    where = f"/{conversation}/messages" if conversation else ""
    path = f"/tro-giup/conversations{where}"
    answer = walker.curl("POST", path, headers=headers, json={"text": text})
    assert answer.status_code == 200, answer.text
    return answer.json()


def sold(walker: Walker, order_id: str, price: int) -> str:
    """One more order of the first customer, delivered yesterday; its payment's id."""
    yesterday = datetime.now(ZoneInfo("Asia/Ho_Chi_Minh")) - timedelta(days=1)
    day = yesterday.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    shop(
        walker,
        "INSERT INTO don_hang VALUES (?, 'KH01', 'da_giao', ?, ?, ?)",
        *(order_id, day, day, price),
    )
    shop(
        walker,
        "INSERT INTO dong_hang (ma_don, ten_hang, nhom_hang, so_luong, don_gia) "
        "VALUES (?, 'Đèn bàn', 'gia_dung', 1, ?)",
        *(order_id, price),
    )
    shop(
        walker,
        "INSERT INTO giao_dich VALUES (?, ?, 'the', ?, 0)",
        *(f"GD-{order_id}", order_id, price),
    )
    return f"GD-{order_id}"


def test_killed_between_its_commit_and_its_answer_the_shop_has_paid_once(walker):
    payment_id = sold(walker, "DH1003", 600_000)
    walker.stop()
    walker.start(*DYING)
    told = ask(walker, "Hoàn tiền đơn DH1003 giúp tôi", headers=CUSTOMER)
    filed = ask(walker, "đồng ý", told["conversation_id"], headers=CUSTOMER)
    (request_id,) = filed["pending_approvals"]
    lan = {"Authorization": f"Bearer {walker.environment['LAN_KEY']}", "If-Match": '"1"'}

    with pytest.raises(httpx2.TransportError):
        walker.curl(
            "POST",
            f"/support/v1/approvals/{request_id}/decision",
            headers=lan,
            json={"decision": "approve"},
        )
    assert walker.server.wait() == -9
    assert paid(walker, payment_id) == [600_000]
    status = "SELECT status FROM refund_requests WHERE id = ?"
    assert rows(walker, "support.db", status, request_id) == [("PAYING",)]

    walker.start(*SERVER)
    assert walker.curl("GET", "/support/healthz").is_success
    walker.do("support-agent tick")
    walker.do("support-agent refunds check")
    walker.do("support-agent audit verify")

    seen = walker.curl("GET", f"/support/v1/approvals/{request_id}", headers=lan).json()
    assert seen["status"] == "REFUNDED"
    assert paid(walker, payment_id) == [600_000]
    path = f"/tro-giup/conversations/{told['conversation_id']}/messages"
    heard = walker.curl("GET", path, headers=CUSTOMER).json()["data"]
    assert heard[-1]["author"] == "notice"
    assert "600.000\u00a0₫" in heard[-1]["text"]


def paid(walker: Walker, payment_id: str) -> list[int]:
    of_it = shop(walker, "SELECT so_tien FROM hoan_tien WHERE ma_gd = ?", payment_id)
    return [amount for (amount,) in of_it]


class TestExample:
    def test_it_is_mounted_in_under_sixty_lines(self):
        assert len(MOUNTING.read_text(encoding="utf-8").splitlines()) < 60

    def test_the_pages_say_how_many(self):
        lines = len(MOUNTING.read_text(encoding="utf-8").splitlines())

        assert f"one file of {lines} lines" in page()
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        assert f"mounts the agent in {lines} lines" in readme

    def test_only_the_mounting_file_knows_the_agent(self):
        knowing = {
            path.name
            for path in EXAMPLE.glob("*.py")
            if "support_agent" in path.read_text(encoding="utf-8")
        }

        assert knowing == {MOUNTING.name}

    def test_what_the_page_shows_of_it_is_in_it(self):
        (shown,) = re.findall(r"^```python\n(.*?)^```$", page(), re.MULTILINE | re.DOTALL)
        source = MOUNTING.read_text(encoding="utf-8").splitlines()

        assert [line for line in shown.splitlines() if line not in source] == ["        ..."]

    def test_the_page_links_to_what_is_there(self):
        links = {part.partition(")")[0] for part in page().split("](")[1:]}

        assert {link for link in links if not (ROOT / "docs" / link).is_file()} == set()


def page() -> str:
    return Path(ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")

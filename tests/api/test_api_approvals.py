"""The queue, the brief and deciding by HTTP, as an approver's console uses them."""

import asyncio
from datetime import timedelta

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.refunds import RequestStatus
from tests.api_kit import opened_api
from tests.heart import change_approver, dispute, simulator
from tests.kit import TODAY

HIDDEN = "áo \u202egnört\x1b[2J"


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


@pytest.fixture
async def lan(api):
    return await api.decider("lan")


async def decide(api, headers, request, body, *, seen='"1"'):
    """The answer to a decision; `seen` is the If-Match, None for none."""
    tags = {} if seen is None else {"If-Match": seen}
    url = f"/v1/approvals/{getattr(request, 'id', request)}/decision"
    return await api.client.post(url, headers=headers | tags, json=body)


def code_of(response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.status_code, response.json()["code"]


APPROVE = {"decision": "approve"}


class TestTheQueue:
    async def test_it_shows_what_waits_and_how(self, api, lan):
        request = await api.shop.filed("A100")
        await api.shop.filed("A102")  # small: paid at once

        (row,) = (await api.client.get("/v1/approvals", headers=lan)).json()["data"]

        assert row == {
            "id": request.id,
            "order_id": "A100",
            "customer_id": "C001",
            "amount": {"amount_minor": 250_000, "currency": "VND"},
            "status": "PENDING_APPROVAL",
            "version": 1,
            "required_level": 1,
            "approvals_needed": 1,
            "created_at": "2026-10-13T02:00:00Z",
            "expires_at": "2026-10-16T02:00:00Z",
            "due_at": "2026-10-14T02:00:00Z",
            "overdue": False,
            "escalations": 0,
            "asked_at": None,
            "held": False,
        }

    async def test_it_is_paged_by_a_cursor_that_no_other_list_takes(self, api, lan):
        ids = [(await api.shop.filed(one, customer="C003")).id for one in ("A300", "A302")]
        first = (await api.client.get("/v1/approvals?limit=1", headers=lan)).json()
        cursor = {"limit": 1, "cursor": first["next_cursor"]}
        second = (await api.client.get("/v1/approvals", params=cursor, headers=lan)).json()

        assert [page["data"][0]["id"] for page in (first, second)] == ids
        assert (first["has_more"], second["has_more"]) == (True, False)
        wrong = await api.client.get(
            "/v1/approvals", params=cursor | {"status": "REFUNDED"}, headers=lan
        )
        assert code_of(wrong) == (422, "INVALID_INPUT")

    async def test_it_is_narrowed_down(self, api, lan):
        await api.shop.filed("A100")
        await api.shop.filed("A102")
        api.shop.clock.set(TODAY + timedelta(hours=2))
        for order in ("A301", "A300"):
            await api.shop.filed(order, customer="C003")

        for params, found in (
            ({"customer_id": "C001"}, ["A100"]),
            ({"customer_id": "c001"}, []),
            ({"customer_id": "C\0"}, []),
            ({"order_id": "A300"}, ["A300"]),
            ({"level": 1}, ["A100", "A300"]),
            ({"level": 2}, ["A301"]),
            ({"min_amount_minor": 250_001}, ["A301", "A300"]),
            ({"max_amount_minor": 250_000, "currency": "VND"}, ["A100"]),
            ({"currency": "USD"}, []),
            ({"older_than_minutes": 60}, ["A100"]),
            ({"status": "REFUNDED"}, ["A102"]),
            ({"overdue": True}, []),
        ):
            answer = await api.client.get("/v1/approvals", params=params, headers=lan)

            orders = sorted(row["order_id"] for row in answer.json()["data"])
            assert orders == sorted(found), params

    async def test_what_nobody_decided_in_time_is_overdue(self, api, lan):
        await api.shop.filed("A100")
        api.shop.clock.set(TODAY + timedelta(hours=25))
        await api.shop.filed("A300", customer="C003")

        (late,) = (await api.client.get("/v1/approvals?overdue=true", headers=lan)).json()["data"]

        assert (late["order_id"], late["overdue"]) == ("A100", True)

    async def test_a_wrong_filter_is_refused(self, api, lan):
        for params in (
            {"level": 0},
            {"limit": 101},
            {"status": "OPEN"},
            {"currency": "VNĐ"},
            {"min_amount_minor": -1},
            {"min_amount_minor": 10**30},
            {"min_amount_minor": 2, "max_amount_minor": 1},
            {"older_than_minutes": 10**12},
            {"cursor": "made-up"},
        ):
            answer = await api.client.get("/v1/approvals", params=params, headers=lan)

            assert code_of(answer) == (422, "INVALID_INPUT"), params
            assert answer.json()["errors"][0]["pointer"] == f"query:{next(iter(params))}"


class TestTheBrief:
    async def test_it_gives_facts_apart_from_what_others_wrote(self, api, lan):
        request = await api.shop.filed("A300", customer="C003")

        answer = await api.client.get(
            f"/v1/approvals/{request.id}", params={"lang": "en"}, headers=lan
        )

        brief = answer.json()
        assert answer.headers["etag"] == '"1"'
        assert brief["may_decide"] == ["lan", "huong", "tuan"]  # minh buys with this account
        assert brief["cumulative"] == {"amount_minor": 2_000_000, "currency": "VND"}
        assert brief["assessment"]["verdict"] == "ELIGIBLE"
        assert brief["assessment"]["last_day"] == "2026-11-01"
        assert "a person decides" in brief["why_a_person"][0]
        assert [one["text"] for one in brief["untrusted"]["messages"] if one["seq"] % 2] == [
            "hoàn tiền đơn A300",
            "đồng ý",
        ]
        facts = {name: value for name, value in brief.items() if name != "untrusted"}
        assert "đồng ý" not in str(facts)
        assert list(brief)[-1] == "untrusted"

    async def test_what_hides_or_reorders_is_written_out(self, api, lan):
        request = await api.shop.filed("A100")
        await api.shop.say(HIDDEN + "\u202e" * 800, conversation=request.conversation_id)

        answer = await api.client.get(f"/v1/approvals/{request.id}", headers=lan)

        text = answer.json()["untrusted"]["messages"][-2]["text"]
        assert text.startswith("áo \\u202egnört[2J\\u202e")
        assert text.endswith("\\u202e…")
        assert 3_990 < len(text) <= 4_000
        assert "\u202e" not in answer.text

    async def test_of_a_long_conversation_it_has_the_newest(self, api, lan):
        request = await api.shop.filed("A100")
        for _ in range(25):
            await api.shop.say("còn đó không?", conversation=request.conversation_id)

        told = (await api.client.get(f"/v1/approvals/{request.id}", headers=lan)).json()

        untrusted = told["untrusted"]
        assert (len(untrusted["messages"]), untrusted["messages_left_out"]) == (50, 4)
        assert untrusted["messages"][-1]["seq"] == 54

    async def test_an_unknown_one_is_not_found(self, api, lan):
        for unknown in ("req_unknown", "..%2fx", "%00", "x" * 300, "😀"):
            answer = await api.client.get(f"/v1/approvals/{unknown}", headers=lan)

            assert code_of(answer)[0] == 404, unknown


class TestDeciding:
    async def test_an_approval_is_paid_and_tells_the_version_after_it(self, api, lan):
        request = await api.shop.filed("A100")

        answer = await decide(api, lan, request, APPROVE | {"note": "đủ điều kiện"})

        told = answer.json()
        assert (answer.status_code, told["decision"], told["by"]) == (200, "approve", "lan")
        assert told["proof"] == "token"
        assert (told["request"]["status"], told["payout_error"]) == ("REFUNDED", None)
        assert answer.headers["etag"] == f'"{told["request"]["version"]}"'
        (decision,) = await api.shop.read(lambda tx: tx.decisions.of(request.id))
        assert (decision.name, decision.note) == ("lan", "đủ điều kiện")

    async def test_the_same_again_says_who_and_when(self, api, lan):
        request = await api.shop.filed("A100")
        await decide(api, lan, request, APPROVE)

        for headers in (lan, await api.decider("huong")):
            again = await decide(api, headers, request, APPROVE)
            assert code_of(again) == (409, "ALREADY_DECIDED")
            told = again.json()
            assert (told["by"], told["at"]) == ("lan", "2026-10-13T02:00:00Z")
            assert told["request_status"] == "REFUNDED"

    async def test_a_double_click_under_one_key_is_answered_alike(self, api, lan):
        request = await api.shop.filed("A100")
        under = lan | {"Idempotency-Key": "click-1"}

        first, second = [await decide(api, under, request, APPROVE) for _ in range(2)]

        assert (second.status_code, second.json()) == (200, first.json())
        assert second.headers["etag"] == first.headers["etag"]
        assert second.headers["idempotency-replayed"] == "true"

    async def test_of_many_at_once_one_decides_and_it_is_paid_once(self, api):
        request = await api.shop.filed("A100")
        people = [await api.decider(name) for name in ("lan", "huong", "tuan")] * 4

        answers = await asyncio.gather(*(decide(api, who, request, APPROVE) for who in people))

        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 11]
        attempts = await api.shop.read(lambda tx: tx.attempts.of(request.id))
        assert len(attempts) == 1

    async def test_a_rejection_releases_the_amount(self, api, lan):
        request = await api.shop.filed("A100")

        answer = await decide(api, lan, request, {"decision": "reject", "note": "đã mặc"})

        assert answer.json()["request"]["status"] == "REJECTED"
        assert (await api.shop.filed("A100")).id != request.id

    async def test_a_lower_amount_has_to_be_looked_at_again(self, api, lan):
        request = await api.shop.filed("A100")
        lower = {"decision": "reduce", "amount": {"amount_minor": 150_000, "currency": "VND"}}

        reduced = await decide(api, lan, request, lower)
        stale = await decide(api, lan, request, APPROVE)

        told = reduced.json()["request"]
        assert (told["amount"]["amount_minor"], told["version"]) == (150_000, 2)
        assert code_of(stale) == (412, "STALE")
        assert (stale.json()["expected_version"], stale.json()["version"]) == (1, 2)
        paid = await decide(api, lan, request, APPROVE, seen=reduced.headers["etag"])
        assert paid.json()["request"]["status"] == "REFUNDED"

    async def test_a_question_goes_to_the_customer_and_holds_the_request(self, api, lan):
        request = await api.shop.filed("A100")

        body = {"decision": "ask", "question": "Bạn gửi ảnh giúp nhé?"}
        asked = (await decide(api, lan, request, body)).json()["request"]

        assert (asked["status"], asked["held"]) == ("PENDING_APPROVAL", True)
        assert asked["asked_at"] == "2026-10-13T02:00:00Z"
        messages = await api.shop.read(
            lambda tx: tx.conversations.messages(request.conversation_id)
        )
        assert messages[-1].text == "Bạn gửi ảnh giúp nhé?"

    async def test_four_eyes_are_two_persons(self, api):
        request = await api.shop.filed("A303", customer="C003")
        huong, tuan = await api.decider("huong"), await api.decider("tuan")

        first = await decide(api, huong, request, APPROVE)
        same = await decide(api, huong, request, APPROVE)
        second = await decide(api, tuan, request, APPROVE)

        assert first.json()["request"]["status"] == "PENDING_APPROVAL"
        assert code_of(same) == (409, "SECOND_PERSON_NEEDED")
        assert same.json()["by"] == "huong"
        assert second.json()["request"]["status"] == "REFUNDED"

    async def test_what_is_decided_together_is_told_together(self, api, lan):
        quoted = await api.shop.quote("A605", customer="C006")
        first, second = (await api.shop.answer(quoted, customer="C006")).requests

        told = (await decide(api, lan, second, APPROVE)).json()

        assert (told["request"]["id"], told["request"]["status"]) == (second.id, "REFUNDED")
        assert [(one["id"], one["status"]) for one in told["group"]] == [(first.id, "REFUNDED")]


class TestWhatWasSeen:
    async def test_it_has_to_be_said(self, api, lan):
        request = await api.shop.filed("A100")

        answer = await decide(api, lan, request, APPROVE, seen=None)

        assert code_of(answer) == (428, "PRECONDITION_REQUIRED")
        assert (await api.shop.request(request.id)).version == 1

    async def test_one_version_and_nothing_else(self, api, lan):
        request = await api.shop.filed("A100")
        none = ("*", 'W/"1"', "1", '"01"', '"1", "2"', '"x"', '""', "", '"9999999999"', '"-1"')
        for seen in none:
            answer = await decide(api, lan, request, APPROVE, seen=seen)

            assert code_of(answer) == (422, "INVALID_INPUT"), seen
            assert answer.json()["errors"][0]["pointer"] == "header:If-Match"
        assert (await api.shop.request(request.id)).version == 1

    async def test_not_in_two_headers(self, api, lan):
        request = await api.shop.filed("A100")
        headers = [*lan.items(), ("If-Match", '"1"'), ("If-Match", '"1"')]

        answer = await api.client.post(
            f"/v1/approvals/{request.id}/decision", headers=headers, json=APPROVE
        )

        assert code_of(answer) == (422, "INVALID_INPUT")

    async def test_another_version_decides_nothing(self, api, lan):
        request = await api.shop.filed("A100")

        assert code_of(await decide(api, lan, request, APPROVE, seen='"7"')) == (412, "STALE")
        assert (await api.shop.request(request.id)).status is RequestStatus.PENDING_APPROVAL


class TestWhoDecides:
    async def test_a_key_that_only_reads_does_not(self, api):
        request = await api.shop.filed("A100")
        reader = await api.staff(Scope.APPROVALS_READ)

        answer = await decide(api, reader, request, APPROVE)

        assert code_of(answer) == (403, "SCOPE_MISSING")
        assert answer.json()["scopes"] == ["approvals:decide"]

    async def test_the_body_says_nothing_of_it(self, api, lan):
        request = await api.shop.filed("A100")

        for field in ("by", "approver", "as", "person_id", "expect", "now"):
            answer = await decide(api, lan, request, APPROVE | {field: "huong"})

            assert code_of(answer) == (422, "INVALID_INPUT"), field
            assert answer.json()["errors"][0]["pointer"] == f"/{field}"

    @pytest.mark.parametrize("operator", ["lan", "Lan", " lan", "LAN "])
    async def test_who_typed_for_the_customer_does_not(self, api, lan, operator):
        talk = {"customer": "C001", "operator": operator}
        call = {"tool": "quote_refund", "arguments": {"order_id": "A100"}}
        quoted = await api.shop.say("hoàn tiền đơn A100", call, {"answer": "Nhé?"}, **talk)
        call = {"tool": "request_refund", "arguments": {"quote_id": quoted.quotes[0].id}}
        filed = await api.shop.say(
            "đồng ý", call, {"answer": "Xong."}, conversation=quoted.conversation_id, **talk
        )

        answer = await decide(api, lan, filed.requests[0], APPROVE)

        assert code_of(answer) == (403, "SELF_APPROVAL")

    async def test_who_is_disabled_does_not(self, api, lan):
        request = await api.shop.filed("A100")
        await change_approver(api.shop, "lan", disabled=True)

        assert code_of(await decide(api, lan, request, APPROVE)) == (401, "KEY_REFUSED")

    async def test_whose_authority_does_not_reach_is_told_whose_does(self, api, lan):
        request = await api.shop.filed("A301", customer="C003")

        answer = await decide(api, lan, request, APPROVE)

        assert code_of(answer) == (403, "INSUFFICIENT_AUTHORITY")
        assert answer.json()["others"] == ["huong", "tuan"]


class TestRefusals:
    async def test_a_body_that_is_none_decides_nothing(self, api, lan):
        request = await api.shop.filed("A100")

        for body, pointer in (
            ({}, ""),
            ({"decision": "Approve"}, ""),
            ({"decision": "approve", "note": "x" * 1001}, "/note"),
            ({"decision": "approve", "note": "a\0b"}, "/note"),
            ({"decision": "approve", "note": 5}, "/note"),
            ({"decision": "reduce"}, "/amount"),
            ({"decision": "reduce", "amount": 150_000}, "/amount"),
            ({"decision": "ask"}, "/question"),
            ({"decision": "ask", "question": ""}, "/question"),
            ({"decision": "ask", "question": "   "}, "/question"),
            ({"decision": "ask", "question": "Nhé?", "note": "x"}, "/note"),
            ([APPROVE], ""),
        ):
            answer = await decide(api, lan, request, body)

            assert code_of(answer) == (422, "INVALID_INPUT"), body
            assert answer.json()["errors"][0]["pointer"] == pointer, body
        assert (await api.shop.request(request.id)).version == 1

    async def test_an_amount_that_is_not_lower_changes_nothing(self, api, lan):
        request = await api.shop.filed("A100")

        for amount, code in (
            ({"amount_minor": 250_000, "currency": "VND"}, "DECISION_REFUSED"),
            ({"amount_minor": 0, "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": -5, "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": 1.0, "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": "150000", "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": True, "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": 10**18, "currency": "VND"}, "INVALID_INPUT"),
            ({"amount_minor": 100, "currency": "USD"}, "INVALID_INPUT"),
            ({"amount_minor": 100, "currency": "XXX"}, "INVALID_INPUT"),
            ({"amount_minor": 100}, "INVALID_INPUT"),
        ):
            answer = await decide(api, lan, request, {"decision": "reduce", "amount": amount})

            assert code_of(answer) == (422, code), amount
        assert (await api.shop.request(request.id)).amount_minor == 250_000

    async def test_an_unknown_request_is_not_found(self, api, lan):
        assert code_of(await decide(api, lan, "req_unknown", APPROVE))[0] == 404

    async def test_one_that_has_expired_is_over(self, api, lan):
        request = await api.shop.filed("A100")
        api.shop.clock.set(TODAY + timedelta(days=7))

        answer = await decide(api, lan, request, APPROVE)

        assert code_of(answer) == (409, "EXPIRED")
        assert answer.json()["at"] == "2026-10-16T02:00:00Z"

    async def test_a_rule_says_why_in_both_languages(self, api, lan):
        request = await api.shop.filed("A100")
        await dispute(api.shop, "A100")

        answer = await decide(api, lan, request, APPROVE)

        assert code_of(answer) == (422, "DECISION_REFUSED")
        assert answer.json()["reason"] == "DISPUTED"
        assert set(answer.json()["sentences"]) == {"vi", "en"}


class TestPaying:
    async def test_what_goes_wrong_after_the_decision_is_no_failure_of_it(self, shop_url):
        gateway = simulator()
        gateway.unreachable = True
        async with opened_api(shop_url, parts={"gateway": gateway}) as api:
            request = await api.shop.filed("A100")

            answer = await decide(api, await api.decider("lan"), request, APPROVE)

        assert answer.status_code == 200
        told = answer.json()
        assert told["request"]["status"] == "APPROVED"
        assert told["payout_error"]["code"] == "PAYMENT_OUTCOME_UNKNOWN"

    async def test_where_a_worker_pays_it_is_left_to_it(self, shop_url):
        async with opened_api(shop_url, payouts={"run": "worker"}) as api:
            request = await api.shop.filed("A100")

            told = (await decide(api, await api.decider("lan"), request, APPROVE)).json()

            assert (told["request"]["status"], told["paid_by_worker"]) == ("APPROVED", True)
            assert await api.shop.read(lambda tx: tx.attempts.of(request.id)) == ()

"""Export and erasure of a customer: everything personal, nothing of the books, and nobody else."""

import asyncio
import json
import resource
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.personal import COPIES, OF_CONVERSATIONS, OF_CUSTOMER, OF_THE_SHOP
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.types import PERSONAL
from support_agent.cli.output import to_json
from support_agent.domain.allocation import Wish
from support_agent.domain.approvals import is_signed
from support_agent.domain.errors import (
    Conflict,
    ConversationNotFound,
    CustomerNotFound,
    DecisionRefused,
    StillInFile,
    StillInUse,
)
from support_agent.domain.people import SYSTEM
from support_agent.domain.preferences import PreferenceKind
from support_agent.domain.refunds import RequestStatus
from support_agent.services.destinations import newest_for
from support_agent.services.inbox import Incoming
from support_agent.services.outcomes import task_about
from support_agent.testing.gateway import Act
from tests.catalogue import rows_of
from tests.heart import (
    add_destination,
    approved,
    assert_sound,
    attack,
    balance,
    calls,
    error_of,
    events,
    open_shop_with,
    operator,
    pay,
    problems,
    requests_of,
    simulator,
)
from tests.kit import Shop, copy_database, open_shop
from tests.planted import BINDING, COD, MARK, NUMBER, WHO, in_columns, in_files, plant, write
from tests.queue_kit import PROCRASTINATE

BY = operator("thu")
BOOKS = (
    *("ledger_entries", "ledger_payouts", "order_balances", "line_balances", "payment_balances"),
    *("refund_requests", "refund_attempts", "cap_counters", "policies", "approvers", "quotes"),
)


@pytest.fixture(scope="module")
def planted_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop with a customer whose every text holds a mark, made once."""
    path = tmp_path_factory.mktemp("planted") / "shop.db"

    async def make() -> None:
        async with open_shop(copy_database(template, path)) as shop:
            await plant(shop)

    asyncio.run(make())
    return path


@pytest.fixture
async def planted(planted_template: Path, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(copy_database(planted_template, tmp_path / "shop.db")) as shop:
        yield shop


@pytest.fixture
async def planted_on_each(shop_on_each: Shop) -> Shop:
    await plant(shop_on_each)
    return shop_on_each


def personal_columns() -> dict[str, set[str]]:
    return {
        table.name: {column.name for column in table.columns if column.info == PERSONAL}
        for table in metadata.tables.values()
        if any(column.info == PERSONAL for column in table.columns)
    }


def test_every_personal_column_is_reached_from_a_customer_and_erased():
    every = (*OF_CUSTOMER, *OF_CONVERSATIONS, *COPIES)
    reached = {reach.table.name: reach for reach in every}

    for table, columns in personal_columns().items():
        if table in OF_THE_SHOP:
            continue
        assert table in reached, f"say in adapters/db/personal.py how {table} is erased"
        reach = reached[table]
        assert reach.deleted is not None or columns <= reach.emptied.keys(), table


def test_what_is_the_shops_own_is_named_and_there():
    assert personal_columns().keys() >= OF_THE_SHOP


async def test_the_mark_is_behind_every_door(planted: Shop):
    held = set(in_columns(planted.url, MARK, NUMBER))

    wanted = {
        f"{table}.{column}"
        for table, columns in personal_columns().items()
        if table not in OF_THE_SHOP
        for column in columns
    }
    # Codes and a random salt hold no words.
    assert held >= wanted - {"preferences.value", "conversations.known", "payout_destinations.salt"}
    assert held >= {"tool_calls.name", "messages.channel_message_id"}


async def test_after_erasing_no_column_and_no_file_holds_the_mark(planted_on_each: Shop):
    planted = planted_on_each
    erased = await planted.container.privacy().erase(WHO, by=BY)

    assert erased.counts.keys() >= {"conversations", "messages", "steps", "tool_calls"}
    assert in_columns(planted.url, MARK, NUMBER) == []
    if planted.url.startswith("sqlite"):
        assert in_files(planted.url, MARK, NUMBER) == []


async def test_names_that_a_model_made_up_go_too_where_the_calls_were_never_run(shop: Shop):
    made_up = [calls(f"no_such_{MARK}_{number}") for number in range(40)]
    await write(shop, "Xin chào", {"calls": made_up}, {"answer": "Vâng."})
    assert "tool_calls.name" in in_columns(shop.url, MARK)

    await shop.container.privacy().erase(WHO, by=BY)

    assert in_columns(shop.url, MARK) == []


async def test_the_books_the_decisions_and_the_history_stay(planted_on_each: Shop):
    planted = planted_on_each
    before = rows_of(planted.url)

    await planted.container.privacy().erase(WHO, by=BY)

    after = rows_of(planted.url)
    for table in BOOKS:
        assert after[table] == before[table], table
    await assert_sound(planted)
    decided = await planted.read(lambda tx: tuple(tx.decisions.all()))
    assert {one.note for one in decided} == {None}
    assert all(is_signed(one, planted.container.keys()) for one in decided)
    assert {request.status for request in await requests_of(planted)} == {
        RequestStatus.REFUNDED,
        RequestStatus.REJECTED,
    }


async def test_the_history_says_that_it_was_and_not_what(planted: Shop):
    await planted.container.privacy().erase(WHO, by=BY)

    (event,) = await events(planted, "privacy.erased")
    assert (event.subject, event.actor.id) == (WHO, "thu")
    assert event.data["messages"].isdigit()
    assert MARK not in str(event)


async def test_a_second_time_changes_nothing_and_is_no_event(planted: Shop):
    await planted.container.privacy().erase(WHO, by=BY)
    before = rows_of(planted.url)

    again = await planted.container.privacy().erase(WHO, by=BY)

    assert again.counts == {}
    assert rows_of(planted.url) == before


async def test_nobody_else_loses_anything(shop_on_each: Shop):
    shop = shop_on_each
    kept = await shop.say("Đơn A100 của tôi đâu?", {"answer": "Đang giao."}, customer="C001")
    await add_destination(shop, "C001", account_number="123123123")
    await write(shop, f"Chào {MARK}")

    await shop.container.privacy().erase(WHO, by=BY)

    messages = await shop.read(lambda tx: tx.conversations.messages(kept.conversation_id))
    assert [message.text for message in messages] == ["Đơn A100 của tôi đâu?", "Đang giao."]
    (account,) = await shop.read(lambda tx: tx.destinations.of_customer("C001"))
    assert account.account_number == "123123123"
    assert in_columns(shop.url, MARK) == []


async def test_the_customer_may_come_back_in_a_new_conversation(planted: Shop):
    old = (await requests_of(planted))[0].conversation_id
    await planted.container.privacy().erase(WHO, by=BY)

    with pytest.raises(ConversationNotFound):
        await write(planted, "Còn đó không?", conversation=old)
    assert await events(planted, "access.denied") == []
    back = await write(planted, "Xin chào shop", {"answer": "Chào bạn."})

    assert back.answer == "Chào bạn."
    assert back.conversation_id != old
    shown = planted.model.requests[-1].turns
    assert [turn.text for turn in shown] == ["Xin chào shop"]
    assert shown[0].note == ""


async def test_a_run_that_was_erased_is_not_resumed(shop: Shop):
    stopped = await write(shop, "Xin chào", {"error": "503"})
    await shop.container.privacy().erase(WHO, by=BY)

    with pytest.raises(Conflict, match="were erased"):
        await shop.container.agent().resume(stopped.run_id, operator="thu", via="test")


async def test_a_message_on_its_way_does_not_land_in_what_is_being_erased(shop_on_each: Shop):
    shop = shop_on_each
    told = await write(shop, "Xin chào")
    conversation, _ = await shop.container.desk().find(
        BINDING, conversation_id=told.conversation_id, first_text="Alo"
    )
    held, go = threading.Event(), threading.Event()

    def erase(tx) -> None:
        assert not tx.privacy.hold(WHO)
        held.set()
        assert go.wait(30)
        tx.privacy.erase(WHO, at=shop.clock.now())

    def take(tx):
        incoming = Incoming(text="Alo", binding=BINDING)
        return shop.container.beginning().take(tx, conversation, "Alo", incoming)

    erasing = asyncio.create_task(shop.write(erase))
    await asyncio.to_thread(held.wait)
    taking = asyncio.create_task(shop.write(take))
    go.set()
    await erasing

    with pytest.raises(ConversationNotFound):
        await taking
    assert in_columns(shop.url, "Alo") == []


async def test_a_conversation_that_begins_meanwhile_is_not_erased(postgres_shop_url: str):
    async with open_shop(postgres_shop_url) as shop:  # SQLite has one writer
        await write(shop, "Xin chào")
        held, go = threading.Event(), threading.Event()

        def erase(tx) -> None:
            assert not tx.privacy.hold(WHO)
            held.set()
            assert go.wait(30)
            tx.privacy.erase(WHO, at=shop.clock.now())

        erasing = asyncio.create_task(shop.write(erase))
        await asyncio.to_thread(held.wait)
        posted = await shop.container.agent().post(Incoming(text="Alo", binding=BINDING))
        go.set()
        await erasing
        shop.model.play({"answer": "Vâng."})
        await shop.container.agent().work(posted.conversation_id)

        messages = await shop.read(lambda tx: tx.conversations.messages(posted.conversation_id))
        assert [message.text for message in messages] == ["Alo", "Vâng."]


class TestAccounts:
    async def test_an_erased_account_is_none(self, planted: Shop):
        (account,) = await planted.read(lambda tx: tx.destinations.of_customer(WHO))
        await planted.container.privacy().erase(WHO, by=BY)

        (erased,) = await planted.read(lambda tx: tx.destinations.of_customer(WHO))
        assert (erased.account_number, erased.holder, erased.salt) == ("", "", None)
        assert (erased.id, erased.bank) == (account.id, account.bank)
        assert NUMBER[-4:] not in erased.masked
        assert await planted.read(lambda tx: newest_for(tx, WHO)) is None

    async def test_a_new_one_is_used_after_it(self, shop: Shop):
        await add_destination(shop, WHO)
        await shop.container.privacy().erase(WHO, by=BY)

        assert error_of(await shop.quote(COD, customer=WHO)) == "DESTINATION_MISSING"
        new = await add_destination(shop, WHO, account_number="999999999")

        (quote,) = (await shop.quote(COD, customer=WHO)).quotes
        assert new.id in quote.destination
        await assert_sound(shop)

    async def test_the_digest_that_stays_cannot_be_guessed(self, shop: Shop):
        first = await add_destination(shop, WHO)
        (event,) = await events(shop, "destination.added")

        assert first.salt
        assert first.salt not in str(event)
        assert first.salt not in str(rows_of(shop.url)["audit_events"])

    async def test_one_that_somebody_emptied_by_hand_is_found(self, shop: Shop):
        await add_destination(shop, WHO)
        attack(
            shop.url,
            "UPDATE payout_destinations SET account_number = '', holder = '', salt = NULL",
        )

        (problem,) = await problems(shop)
        assert problem.endswith("is not what its history says")

    async def test_one_that_was_erased_and_filled_again_is_found(self, shop: Shop):
        await add_destination(shop, WHO)
        await shop.container.privacy().erase(WHO, by=BY)
        attack(shop.url, "UPDATE payout_destinations SET account_number = '666666', holder = 'X'")

        assert any(
            problem.endswith("is not what its history says") for problem in await problems(shop)
        )
        assert error_of(await shop.quote(COD, customer=WHO)) == "DESTINATION_MISSING"


class TestRefusals:
    async def test_a_request_that_is_not_final_is_named(self, shop: Shop):
        request = await shop.filed("A100")

        with pytest.raises(StillInUse, match=request.id) as refused:
            await shop.container.privacy().erase("C001", by=BY)

        assert refused.value.requests == (request.id,)
        messages = await shop.read(lambda tx: tx.conversations.messages(request.conversation_id))
        assert all(message.text for message in messages)
        assert await events(shop, "privacy.erased") == []

    async def test_a_message_that_waits_for_its_answer(self, shop: Shop):
        posted = await shop.container.agent().post(Incoming(text="Alo", binding=BINDING))

        with pytest.raises(StillInUse, match="being answered") as refused:
            await shop.container.privacy().erase(WHO, by=BY)

        assert refused.value.conversations == (posted.conversation_id,)

    async def test_a_conversation_that_a_person_has(self, shop: Shop):
        told = await write(
            shop, "Cho tôi gặp nhân viên", calls("hand_off", reason="asked"), {"answer": "Vâng."}
        )

        with pytest.raises(StillInUse, match="a person has") as refused:
            await shop.container.privacy().erase(WHO, by=BY)

        assert refused.value.conversations == (told.conversation_id,)

    async def test_a_customer_nobody_knows(self, shop: Shop):
        for unknown in ("C999", "C00\0", ""):
            with pytest.raises(CustomerNotFound):
                await shop.container.privacy().erase(unknown, by=BY)
            with pytest.raises(CustomerNotFound):
                await shop.container.privacy().export(unknown, by=BY)

    async def test_a_customer_of_whom_nothing_is_kept(self, shop: Shop):
        assert (await shop.container.privacy().erase("C002", by=BY)).counts == {}

    async def test_one_whom_only_we_still_know_is_erased(self, shop: Shop):
        await write(shop, f"Chào {MARK}")
        attack(shop.url, ("DELETE FROM shop_customers WHERE id = ?", (WHO,)))

        assert (await shop.container.privacy().erase(WHO, by=BY)).counts["messages"] == 2


def begin_other(connection: sqlite3.Connection, begin: str) -> None:
    connection.execute(begin)
    connection.execute("SELECT count(*) FROM messages").fetchone()


class TestFiles:
    @pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"], ids=["reader", "writer"])
    async def test_another_process_may_keep_the_old_text_in_the_file_and_that_is_said(
        self, shop: Shop, begin
    ):
        await write(shop, f"Chào {MARK}")
        path = shop.url.removeprefix("sqlite:///")
        impatient = SqlDatabase(shop.url, shop.container.keys(), busy_timeout_s=0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            if begin == "BEGIN":
                begin_other(other, begin)
            await shop.write(lambda tx: tx.privacy.erase(WHO, at=shop.clock.now()))
            if begin != "BEGIN":
                begin_other(other, begin)

            with pytest.raises(StillInFile):
                await impatient.scrub()
            assert in_files(shop.url, MARK)

        await impatient.scrub()
        await impatient.aclose()
        assert in_files(shop.url, MARK) == []

    async def test_without_room_on_the_disk_that_is_said_too(self, shop: Shop):
        await write(shop, f"Chào {MARK}")
        await shop.write(lambda tx: tx.privacy.erase(WHO, at=shop.clock.now()))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StillInFile, match="the disk is full"):
                await shop.container.database().scrub()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        await shop.container.database().scrub()
        assert in_files(shop.url, MARK) == []


class TestExport:
    def test_every_section_is_documented(self):
        page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")

        for reach in (*OF_CONVERSATIONS, *OF_CUSTOMER, *COPIES):
            assert f"`{reach.table.name}`" in page, reach.table.name

    async def test_it_holds_every_text_there_is_of_the_customer(self, planted: Shop):
        export = await planted.container.privacy().export(WHO, by=BY)

        told = json.loads(to_json(export.rows))
        copies = {reach.table.name for reach in COPIES}
        for table, columns in personal_columns().items():
            if table in OF_THE_SHOP | copies:
                continue
            for column in columns - {"salt", "known"}:
                held = [row[column] for row in told[table] if row[column]]
                assert held, f"{table}.{column}"
        assert told["payout_destinations"][0]["account_number"] == NUMBER
        assert {row["status"] for row in told["refund_requests"]} == {"REFUNDED", "REJECTED"}
        assert told["preferences"][0]["value"] == "en"
        assert told.keys() >= {"ledger_entries", "quotes", "refund_decisions", "audit_events"}

    async def test_it_holds_nothing_of_anybody_else(self, planted: Shop):
        await planted.say("Bí mật của C001", {"answer": "Riêng C001."}, customer="C001")
        await planted.filed("A102")

        export = await planted.container.privacy().export(WHO, by=BY)

        told = to_json(export.rows)
        assert "C001" not in told
        assert "A102" not in told

    async def test_a_task_about_what_staff_filed_is_in_it(self, shop: Shop):
        desk = shop.container.staff()
        order = await desk.order("A102")
        (request,) = await desk.file(order, Wish(), by=await shop.approver("huong"))
        assert request.conversation_id is None
        task = task_about(request, "payout_problem", shop.clock)
        await shop.write(lambda tx: tx.tasks.add(task))

        export = await shop.container.privacy().export("C001", by=BY)

        assert [row["id"] for row in export.rows["tasks"]] == [task.id]

    async def test_that_another_customer_reached_for_it_names_nobody(self, shop: Shop):
        told = await write(shop, "Xin chào")
        with pytest.raises(ConversationNotFound):
            await shop.say("Alo", customer="C001", conversation=told.conversation_id)
        assert await events(shop, "access.denied")

        theirs = await shop.container.privacy().export(WHO, by=BY)
        of_who_tried = await shop.container.privacy().export("C001", by=BY)

        assert "C001" not in to_json(theirs.rows)
        tried = {row["action"] for row in of_who_tried.rows["audit_events"]}
        assert "access.denied" in tried

    async def test_that_somebody_looked_is_in_the_history(self, planted: Shop):
        await planted.container.privacy().export(WHO, by=BY)

        (event,) = await events(planted, "privacy.exported")
        assert (event.subject, event.actor.id, dict(event.data)) == (WHO, "thu", {})

    async def test_after_erasing_it_holds_ids_states_and_amounts(self, planted: Shop):
        await planted.container.privacy().erase(WHO, by=BY)

        export = await planted.container.privacy().export(WHO, by=BY)

        told = to_json(export.rows)
        assert MARK not in told
        assert NUMBER not in told
        assert len(export.rows["refund_requests"]) == 2
        assert "preferences" not in export.rows
        assert "compactions" not in export.rows


async def test_jobs_of_the_queue_hold_ids_and_no_words(queue_url: str):
    async with open_shop(queue_url, queue=PROCRASTINATE) as shop:
        posted = await shop.container.agent().post(Incoming(text=f"Alo {MARK}", binding=BINDING))

        of_jobs = "procrastinate_jobs.args"
        assert of_jobs in in_columns(queue_url, posted.conversation_id)
        held = in_columns(queue_url, MARK)
        assert sorted(held) == ["conversations.external_contact", "messages.text"]


async def test_what_was_remembered_is_gone_too(planted: Shop):
    assert await planted.read(lambda tx: tx.preferences.of(WHO))

    await planted.container.privacy().erase(WHO, by=BY)

    assert await planted.read(lambda tx: tx.preferences.of(WHO)) == ()
    conversations = await planted.read(
        lambda tx: tx.conversations.list(customer_id=WHO, limit=10, before=None)
    )
    assert {(one.known, one.erased, one.external_contact) for one in conversations} == {
        ((), True, "")
    }
    assert PreferenceKind.LANGUAGE not in {
        one.kind for one in await planted.read(lambda tx: tx.preferences.of(WHO))
    }


async def test_in_an_erased_conversation_an_approver_can_ask_nothing(shop_url: str):
    gateway = simulator()
    async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
        request = await approved(shop)
        gateway.will(Act.DECLINE)
        await shop.container.payouts().pay(request.id)
        await shop.container.privacy().erase("C001", by=BY)
        await shop.container.retries().retry(request.id, by=BY)

        with pytest.raises(DecisionRefused, match="NO_CONVERSATION"):
            await shop.container.approvals().ask(
                request.id, question="Số tài khoản?", by=await shop.approver("huong")
            )


async def test_a_late_failure_is_booked_though_its_conversation_is_just_erased(
    postgres_shop_url: str,
):
    async with open_shop_with(postgres_shop_url, overrides={"gateway": simulator()}) as shop:
        request = await pay(shop, await approved(shop))
        held, go = threading.Event(), threading.Event()
        life = shop.container.life()

        def erase(tx) -> None:
            assert not tx.privacy.hold("C001")
            held.set()
            assert go.wait(30)
            tx.privacy.erase("C001", at=shop.clock.now())

        def fail(tx) -> None:
            threading.Timer(0.5, go.set).start()  # by when the notice waits for the conversation
            life.transition(tx, request, RequestStatus.FAILED, actor=SYSTEM)

        erasing = asyncio.create_task(shop.write(erase))
        await asyncio.to_thread(held.wait)
        await asyncio.gather(shop.write(fail), erasing)

        assert (await shop.request(request.id)).status is RequestStatus.FAILED
        assert await balance(shop) == (0, 0)
        await assert_sound(shop)

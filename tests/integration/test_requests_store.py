"""Quotes, requests, decisions and attempts on real databases."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.stores.requests import SqlRequests
from support_agent.domain.approvals import Choice, Decision, is_genuine
from support_agent.domain.consent import Consent
from support_agent.domain.errors import AlreadyDecided, Conflict, InvalidInput, NotFound
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    AttemptStatus,
    RefundLine,
    RefundRequest,
    RequestStatus,
)
from support_agent.ports.storage import RequestFilter, Transaction, Unreadable
from support_agent.testing.builders import (
    NOW,
    make_attempt,
    make_line,
    make_order,
    make_payment,
    make_posting,
    make_quote,
    make_request,
)

T = TypeVar("T")
S = RequestStatus
UNSTORABLE = ("", "no-such-id", "a\0b", "\ud800")

FULL = make_request(
    "req-full",
    lines=(
        RefundLine(line_id="dòng/2", units=2, amount_minor=100_000),
        RefundLine(line_id="1", units=0, amount_minor=150_001),
    ),
    amount_minor=250_001,
    method=PaymentMethod.GIFT_CARD,
    verdict=Verdict.NEEDS_REVIEW,
    reasons=(Reason.DELIVERED_AT_MISSING, Reason.CLOCK_OR_DATA),
    consent=Consent.UNCLEAR,
    requester=Principal(
        kind=PrincipalKind.STAFF, id="lan", person_id="person-lan", proof=Proof.TOKEN, via="cli"
    ),
    operator="minh",
    conversation_id=None,
    run_id=None,
    approved_until=NOW + timedelta(days=1, microseconds=1),
    created_at=NOW + timedelta(microseconds=123_456),
)


def moved_to(request: RefundRequest, status: RequestStatus) -> RefundRequest:
    return replace(request, status=status, version=request.version + 1)


async def write(database: SqlDatabase, fn: Callable[[Transaction], T]) -> T:
    return await database.transact(fn)


async def file(database: SqlDatabase, *requests: object) -> None:
    for request in requests:
        await database.transact(lambda tx, r=request: tx.requests.add(r))


class TestQuotes:
    async def test_a_quote_comes_back_whole(self, database):
        quote = make_quote("q1", reasons=(Reason.ABOVE_AUTO_LIMIT,), lines=FULL.lines, shown_seq=7)
        await write(database, lambda tx: tx.quotes.add(quote))

        assert await database.read(lambda tx: tx.quotes.get("q1")) == quote

    @pytest.mark.parametrize("quote_id", UNSTORABLE)
    async def test_an_unknown_one_is_none(self, database, quote_id):
        assert await database.read(lambda tx: tx.quotes.get(quote_id)) is None

    async def test_a_newer_one_voids_what_is_open_in_the_conversation_only(self, database):
        def fill(tx: Transaction) -> None:
            for quote in (
                make_quote("q1"),
                make_quote("q2"),
                make_quote("q3", conversation_id="c2"),
            ):
                tx.quotes.add(quote)
            tx.requests.add(make_request("r1", quote_id="q2"))
            tx.quotes.supersede("conv-1")
            tx.quotes.add(make_quote("q4"))

        await write(database, fill)

        voided = {
            name: (await database.read(lambda tx, n=name: tx.quotes.get(n))).superseded
            for name in ("q1", "q2", "q3", "q4")
        }
        assert voided == {"q1": True, "q2": False, "q3": False, "q4": False}
        still_open = await database.read(lambda tx: tx.quotes.open_in("conv-1"))
        assert [quote.id for quote in still_open] == ["q4"]

    async def test_the_last_showing_counts(self, database):
        def fill(tx: Transaction) -> None:
            for name in ("q1", "q2", "q3"):
                tx.quotes.add(make_quote(name))
            tx.quotes.mark_shown(("q1",), seq=4)
            tx.quotes.mark_shown(("q1", "q2"), seq=9)
            tx.quotes.mark_shown((), seq=11)

        await write(database, fill)

        quotes = await database.read(lambda tx: tx.quotes.open_in("conv-1"))
        assert [quote.shown_seq for quote in quotes] == [9, 9, None]


class TestRequests:
    async def test_a_request_comes_back_whole(self, database):
        await file(database, FULL)

        assert await database.read(lambda tx: tx.requests.get("req-full")) == FULL
        assert await database.read(lambda tx: tx.requests.by_quote(FULL.quote_id)) == FULL

    @pytest.mark.parametrize("request_id", UNSTORABLE)
    async def test_an_unknown_one_is_none(self, database, request_id):
        await file(database, FULL)

        assert await database.read(lambda tx: tx.requests.get(request_id)) is None
        assert await database.read(lambda tx: tx.requests.by_quote(request_id)) is None

    async def test_a_quote_is_filed_once(self, database):
        first, second = make_request("r1", quote_id="q1"), make_request("r2", quote_id="q1")
        await file(database, first)

        with pytest.raises(Conflict, match="'q1'"):
            await file(database, second)
        assert await database.read(lambda tx: tx.requests.by_quote("q1")) == first

    async def test_a_quote_filed_many_times_at_once_is_filed_once(self, database):
        outcomes = await asyncio.gather(
            *(file(database, make_request(f"r{n}", quote_id="q1")) for n in range(6)),
            return_exceptions=True,
        )

        refused = [outcome for outcome in outcomes if outcome is not None]
        assert [type(outcome) for outcome in refused] == [Conflict] * 5

    async def test_a_move_needs_status_and_version_as_seen(self, database):
        request = make_request("r1")
        await file(database, request)
        until = NOW + timedelta(hours=1)

        def move(seen: object, to: RequestStatus, round_: int = 1) -> Awaitable[bool]:
            return database.transact(
                lambda tx: tx.requests.move(
                    seen,
                    replace(
                        seen,
                        status=to,
                        version=seen.version + 1,
                        round=round_,
                        approved_until=until,
                    ),
                )
            )

        assert not await move(replace(request, version=2), S.APPROVED)
        assert not await move(replace(request, status=S.APPROVED), S.APPROVED)
        assert await move(request, S.APPROVED)
        assert not await move(request, S.REJECTED)
        approved = replace(request, status=S.APPROVED, version=2, approved_until=until)
        assert await database.read(lambda tx: tx.requests.get("r1")) == approved
        assert await move(approved, S.PENDING_APPROVAL, 2)
        assert (await database.read(lambda tx: tx.requests.get("r1"))).round == 2

    async def test_of_many_movers_one_wins(self, database):
        request = make_request("r1")
        await file(database, request)

        moved = await asyncio.gather(
            *(
                database.transact(
                    lambda tx: tx.requests.move(request, moved_to(request, S.APPROVED))
                )
                for _ in range(8)
            )
        )

        assert moved.count(True) == 1

    async def test_the_books_of_an_order_name_its_requests(self, database):
        statuses = (S.PENDING_APPROVAL, S.REFUNDED, S.REJECTED, S.IN_DOUBT, S.FAILED)
        await file(database, *(make_request(f"r-{s}", status=s) for s in statuses))
        await file(database, make_request("elsewhere", order_id="A2"))

        books = await database.read(lambda tx: tx.books.of_order("A1"))
        own = await database.read(lambda tx: tx.books.of_order("A1", without_request="r-IN_DOUBT"))

        assert books.open_request_ids == ("r-PENDING_APPROVAL", "r-IN_DOUBT")
        assert books.refunded_request_ids == ("r-REFUNDED",)
        assert own.open_request_ids == ("r-PENDING_APPROVAL",)


class TestExpired:
    async def test_names_what_waited_too_long_and_is_not_being_paid(self, database):
        late, early = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
        paying = make_request("paying", status=S.APPROVED, approved_until=late)
        failed = make_request("failed-once", status=S.APPROVED, approved_until=late)
        await file(
            database,
            make_request("approved", status=S.APPROVED, approved_until=late, expires_at=late),
            make_request("pending", expires_at=late),
            make_request(
                "approved-in-time", status=S.APPROVED, approved_until=early, expires_at=late
            ),
            make_request("pending-in-time", expires_at=early, approved_until=late),
            make_request("at-the-second", expires_at=NOW),
            make_request("rejected", status=S.REJECTED, expires_at=late),
            paying,
            failed,
        )
        failure = make_attempt(failed, status=AttemptStatus.FAILED)
        for attempt in (make_attempt(paying), failure):
            assert await write(database, lambda tx, a=attempt: tx.attempts.add(a))

        def expired(limit: int, after: str | None = None) -> Awaitable[tuple[str, ...]]:
            return database.read(lambda tx: tx.requests.expired(NOW, limit=limit, after=after))

        assert await expired(10) == ("approved", "pending", "failed-once")
        assert await expired(2) == ("approved", "pending")
        assert await expired(2, after="pending") == ("failed-once",)
        assert await expired(2, after="failed-once") == ()


class TestLists:
    async def test_pending_ones_come_oldest_first_and_page_by_page(self, database):
        waits = {"r-c": 3, "r-a": 1, "r-b": 1, "r-d": 2}
        await file(
            database,
            *(make_request(n, created_at=NOW + timedelta(seconds=s)) for n, s in waits.items()),
            make_request("done", status=S.REFUNDED, created_at=NOW),
        )
        pending = RequestFilter(status=S.PENDING_APPROVAL)

        assert await paged(database, pending, limit=3) == [["r-a", "r-b", "r-d"], ["r-c"]]
        assert await paged(database, pending, limit=1) == [["r-a"], ["r-b"], ["r-d"], ["r-c"]]
        assert await paged(database, pending, limit=4) == [["r-a", "r-b", "r-d", "r-c"]]

    async def test_the_others_come_newest_first_by_filing_not_by_clock(self, database):
        await file(
            database,
            make_request("r1", created_at=NOW + timedelta(days=9)),
            make_request("r2", status=S.REFUNDED, customer_id="C2"),
            make_request("r3", status=S.REFUNDED, order_id="A2"),
            make_request("r4", status=S.REFUNDED),
        )

        assert await paged(database, RequestFilter(), limit=3) == [["r4", "r3", "r2"], ["r1"]]
        refunded = RequestFilter(status=S.REFUNDED)
        assert await paged(database, refunded, limit=2) == [["r4", "r3"], ["r2"]]
        assert await paged(database, RequestFilter(customer_id="C2"), limit=9) == [["r2"]]
        assert await paged(database, RequestFilter(order_id="A2"), limit=9) == [["r3"]]
        mine = RequestFilter(status=S.PENDING_APPROVAL, customer_id="C1", order_id="A1")
        assert await paged(database, mine, limit=9) == [["r1"]]
        assert await paged(database, RequestFilter(customer_id="c1"), limit=9) == [[]]
        assert await paged(database, RequestFilter(order_id="A\0"), limit=9) == [[]]

    async def test_a_page_does_not_shift_when_something_is_filed_or_decided_meanwhile(
        self, database
    ):
        await file(database, *(make_request(f"r{n}") for n in range(4)))
        pending = RequestFilter(status=S.PENDING_APPROVAL)
        first = await database.read(lambda tx: tx.requests.list(pending, limit=2))
        await write(
            database,
            lambda tx: tx.requests.move(first.data[0], moved_to(first.data[0], S.REJECTED)),
        )
        await file(database, make_request("r9"))

        second = await database.read(
            lambda tx: tx.requests.list(pending, limit=9, cursor=first.next_cursor)
        )
        assert [r.id for r in first.data] == ["r0", "r1"]
        assert [r.id for r in second.data] == ["r2", "r3", "r9"]

    async def test_in_status_is_oldest_first(self, database):
        await file(
            database,
            make_request("r1", status=S.IN_DOUBT),
            make_request("r2"),
            make_request("r3", status=S.PAYING),
            make_request("r4", status=S.IN_DOUBT),
        )

        def ids(
            *statuses: RequestStatus, limit: int = 9, after: str | None = None
        ) -> Awaitable[tuple[str, ...]]:
            return database.read(
                lambda tx: tx.requests.in_status(statuses, limit=limit, after=after)
            )

        assert await ids(S.PAYING, S.IN_DOUBT) == ("r1", "r3", "r4")
        assert await ids(S.PAYING, S.IN_DOUBT, limit=2) == ("r1", "r3")
        assert await ids(S.PAYING, S.IN_DOUBT, limit=2, after="r3") == ("r4",)
        assert await ids(S.PAYING, S.IN_DOUBT, after="r2") == ("r3", "r4")  # of another status
        assert await ids(S.PAYING, S.IN_DOUBT, after="r4") == ()
        assert await ids(S.PENDING_APPROVAL, S.PAYING) == ("r2", "r3")
        assert await ids() == ()

    @pytest.mark.parametrize("broken", [(), ("r2",), ("r1", "r2", "r3")])
    async def test_all_come_oldest_first_and_what_cannot_be_read_keeps_its_place(
        self, database, broken: tuple[str, ...]
    ):
        stored = [make_request(name) for name in ("r1", "r2", "r3")]
        await file(database, *stored)
        spoil = sa.text("UPDATE refund_requests SET reasons = '[\"BOGUS\"]' WHERE id = :id")
        for request_id in broken:
            await database.run_write(lambda c, i=request_id: c.execute(spoil, {"id": i}))

        assert await database.read(lambda tx: list(tx.requests.all())) == [
            Unreadable(id=request.id) if request.id in broken else request for request in stored
        ]

    @pytest.mark.parametrize("status", [S.PENDING_APPROVAL, S.REFUNDED, None])
    async def test_a_cursor_of_another_list_is_refused(self, database, status):
        await file(database, make_request("r1"), make_request("r2"))
        other = None if status is S.PENDING_APPROVAL else S.PENDING_APPROVAL
        page = await database.read(
            lambda tx: tx.requests.list(RequestFilter(status=other), limit=1)
        )
        bad = [page.next_cursor, "", "x", "////", "é", "a" * 501, "[" * 400, *map(cursor, FORGED)]

        for forged in bad:
            with pytest.raises(InvalidInput, match="cursor"):
                await database.read(
                    lambda tx, c=forged: tx.requests.list(
                        RequestFilter(status=status), limit=1, cursor=c
                    )
                )


FORGED = (
    "null",
    "[]",
    '["queue"]',
    '["queue",1]',
    '["queue","1","r1"]',
    '["queue",true,"r1"]',
    '["queue",1.0,"r1"]',
    '["queue",-1,"r1"]',
    '["queue",9223372036854775808,"r1"]',
    '["queue",1,"\\u0000"]',
    '["queue",1,"\\ud800"]',
    '["queue", 1,"r1"]',
    '["newest","1"]',
    '["newest",true]',
    '["newest",9223372036854775808]',
    '["newest",1,2]',
)


def cursor(body: str) -> str:
    return base64.urlsafe_b64encode(body.encode()).rstrip(b"=").decode()


async def paged(database: SqlDatabase, where: RequestFilter, *, limit: int) -> list[list[str]]:
    """The ids of every page, following the cursors."""
    pages, after = [], None
    while True:
        page = await database.read(
            lambda tx, c=after: tx.requests.list(where, limit=limit, cursor=c)
        )
        pages.append([request.id for request in page.data])
        after = page.next_cursor
        if after is None:
            return pages


async def explained(database: SqlDatabase, where: RequestFilter, after: str | None) -> str:
    """A list's query as it really goes out, and its plan on SQLite."""
    sent: list[tuple[str, object]] = []

    def look(connection: sa.Connection) -> str:
        def note(_c: object, _cursor: object, statement: str, values: object, *_: object) -> None:
            sent.append((statement, values))

        sa.event.listen(connection, "before_cursor_execute", note)
        SqlRequests(connection).list(where, limit=20, cursor=after)
        statement, values = sent[0]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        return "\n".join([statement, *(row[3] for row in plan)])

    return await database.run_read(look)


async def test_the_queue_is_walked_along_its_partial_index_without_a_sort(sqlite_url, keys):
    database = SqlDatabase(sqlite_url, keys)
    await file(database, make_request("r1"), make_request("r2"))
    pending = RequestFilter(status=S.PENDING_APPROVAL)
    first = await database.read(lambda tx: tx.requests.list(pending, limit=1))

    for after in (None, first.next_cursor):
        plan = await explained(database, pending, after)
        assert "status = 'PENDING_APPROVAL'" in plan  # bound, a generic plan would miss the index
        assert "USING INDEX ix_refund_requests_queue" in plan
        assert "TEMP B-TREE" not in plan
    others = await explained(database, RequestFilter(status=S.REFUNDED), None)
    assert "USING INDEX ix_refund_requests_status" in others
    assert "TEMP B-TREE" not in others
    await database.aclose()


class TestDecisions:
    def decision(self, keys: object, decision_id: str = "d1", **changes: object) -> Decision:
        request = make_request("r1")
        plain = Decision(
            id=decision_id,
            request_id="r1",
            round=1,
            choice=Choice.APPROVE,
            level=1,
            person_id="person-lan",
            name="lan",
            proof=Proof.TOKEN,
            fingerprint=request.fingerprint,
            amount_minor=request.amount_minor,
            currency=request.currency,
            limit_minor=2_000_000,
            note="Khách quen, hàng lỗi đường chỉ",
            at=NOW + timedelta(microseconds=5),
        )
        plain = replace(plain, **changes)
        key_id, mac = keys.sign(plain.fields())
        return replace(plain, key_id=key_id, mac=mac)

    async def test_a_decision_comes_back_whole_and_still_verifies(self, database, keys):
        await file(database, make_request("r1"))
        decisions = (
            self.decision(keys),
            self.decision(
                keys, "d0", person_id="auto", choice=Choice.AUTO, limit_minor=None, note=None
            ),
            self.decision(keys, "d2", round=2),
        )
        for decision in decisions:
            await write(database, lambda tx, d=decision: tx.decisions.add(d))

        stored = await database.read(lambda tx: tx.decisions.of("r1"))
        request = await database.read(lambda tx: tx.requests.get("r1"))
        assert stored == decisions
        assert [is_genuine(d, request, keys) for d in stored] == [True, True, False]
        assert await database.read(lambda tx: tx.decisions.of("r9")) == ()

    async def test_a_person_decides_a_round_once(self, database, keys):
        await file(database, make_request("r1"))
        first = self.decision(keys)
        await write(database, lambda tx: tx.decisions.add(first))
        second = self.decision(keys, "d2", name="other name", choice=Choice.REJECT)

        with pytest.raises(AlreadyDecided) as refused:
            await write(database, lambda tx: tx.decisions.add(second))
        assert (refused.value.status, refused.value.by, refused.value.at) == (
            "approve",
            "lan",
            first.at,
        )
        assert await database.read(lambda tx: tx.decisions.of("r1")) == (first,)

    async def test_a_decision_needs_its_request(self, database, keys):
        with pytest.raises(IntegrityError):
            await write(database, lambda tx: tx.decisions.add(self.decision(keys)))

    @pytest.mark.parametrize(
        "statement", ["UPDATE refund_decisions SET level = 9", "DELETE FROM refund_decisions"]
    )
    async def test_no_hand_changes_or_removes_one(self, database, keys, statement):
        await file(database, make_request("r1"))
        await write(database, lambda tx: tx.decisions.add(self.decision(keys)))

        with pytest.raises(DBAPIError, match="append-only"):
            await database.run_write(lambda c: c.execute(sa.text(statement)))


class TestAttempts:
    async def test_an_attempt_comes_back_whole(self, database):
        request = make_request("r1")
        attempt = make_attempt(request, provider_refund_id="re_1", error_code="E")
        await file(database, request)
        await write(database, lambda tx: tx.attempts.add(attempt))

        assert await database.read(lambda tx: tx.attempts.live("r1")) == attempt
        assert await database.read(lambda tx: tx.attempts.of("r1")) == (attempt,)

    @pytest.mark.parametrize("status", [s for s in AttemptStatus if s is not AttemptStatus.FAILED])
    async def test_a_second_needs_the_first_to_have_failed(self, database, status):
        request = make_request("r1")
        await file(database, request)
        first, second = make_attempt(request, 1), make_attempt(request, 2)
        assert await write(database, lambda tx: tx.attempts.add(first))

        def finish(to: AttemptStatus) -> Awaitable[None]:
            return database.transact(
                lambda tx: tx.attempts.finish(
                    first.id, to, provider_refund_id=None, error_code=None
                )
            )

        await finish(status)
        assert not await write(database, lambda tx: tx.attempts.add(second))
        await finish(AttemptStatus.FAILED)
        assert await database.read(lambda tx: tx.attempts.live("r1")) is None
        assert await write(database, lambda tx: tx.attempts.add(second))
        assert await database.read(lambda tx: tx.attempts.live("r1")) == second
        assert [a.number for a in await database.read(lambda tx: tx.attempts.of("r1"))] == [1, 2]

    async def test_a_number_or_key_is_used_once(self, database):
        request, other = make_request("r1"), make_request("r2")
        await file(database, request, other)
        failed = make_attempt(request, status=AttemptStatus.FAILED)
        assert await write(database, lambda tx: tx.attempts.add(failed))

        for again in (
            replace(failed, id="att-again", key="another"),
            make_attempt(other, key=failed.key),
        ):
            assert not await write(database, lambda tx, a=again: tx.attempts.add(a))

    async def test_of_many_payers_at_once_one_starts(self, database):
        request = make_request("r1")
        await file(database, request)

        added = await asyncio.gather(
            *(
                database.transact(lambda tx, n=n: tx.attempts.add(make_attempt(request, n)))
                for n in range(1, 9)
            )
        )

        assert added.count(True) == 1

    async def test_the_outcome_keeps_a_refund_id_that_was_known(self, database):
        request = make_request("r1")
        await file(database, request)
        attempt = make_attempt(request)
        await write(database, lambda tx: tx.attempts.add(attempt))

        def finish(to: AttemptStatus, refund: str | None, error: str | None) -> Awaitable[None]:
            return database.transact(
                lambda tx: tx.attempts.finish(
                    attempt.id, to, provider_refund_id=refund, error_code=error
                )
            )

        await finish(AttemptStatus.PENDING, "re_1", None)
        await finish(AttemptStatus.FAILED, None, "declined")

        assert await database.read(lambda tx: tx.attempts.of("r1")) == (
            replace(
                attempt,
                status=AttemptStatus.FAILED,
                provider_refund_id="re_1",
                error_code="declined",
            ),
        )

    async def test_an_unknown_attempt_cannot_be_finished(self, database):
        with pytest.raises(NotFound):
            await write(
                database,
                lambda tx: tx.attempts.finish(
                    "att-9", AttemptStatus.FAILED, provider_refund_id=None, error_code=None
                ),
            )

    async def test_what_failed_before_a_commit_left_nothing(self, database):
        """Reserve, request and attempt stand or fall together."""
        order = make_order((make_line("1", 250_000),), (make_payment("P1", 250_000),))
        request = make_request("r1")

        def die(tx: Transaction) -> None:
            tx.books.sync(order)
            assert tx.books.reserve(make_posting("r1", 250_000)) == 250_000
            tx.requests.add(request)
            assert tx.attempts.add(make_attempt(request))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await write(database, die)

        assert await database.read(lambda tx: tx.requests.get("r1")) is None
        assert (await database.read(lambda tx: tx.books.of_order("A1"))).payments == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE refund_requests SET amount_minor = 0",
        "UPDATE refund_requests SET version = 0",
        "UPDATE refund_requests SET round = 0",
        "UPDATE refund_requests SET approvals_needed = 0",
        "UPDATE refund_requests SET status = 'PAID'",
        "UPDATE refund_requests SET method = 'CASH'",
    ],
)
async def test_the_schema_refuses_what_cannot_be(sqlite_url, keys, statement):
    database = SqlDatabase(sqlite_url, keys)
    await file(database, make_request("r1"))

    with pytest.raises(IntegrityError):
        await database.run_write(lambda c: c.execute(sa.text(statement)))
    await database.aclose()

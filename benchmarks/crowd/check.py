"""Reads off the rows what became of a crowd: whether each message was answered once, in order."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from benchmarks.crowd.model import ANSWER, MARK
from benchmarks.crowd.talk import YES, Kind, Story
from support_agent import Container
from support_agent.services.audit import verify

Row = Mapping[str, Any]
CONVERSATIONS = "SELECT id, customer_id, lease_until FROM conversations WHERE channel = 'crowd'"
MESSAGES = (
    "SELECT m.conversation_id, m.seq, m.author, m.text, m.run_id, m.channel_message_id, m.at,"
    " m.posted_at, r.status, r.answer_seq FROM messages m LEFT JOIN runs r ON r.id = m.run_id"
    " ORDER BY m.conversation_id, m.seq"
)
OPEN_CALLS = "SELECT count(*) AS count FROM tool_calls WHERE ok IS NULL"
REFUSED = (
    "SELECT r.conversation_id, c.name, c.content FROM tool_calls c JOIN runs r"
    " ON r.id = c.run_id WHERE NOT c.ok"
)
BROKEN_OFF = (
    "SELECT id, conversation_id, status, stop_reason FROM runs"
    " WHERE status NOT IN ('done', 'waiting_customer')"
)
TAKEN_OVER = "SELECT count(*) AS count FROM runs WHERE attempts > 1"
REFUNDS = (
    "SELECT q.order_id, q.status, q.amount_minor, (SELECT count(*) FROM refund_attempts a WHERE"
    " a.request_id = q.id AND a.status = 'SUCCEEDED') AS succeeded FROM refund_requests q"
)
PAYOUTS = "SELECT gateway_payment_id, amount_minor FROM ledger_payouts"
TOLD = "SELECT key FROM outbox WHERE topic = 'conversation.message'"


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the database when the crowd is gone."""

    conversations: Sequence[Row]
    messages: Sequence[Row]
    refunds: Sequence[Row]
    payouts: Sequence[Row]
    told: frozenset[str]
    refused: Sequence[Row]
    broken_off: Sequence[Row]
    open_calls: int
    taken_over: int


async def found(container: Container) -> Found:
    def read(connection: sa.Connection) -> Found:
        def rows(sql: str) -> Sequence[Row]:
            return connection.exec_driver_sql(sql).mappings().all()

        return Found(
            conversations=rows(CONVERSATIONS),
            messages=rows(MESSAGES),
            refunds=rows(REFUNDS),
            payouts=rows(PAYOUTS),
            told=frozenset(row["key"] for row in rows(TOLD)),
            refused=rows(REFUSED),
            broken_off=rows(BROKEN_OFF),
            open_calls=rows(OPEN_CALLS)[0]["count"],
            taken_over=rows(TAKEN_OVER)[0]["count"],
        )

    return await container.database().run_read(read)


async def problems(container: Container, crowd: Sequence[Story], rows: Found) -> list[str]:
    """Everything that is not as it has to be; empty is good."""
    database, keys = container.database(), container.keys()
    wrong = [*_talk_problems(crowd, rows), *_refund_problems(crowd, rows)]
    wrong += [f"{one['name']} came to {one['content']}" for one in rows.refused]
    wrong += [f"{one['id']} ended {one['status']}, {one['stop_reason']}" for one in rows.broken_off]
    if rows.open_calls:
        wrong.append(f"{rows.open_calls} calls were never answered")
    wrong += [str(mismatch) for mismatch in await database.read(lambda tx: tx.books.check())]
    wrong += (await database.read(lambda tx: verify(tx, keys))).problems
    return wrong


def is_settled(rows: Found) -> bool:
    """Whether everything that was approved is paid."""
    return all(refund["status"] == "REFUNDED" for refund in rows.refunds)


def latencies(rows: Found) -> list[float]:
    """Seconds from each message's commit until it was answered, sorted."""
    answers = {(m["conversation_id"], m["seq"]): m for m in rows.messages if m["author"] == "agent"}
    spent = []
    for message in rows.messages:
        answer = answers.get((message["conversation_id"], message["answer_seq"]))
        if message["author"] == "customer" and answer is not None:
            spent.append(_moment(answer["at"]).timestamp() - message["posted_at"])
    return sorted(spent)


def _moment(at: datetime | str) -> datetime:
    """SQLite's driver gives text without a zone."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _talk_problems(crowd: Sequence[Story], rows: Found) -> Iterator[str]:
    mine: defaultdict[str, list[str]] = defaultdict(list)
    for conversation in rows.conversations:
        mine[conversation["customer_id"]].append(conversation["id"])
        if conversation["lease_until"] is not None:
            yield f"conversation {conversation['id']} was not given back"
    said: defaultdict[str, list[Row]] = defaultdict(list)
    for message in rows.messages:
        said[message["conversation_id"]].append(message)
    for story in crowd:
        ids = mine[story.customer_id]
        if len(ids) == 1:
            for problem in _conversation_problems(story, said[ids[0]], rows.told):
                yield f"{story.customer_id} in {ids[0]}: {problem}"
        else:
            yield f"{story.customer_id} has {len(ids)} conversations"


def _conversation_problems(
    story: Story, messages: Sequence[Row], told: frozenset[str]
) -> Iterator[str]:
    asked = [m for m in messages if m["author"] == "customer"]
    answers = [m for m in messages if m["author"] == "agent"]
    if [m["channel_message_id"] for m in asked] != [one.id for one in story.messages]:
        yield f"the messages are {[m['channel_message_id'] for m in asked]}"
    if [m["seq"] for m in messages] != [*range(1, len(messages) + 1)]:
        yield "the numbers have gaps"
    runs = [*dict.fromkeys(m["run_id"] for m in asked)]
    if [m["run_id"] for m in answers] != runs:
        yield f"{len(answers)} answers to {len(runs)} runs, or not in their order"
    marks = [mark for m in answers for mark in MARK.findall(m["text"])]
    expected = [mark for one in story.messages for mark in MARK.findall(one.text)]
    if marks != expected:
        yield f"answered was {marks}"
    yield from _run_problems(asked, {m["run_id"]: m for m in answers})
    for answer in answers:
        if f"{answer['conversation_id']}:{answer['seq']}" not in told:
            yield f"nobody is told of the answer {answer['seq']}"


def _run_problems(asked: Sequence[Row], answers: Mapping[str, Row]) -> Iterator[str]:
    for message in asked:
        what, answer = message["channel_message_id"], answers.get(message["run_id"])
        if answer is None:
            yield f"{what} was not answered: its run is {message['status']}"
        elif message["answer_seq"] != answer["seq"] or answer["seq"] < message["seq"]:
            yield f"{what} was answered by {answer['seq']}, its run says {message['answer_seq']}"
        elif message["text"] == YES and ANSWER not in answer["text"]:
            yield f"{what} was answered {answer['text']!r}"


def _refund_problems(crowd: Sequence[Story], rows: Found) -> Iterator[str]:
    """Each refund filed once, paid by one attempt, and once in the gateway's own ledger."""
    wanted = [one for one in crowd if one.kind is not Kind.TALK]
    filed = Counter((r["order_id"], r["amount_minor"]) for r in rows.refunds)
    if filed != Counter((one.order_id, one.amount_minor) for one in wanted):
        yield f"filed were {filed}"
    paid = Counter((p["gateway_payment_id"], p["amount_minor"]) for p in rows.payouts)
    if paid != Counter((f"{o.order_id}-PAY-{o.order_id}", o.amount_minor) for o in wanted):
        yield f"the gateway paid {paid}"
    for refund in rows.refunds:
        if refund["status"] != "REFUNDED" or refund["succeeded"] != 1:
            yield f"order {refund['order_id']}: {refund['status']}, {refund['succeeded']} payouts"

"""The console's channels: one line each, in which nothing acts on a terminal."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from support_agent.adapters.channels.console import ConsoleApprovers, ConsoleCustomers
from support_agent.ports.channel import ToApprovers, ToCustomer

MESSAGE = ToCustomer(
    id="con_1:4",
    channel="cli",
    account="local",
    external_contact="C001",
    conversation_id="con_1",
    seq=4,
    text="Đã hoàn 250.000 ₫.\n\x1b[2JCảm ơn",
    language="vi",
)
NOTICE = ToApprovers(
    id="req_1:1",
    request_id="req_1",
    order_id="A100",
    amount_minor=250_000,
    currency="VND",
    required_level=2,
    escalations=0,
    due_at=datetime(2026, 10, 14, 2, tzinfo=UTC),
)


async def test_a_customers_message_is_one_line_with_its_id_and_to_whom_it_goes(capsys):
    await ConsoleCustomers(log_format="console").send(MESSAGE)

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == ("to customer C001 (con_1:4): Đã hoàn 250.000 ₫.\\n\\x1b[2JCảm ơn\n")


async def test_beside_logs_in_json_it_is_json(capsys):
    await ConsoleCustomers(log_format="json").send(MESSAGE)
    await ConsoleApprovers(log_format="json").tell(NOTICE)

    customer, approver = map(json.loads, capsys.readouterr().err.splitlines())
    assert (customer["event"], customer["id"], customer["to"]) == (
        "customer.told",
        "con_1:4",
        "C001",
    )
    assert customer["text"] == "Đã hoàn 250.000 ₫.\\n\\x1b[2JCảm ơn"
    assert (approver["event"], approver["refund_id"]) == ("approvers.told", "req_1")
    assert approver["due_at"] == "2026-10-14T02:00+00:00"


async def test_approvers_are_told_the_amount_the_level_and_what_to_do(capsys):
    console = ConsoleApprovers(log_format="console")
    await console.tell(NOTICE)
    await console.tell(replace(NOTICE, escalations=2, order_id="A\x1b1"))

    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "to approvers of level 2: request req_1 over 250.000\u00a0₫ for order A100 waits; "
        "support-agent approvals show req_1"
    )
    assert "for order A\\x1b1 waits, escalated 2 times" in second

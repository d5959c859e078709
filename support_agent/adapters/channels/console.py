"""Tells at the terminal of whoever delivers: one line on stderr, whatever the log's level is."""

import json
import sys
from collections.abc import Mapping
from typing import Literal

from support_agent.domain.money import format_money
from support_agent.domain.text import visible
from support_agent.ports.channel import ToApprovers, ToCustomer

LONGEST_TEXT = 1_000  # of a message; all of it stands in the conversation

Format = Literal["console", "json"]


class ConsoleCustomers:
    """For customers of the command line, who have no address: whoever is at the host passes it on.

    At least once, as everything here: the same id on two lines is one message.
    """

    def __init__(self, *, log_format: Format) -> None:
        self._format: Format = log_format

    async def send(self, message: ToCustomer) -> None:
        words = f"to customer {message.external_contact} ({message.id}): {message.text}"
        facts = {
            "event": "customer.told",
            "id": message.id,
            "to": message.external_contact,
            "language": message.language,
            "text": message.text,
        }
        _print(words, facts, self._format)


class ConsoleApprovers:
    """That a request waits; `approvals show` tells the rest."""

    def __init__(self, *, log_format: Format) -> None:
        self._format: Format = log_format

    async def tell(self, notice: ToApprovers) -> None:
        amount = format_money(notice.amount_minor, notice.currency)
        escalated = f", escalated {notice.escalations} times" if notice.escalations else ""
        words = (
            f"to approvers of level {notice.required_level}: request {notice.request_id} over "
            f"{amount} for order {notice.order_id} waits{escalated}; "
            f"support-agent approvals show {notice.request_id}"
        )
        facts = {
            "event": "approvers.told",
            "id": notice.id,
            "refund_id": notice.request_id,
            "order_id": notice.order_id,
            "amount_minor": str(notice.amount_minor),
            "currency": notice.currency,
            "level": str(notice.required_level),
            "escalations": str(notice.escalations),
            "due_at": notice.due_at.isoformat(timespec="minutes"),
        }
        _print(words, facts, self._format)


def _print(words: str, facts: Mapping[str, str], how: Format) -> None:
    """Beside logs in JSON it is JSON, so that whoever reads those can read it."""
    if how == "json":
        seen = {name: visible(value, LONGEST_TEXT) for name, value in facts.items()}
        line = json.dumps(seen, ensure_ascii=False)
    else:
        line = visible(words, LONGEST_TEXT)
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the channel

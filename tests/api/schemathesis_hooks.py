"""What a request has to be beyond what a schema can say, for those that are meant to be good ones.

Bad ones are sent as they were thought out. `IDS` (JSON) holds ids of things that there are.
"""

import json
import os
import re
from itertools import count
from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode, HookContext

NUMBERS = count()
CUSTOMER, TARGET = "C001", "http://127.0.0.1:9/events"
KINDS = {"conversation_id": "conversation", "run_id": "run", "request_id": "request"}
KINDS |= {"task_id": "task", "endpoint_id": "endpoint", "delivery_id": "delivery"}

OURS = re.compile(r"[a-z]{2,6}_[0-9a-z]{26}")


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    _of_this_shop(case)
    _customer(case)
    # A cursor, and the place in a stream, is what was handed out before.
    (case.query or {}).pop("cursor", None)
    (case.query or {}).pop("max_amount_minor", None)  # it may not be below the least
    (case.headers or {}).pop("Last-Event-ID", None)
    if "Idempotency-Key" in (case.headers or {}):  # of one request each
        case.headers["Idempotency-Key"] = f"key-{next(NUMBERS)}"
    _body(case)


def _of_this_shop(case: Case) -> None:
    ids = json.loads(os.environ["IDS"])
    for name in case.path_parameters or {}:
        given = str(case.path_parameters[name])
        # One that it has got of an answer is kept, and what others look at is not deleted.
        if name in KINDS and not OURS.fullmatch(given) and case.method != "DELETE":
            case.path_parameters[name] = ids[KINDS[name]]


def _customer(case: Case) -> None:
    """A token is of one customer, and so is what its bearer asks about."""
    for name in ("Support-Agent-Customer", "Support-Agent-Contact"):
        if name in (case.headers or {}):
            case.headers[name] = CUSTOMER
    if "customer_id" in (case.query or {}):
        case.query["customer_id"] = CUSTOMER


def _body(case: Case) -> None:
    if not isinstance(case.body, dict):
        return
    if case.body.get("url") is not None:
        case.body["url"] = TARGET  # a host that there is
    amount = case.body.get("amount")
    if isinstance(amount, dict):
        amount["currency"] = "VND"  # that of the request
        amount["amount_minor"] = int(amount["amount_minor"])  # 1.0 is an integer in JSON Schema
    if case.body.get("operator") is not None:
        case.body["operator"] = "Mai"  # printable, which no pattern says

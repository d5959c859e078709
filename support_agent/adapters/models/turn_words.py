"""What a model reads of a turn: the same words on every wire."""

import json
import math
import re

from support_agent.domain.fencing import fenced, inert
from support_agent.ports.model import Correction, CustomerTurn, Recap

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def customer_text(turn: CustomerTurn) -> str:
    """What the customer wrote, in its fence, under the date it is answered on."""
    today = f"Hôm nay / today: {turn.today.isoformat()}{_noted(turn.note)}"
    return f"{today}\n{fenced('customer_message', turn.text)}"


def correction_text(turn: Correction) -> str:
    """What code says of the last reply, marked as no customer's words."""
    return f"[system notice] {inert(turn.text)}"


def recap_text(turn: Recap) -> str:
    """The facts code keeps, and the summary in a fence of its own."""
    summary = fenced("summary", turn.summary)
    return f"[earlier in this conversation] {inert(turn.facts)}{_noted(turn.note)}\n{summary}"


def _noted(note: str) -> str:
    return f"; {note}" if note else ""


def echoed_name(name: str) -> str:
    """The model's own misspelling, in the alphabet that servers allow in a history."""
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def echoed_arguments(arguments: str) -> str:
    """The model's own arguments, wrapped where they are no JSON object.

    Servers parse the arguments in a history; a malformed one would make them refuse each
    further request of the conversation.
    """
    if not arguments.strip():
        return "{}"
    arguments = inert(arguments)
    if _is_json_object(arguments):
        return arguments
    return json.dumps({"unreadable_arguments": arguments}, ensure_ascii=False)


def _is_json_object(text: str) -> bool:
    try:
        read = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        return isinstance(read, dict)
    except (ValueError, RecursionError):
        return False


def _finite(number: str) -> float:
    """1e999 is JSON, but what Python reads it as is written as Infinity, which is none."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is too large")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

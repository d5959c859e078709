"""What a model passed to a tool, as it is shown: as an object where it is one."""

import json

from support_agent.domain.runs import ToolCall

DEEPEST = 64  # objects and lists within one another; no tool takes any


def arguments_of(call: ToolCall) -> object:
    """The arguments as an object where they are one that JSON can carry, else the model's text."""
    try:
        arguments = json.loads(call.arguments) if call.arguments.strip() else {}
        # Python reads NaN, 1e999, depths and half surrogates that it would not write again.
        json.dumps({"steps": [{"arguments": arguments}]}, allow_nan=False)
        json.dumps(arguments, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return call.arguments
    return arguments if isinstance(arguments, dict) and _is_shallow(arguments) else call.arguments


def _is_shallow(value: object) -> bool:
    here = [value]
    for _ in range(DEEPEST):
        here = [inner for one in here for inner in _inside(one)]
        if not here:
            return True
    return False


def _inside(value: object) -> list[object]:
    match value:
        case dict():
            return [*value.values()]
        case list():
            return value
    return []

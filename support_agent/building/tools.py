"""Tools of others: loaded only when they are named, and held to what ours keep."""

import inspect
import re
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from support_agent.agent.arguments import schema_of
from support_agent.building.plugins import closed_if_it_can, load_class, make
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.tool import Arguments, Effect, ReadTool, Tool, WriteTool
from support_agent.settings import Settings

GROUP = "support_agent.tools"
ENABLED = "SUPPORT_AGENT_TOOLS__ENABLED"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # what every model provider takes


def tools_of_others(settings: Settings, to_close: list[Any]) -> list[Tool[Any]]:
    """One of each that TOOLS__ENABLED names, in its order; what is not named is not imported.

    Raises:
        ConfigurationError: one is not installed, cannot be made, or may not start.
    """
    return [_tool(name, to_close) for name in settings.tools.names]


def all_tools(ours: Sequence[Tool[Any]], others: Sequence[Tool[Any]]) -> list[Tool[Any]]:
    """Ours first, so that what a model is told begins the same whatever is installed.

    Raises:
        ConfigurationError: one is called like another.
    """
    taken = {tool.name for tool in ours}
    for tool in others:
        if tool.name in taken:
            raise _refused(tool, "has a name that is taken; rename it")
        taken.add(tool.name)
    return [*ours, *others]


def _tool(name: str, to_close: list[Any]) -> Tool[Any]:
    found = load_class(name, setting=ENABLED) if ":" in name else _of_entry_point(name)
    tool = make(found, name, setting=ENABLED)
    if not isinstance(tool, ReadTool | WriteTool):
        raise _wrong(f"{name!r} is neither a ReadTool nor a WriteTool: derive it from one")
    _check(tool)
    closed_if_it_can(tool, to_close, setting=ENABLED)
    return tool


def _of_entry_point(name: str) -> type[Any]:
    installed = entry_points(group=GROUP)
    found = {point.value: point for point in installed if point.name == name}
    if not found:
        known = ", ".join(sorted(installed.names)) or "none"
        raise _wrong(f"there is no tool {name!r}; installed are: {known}")
    if len(found) > 1:
        raise _wrong(f"several packages bring a tool {name!r}: {', '.join(sorted(found))}")
    (point,) = found.values()
    return load_class(f"{point.module}:{point.attr}", setting=ENABLED)


def _check(tool: ReadTool[Any] | WriteTool[Any, Any]) -> None:
    """Stop the start at what a model could not call, or what could move money."""
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(f"tool {name!r} needs a name of a-z, 0-9 and _, at most 64 of them")
    effect: object = tool.effect  # of others' code: it may be anything
    if not isinstance(effect, Effect) or effect is Effect.MONEY:
        raise _refused(
            tool, "would move money; only the refund service may: its effect must be READ or WRITE"
        )
    description = getattr(tool, "description", None)
    if not isinstance(description, str) or not description.strip():
        raise _refused(tool, "needs a description: when to use it and what comes back")
    if not isinstance(tool.assurance, Assurance):
        raise _refused(tool, "needs an Assurance, or none of its own")
    _check_arguments(tool)
    if not (tool.timeout_s is None or (_is_number(tool.timeout_s) and tool.timeout_s > 0)):
        raise _refused(tool, "has a timeout_s that is no number of seconds")
    methods = ("run",) if isinstance(tool, ReadTool) else ("prepare", "after_commit")
    for method in methods:
        if not inspect.iscoroutinefunction(getattr(tool, method)):
            raise _refused(tool, f"{method} must be `async def`")
    if isinstance(tool, WriteTool) and inspect.iscoroutinefunction(tool.apply):
        raise _refused(tool, "apply must be a plain `def`: it runs inside a transaction")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_arguments(tool: Tool[Any]) -> None:
    arguments = getattr(tool, "arguments", None)
    if not inspect.isclass(arguments) or not issubclass(arguments, Arguments):
        raise _refused(tool, "needs arguments: a class derived from support_agent.Arguments")
    kept = arguments.model_config
    if kept.get("strict") is not True or kept.get("extra") != "forbid":
        raise _refused(tool, "takes arguments that are not strict; leave strict and extra alone")
    try:
        schema_of(arguments)
    except Exception as error:
        raise _refused(tool, f"has arguments that no schema tells ({error})") from error


def _refused(tool: Tool[Any], why: str) -> ConfigurationError:
    return _wrong(f"tool {tool.name!r} {why}")


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError(problem, setting=ENABLED)

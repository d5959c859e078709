"""Classes of somebody else that settings name: found, made and held against a port."""

import inspect
import sys
from importlib import import_module
from typing import Any

from support_agent.adapters.foreign import fault_of
from support_agent.domain.errors import ConfigurationError


def made(value: str | None, *, setting: str, port: type[Any]) -> Any:  # noqa: ANN401 - any port's
    """An instance of the class, made without arguments, with everything that `port` asks for.

    Raises:
        ConfigurationError: no class is named, it cannot be made, or each method it lacks.
    """
    if value is None:
        raise ConfigurationError("is needed; write package.module:Class", setting=setting)
    instance = make(load_class(value, setting=setting), value, setting=setting)
    problems = [*_lacks(instance, port)]
    if problems:
        raise ConfigurationError(
            f"{value!r} is no {port.__name__}: {'; '.join(problems)}", setting=setting
        )
    return instance


def make(found: type[Any], value: str, *, setting: str) -> Any:  # noqa: ANN401 - any class's
    """An instance of a class that settings name `value`.

    Raises:
        ConfigurationError: it is not made without arguments, or raises something.
    """
    try:
        return found()
    except Exception as error:
        raise ConfigurationError(
            f"{value!r} cannot be made: {fault_of(error)}; it is called without arguments and "
            "takes what it needs from its own settings",
            setting=setting,
        ) from error


def load_class(value: str, *, setting: str) -> type[Any]:
    """The class that `package.module:Class` names.

    The current directory is not searched: what happens to lie in it would run with our keys.

    Raises:
        ConfigurationError: there is no such module or class, or importing it failed.
    """
    module_name, _, name = value.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(_not_found(value, module_name, error), setting=setting) from error
    except Exception as error:
        raise ConfigurationError(
            f"{module_name!r} cannot be imported: {fault_of(error)}", setting=setting
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigurationError(f"module {module_name!r} has no {name!r}", setting=setting)
    if not inspect.isclass(found):
        kind = type(found).__name__
        raise ConfigurationError(f"{value!r} is a {kind}, not a class", setting=setting)
    return found


def _not_found(value: str, module_name: str, error: ModuleNotFoundError) -> str:
    missing = error.name or module_name
    if missing != module_name and not module_name.startswith(f"{missing}."):
        return f"{module_name!r} cannot be imported: it needs {missing!r}, which is not installed"
    where = "" if "" in sys.path else " (the current directory is not searched by itself)"
    return (
        f"{value!r} is not there: no module {missing!r}; install it beside support-agent, or name "
        f"the folder that holds it in PYTHONPATH{where}"
    )


def _lacks(instance: object, port: type[Any]) -> list[str]:
    """What a port's methods and attributes are not there, or not what they should be."""
    problems = []
    for name, wanted in _members(port):
        try:
            there = getattr(instance, name, None)
        except Exception as error:  # noqa: BLE001 - a property of theirs
            problems.append(f"{name} cannot be read: {fault_of(error)}")
            continue
        # One that is inherited from the port itself does nothing and answers None.
        if there is None or (
            wanted is not None and inspect.getattr_static(type(instance), name, None) is wanted
        ):
            problems.append(f"{name} is missing")
        elif inspect.iscoroutinefunction(wanted) and not inspect.iscoroutinefunction(there):
            problems.append(f"{name} must be `async def`")
    return problems


def _members(port: type[Any]) -> list[tuple[str, object]]:
    """Public names of a port, with what it says of each; annotations say nothing more."""
    said = dict.fromkeys(inspect.get_annotations(port)) | dict(vars(port))
    return [(name, wanted) for name, wanted in said.items() if not name.startswith("_")]


def closed_if_it_can(instance: object, to_close: list[Any], *, setting: str) -> None:
    """Remember to close it when it has an `aclose`.

    Raises:
        ConfigurationError: it has one that cannot be awaited.
    """
    aclose = getattr(instance, "aclose", None)
    if aclose is None:
        return
    if not inspect.iscoroutinefunction(aclose):
        name = type(instance).__name__
        raise ConfigurationError(f"aclose of {name!r} must be `async def`", setting=setting)
    to_close.append(instance)

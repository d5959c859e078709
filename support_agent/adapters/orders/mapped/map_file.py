"""Reads an orders map; a mistake in it is named with its key and how to mend it."""

import tomllib
from pathlib import Path

from support_agent.adapters.file_entries import canonical, validated
from support_agent.adapters.orders.mapped.shape import OrdersMap
from support_agent.domain.errors import ConfigurationError

LARGEST = 256 * 1024  # bytes; a map has some hundred lines


def load_map(path: Path) -> OrdersMap:
    """The map that the file holds.

    Raises:
        ConfigurationError: it cannot be read, is not TOML, or says what a map cannot say.
    """
    return validated(OrdersMap, read_map(path), path.name)


def read_map(path: Path) -> bytes:
    """What the file says, in one spelling and not validated yet; also of orders behind an API.

    Raises:
        ConfigurationError: it cannot be read, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or type(error).__name__}"
        raise ConfigurationError(problem, setting=str(path)) from error
    if len(raw) > LARGEST:
        raise ConfigurationError(
            f"is larger than {LARGEST} bytes, which no map of orders is", setting=path.name
        )
    try:
        body = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"is not valid TOML: {' '.join(str(error).split())}"
        raise ConfigurationError(problem, setting=path.name) from error
    return canonical(body, path.name)

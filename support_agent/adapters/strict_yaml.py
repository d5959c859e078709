"""Safe YAML without its surprises, for files that hold money and dates."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from support_agent.domain.errors import ConfigurationError


def read_yaml(path: Path) -> object:
    """What the file holds, not validated yet.

    Raises:
        ConfigurationError: it cannot be read or is not YAML in this sense.
    """
    try:
        loader = _StrictLoader(path.read_text(encoding="utf-8"))
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise ConfigurationError(problem, setting=str(path)) from error
    except (yaml.YAMLError, ValueError) as error:
        problem = "is not valid YAML: " + " ".join(str(error).split())
        raise ConfigurationError(problem, setting=path.name) from error


class _StrictLoader(yaml.SafeLoader):
    """Only true/false, null and plain integers are anything but text; a repeated key is an error.

    Stock YAML reads 0200000 as octal 65536, 1:30 as 90, `no` as false, and keeps the last of two
    equal keys without a word. Dates stay text here, so that what was read is JSON as it is.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the base class declares it so

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            mark = key_node.start_mark
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not text; put it in quotes", mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice; remove one", mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


for tag, pattern, first in (
    ("null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("bool", r"^(?:true|false)$", ["t", "f"]),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
):
    _StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)

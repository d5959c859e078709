"""A tool's arguments: the schema a model is told, and what it sends read strictly."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from support_agent.domain.errors import ConfigurationError, InvalidArguments
from support_agent.ports.tool import Arguments

LONGEST_ARGUMENTS = 20_000  # characters; no tool of a shop needs more
LONGEST_NAME = 64  # of what the model calls a tool or a field, when it is told so
MOST_FIELDS = 10  # that one error names


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema a model sees, without pydantic's titles.

    Definitions stand where they are used: many servers look for them elsewhere, or not at all.
    """
    schema = arguments.model_json_schema()
    definitions = schema.pop("$defs", {})
    told: dict[str, Any] = _told(schema, definitions, frozenset())
    return told


def _told(schema: Any, definitions: Mapping[str, Any], above: frozenset[str]) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(schema, list):
        return [_told(part, definitions, above) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in above:
        raise ConfigurationError(f"the arguments of a tool hold themselves: {name!r}")
    if name in definitions:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _told({**definitions[name], **beside}, definitions, above | {name})
    return {
        key: _told(value, definitions, above)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def parse_arguments(model: type[Arguments], text: str) -> Arguments:
    """Arguments from the model's text: strict, no unknown field, nothing guessed.

    An empty text is `{}`. A JSON object inside a JSON string is unwrapped once.

    Raises:
        InvalidArguments: names each field that does not fit.
    """
    value = _json(text) if text.strip() else {}
    if isinstance(value, str):
        value = _json(value)
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise InvalidArguments({"arguments": f"must be a JSON object, not {kind}"})
    try:
        # From JSON text: strict mode takes a tuple or an enum from JSON but not from Python.
        return model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise InvalidArguments(_fields_of(error)) from error


def _json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    if len(text) > LONGEST_ARGUMENTS:
        raise InvalidArguments({"arguments": f"longer than {LONGEST_ARGUMENTS} characters"})
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments({"arguments": f"not valid JSON ({error})"}) from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that stands in it twice nobody knows which value is meant."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidArguments({twice[:LONGEST_NAME]: "is given more than once"})
    return fields


def _fields_of(error: ValidationError) -> dict[str, str]:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    fields = {
        ".".join(str(part)[:LONGEST_NAME] for part in problem["loc"]) or "arguments": problem["msg"]
        for problem in problems[:MOST_FIELDS]
    }
    if len(problems) > MOST_FIELDS:
        fields["and"] = f"{len(problems) - MOST_FIELDS} more"
    return fields

"""The model that answers from the JSONL file named by `MODEL__SCRIPT`."""

import json
from collections.abc import Iterator
from pathlib import Path

from support_agent.domain.errors import ConfigurationError, ModelUnavailable
from support_agent.ports.model import ModelReply, ModelRequest
from support_agent.testing.placeholders import UnresolvedPlaceholder
from support_agent.testing.script import ScriptLine, script_line
from support_agent.testing.scripted import ScriptedModel, UnexpectedModelCall

SETTING = "SUPPORT_AGENT_MODEL__SCRIPT"


class ScriptFileModel:
    """Each non-blank line of the file answers one model call of a conversation, in order.

    Raises:
        ConfigurationError: the file cannot be read or a line is malformed; at construction.
    """

    def __init__(self, *, path: Path) -> None:
        self._path = path
        self._model = ScriptedModel(_lines(path))

    async def decide(self, request: ModelRequest) -> ModelReply:
        try:
            return await self._model.decide(request)
        except UnexpectedModelCall as end:
            raise ModelUnavailable(f"the script {str(self._path)!r} is at its end: {end}") from None
        except UnresolvedPlaceholder as problem:
            raise ConfigurationError(f"{self._path}: {problem}", setting=SETTING) from None

    async def aclose(self) -> None:
        await self._model.aclose()


def _lines(path: Path) -> list[ScriptLine]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"cannot read {str(path)!r}: {reason}", setting=SETTING) from None
    except ValueError:
        raise ConfigurationError(f"{str(path)!r} is not UTF-8 text", setting=SETTING) from None
    try:
        lines = list(_script(text))
    except ConfigurationError as problem:
        raise ConfigurationError(f"{path}: {problem}", setting=SETTING) from None
    if not lines:
        raise ConfigurationError(f"{str(path)!r} has no lines", setting=SETTING)
    return lines


def _script(text: str) -> Iterator[ScriptLine]:
    # Not splitlines(): U+2028 and its like may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield script_line(number, _json(number, line))


def _json(number: int, line: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        where = f"line {number}, column {error.colno}"
        raise ConfigurationError(f"{where}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"line {number}: not JSON that can be read") from None

"""Runs one tool call: checks it, executes it, and commits its observation exactly once."""

import asyncio
import difflib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from pydantic import ValidationError

from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    AlreadyDecided,
    ConfigurationError,
    DatabaseUnavailable,
    InvalidArguments,
    NotFound,
    OrderNotFound,
    Refused,
    SupportAgentError,
    UnknownTool,
)
from support_agent.domain.reasons import Language, Reason
from support_agent.domain.runs import Observation, ToolCall
from support_agent.ports.model import ToolSpec
from support_agent.ports.storage import Database, Transaction
from support_agent.ports.tool import (
    Arguments,
    CallContext,
    Effect,
    ReadTool,
    Tool,
    ToolOutput,
    WriteTool,
)
from support_agent.services.unknown_orders import UnknownOrders

P = TypeVar("P")
log = structlog.get_logger(__name__)
LONGEST_ARGUMENTS = 20_000  # characters; no tool of a shop needs more
LONGEST_NAME = 64  # of what the model calls a tool or a field, when it is told so
MOST_FIELDS = 10  # that one error names


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A call's observation, and whether the tool handed the conversation to a person."""

    observation: Observation
    hands_off: bool = False


class ToolRunner:
    """The only caller of tools.

    Money tools are named at construction: one that is not on the list stops the start, whatever it
    says of itself.
    """

    def __init__(
        self,
        *,
        tools: Sequence[Tool[Any]],
        database: Database,
        unknown_orders: UnknownOrders,
        money_tools: frozenset[str],
    ) -> None:
        self._database = database
        self._unknown_orders = unknown_orders
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            names = sorted(tool.name for tool in tools)
            raise ConfigurationError(f"two tools have the same name: {', '.join(names)}")
        for tool in tools:
            if not isinstance(tool, ReadTool | WriteTool):
                raise ConfigurationError(
                    f"tool {tool.name!r} is neither a ReadTool nor a WriteTool: derive it from one"
                )
            if tool.effect is Effect.MONEY and tool.name not in money_tools:
                raise ConfigurationError(
                    f"tool {tool.name!r} would move money; only the refund service may: "
                    "declare its effect as READ or WRITE if it does not"
                )
        self.specs = tuple(
            ToolSpec(
                name=tool.name,
                description=tool.description,
                parameters=schema_of(tool.arguments),
            )
            for tool in tools
        )

    def tool(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)

    async def run(
        self, call: ToolCall, context: CallContext, *, assurance: Assurance, timeout_s: float
    ) -> Ran:
        """Execute a call and commit what it came to.

        Whatever goes wrong ends in an observation that starts with ERROR; only a storage fault,
        without which nothing can be committed, is raised.
        """
        result: Any  # of a reading tool its observation, of a writing one what `apply` takes
        try:
            tool = self._find(call.name, assurance)
            arguments = parse_arguments(tool.arguments, call.arguments)
            timeout_s = min(timeout_s, tool.timeout_s or timeout_s)
            async with asyncio.timeout(timeout_s):
                if isinstance(tool, ReadTool):
                    result = observed(await tool.run(arguments, context))
                else:
                    result = await tool.prepare(arguments, context)
        except Exception as error:  # noqa: BLE001 - the loop must survive any tool
            return await self._refuse(call, error, context)
        if isinstance(tool, ReadTool):
            return await self._record(call, Ran(observation=result), epoch=context.epoch)
        return await self._write(tool, call, result, context, timeout_s)

    def _find(self, name: str, assurance: Assurance) -> ReadTool[Any] | WriteTool[Any, Any]:
        tool = self._tools.get(name)
        if isinstance(tool, ReadTool | WriteTool):
            if assurance < tool.assurance:
                raise Refused(Reason.IDENTITY_NOT_VERIFIED)
            return tool
        name = name[:LONGEST_NAME]
        nearest = difflib.get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        known = ", ".join(self._tools)
        raise UnknownTool(f"không có tool tên {name!r} (no such tool); tools: {known}{hint}")

    async def _write(
        self,
        tool: WriteTool[Any, P],
        call: ToolCall,
        prepared: P,
        context: CallContext,
        timeout_s: float,
    ) -> Ran:
        def apply(tx: Transaction) -> ToolOutput:
            output = tool.apply(tx, prepared, context)
            if not tx.runs.answer(call, observed(output), epoch=context.epoch):
                raise AlreadyAnswered(call.id)
            return output

        try:
            output = await self._database.transact(apply)
        except AlreadyAnswered:
            raise
        except Exception as error:  # noqa: BLE001 - the loop must survive any tool
            return await self._refuse(call, error, context)
        await self._follow_up(tool, output, context, timeout_s)
        return Ran(observation=observed(output), hands_off=output.hands_off)

    async def _follow_up(
        self,
        tool: WriteTool[Any, Any],
        output: ToolOutput,
        context: CallContext,
        timeout_s: float,
    ) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await tool.after_commit(output, context)
        except Exception:
            # The effect is committed; `tick` goes on with what could not be done now.
            log.exception("tool.follow_up_failed", tool=tool.name, call_id=context.call_id)

    async def _refuse(self, call: ToolCall, error: Exception, context: CallContext) -> Ran:
        """Commit a refusal, and with it what follows from an order too many that was not found."""
        observation = refused(error, context.language)
        if not isinstance(error, OrderNotFound):
            return await self._record(call, Ran(observation=observation), epoch=context.epoch)

        def apply(tx: Transaction) -> bool:
            # The conversation's row before the run's, as everywhere.
            called = self._unknown_orders.called_a_person(tx, context.asker, call.arguments)
            if not tx.runs.answer(call, observation, epoch=context.epoch):
                raise AlreadyAnswered(call.id)
            return called

        called = await self._database.transact(apply)
        return Ran(observation=observation, hands_off=called)

    async def _record(self, call: ToolCall, ran: Ran, *, epoch: int) -> Ran:
        answered = await self._database.transact(
            lambda tx: tx.runs.answer(call, ran.observation, epoch=epoch), durable=False
        )
        if not answered:
            raise AlreadyAnswered(call.id)
        return ran

    async def skip(self, call: ToolCall, code: str, why: str, *, epoch: int) -> Observation:
        """Answer a call that is not executed."""
        observation = Observation(ok=False, content=f"ERROR {code}: {why}", error_code=code)
        await self._record(call, Ran(observation=observation), epoch=epoch)
        return observation


class AlreadyAnswered(SupportAgentError):
    """Another owner answered this call or took the run over; what this one did was undone."""

    code = "ALREADY_ANSWERED"


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


def observed(output: ToolOutput) -> Observation:
    """A tool's output as the model will read it: compact UTF-8 JSON, NFC, in the tool's order."""
    content = json.dumps(output.content, ensure_ascii=False, separators=(",", ":"))
    return Observation(
        ok=True,
        content=unicodedata.normalize("NFC", content),
        quote_ids=output.quote_ids,
        request_ids=output.request_ids,
    )


def refused(error: Exception, language: Language) -> Observation:
    """An error as an observation. The one table from errors to observations."""
    match error:
        case NotFound():
            code, text = error.code, error.sentence(language)
        case Refused():
            code, text = str(error.reason), error.sentence(language)
        case TimeoutError():
            code, text = "TOOL_TIMEOUT", "the tool took too long and was stopped"
        case ConfigurationError():
            log.error("tool.misconfigured", problem=str(error))
            code, text = "TOOL_FAILED", "the shop is not set up for this; tell the customer"
        case AlreadyDecided():  # who decided is for the shop's people
            code, text = error.code, f"the request is {error.status} already"
        case DatabaseUnavailable():  # its own words name files and hosts
            code, text = error.code, "the shop's records cannot be reached now; try again later"
        case SupportAgentError():
            code, text = error.code, str(error)
        case _:
            log.error("tool.failed", exc_info=error)
            kind = type(error).__name__
            code, text = "TOOL_FAILED", f"the tool broke ({kind}); tell the customer, do not retry"
    return Observation(ok=False, content=f"ERROR {code}: {text}", error_code=code)

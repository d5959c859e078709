"""Runs one tool call: checks it, executes it, and commits its observation exactly once."""

import asyncio
import difflib
import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from support_agent.agent.arguments import LONGEST_NAME, parse_arguments, schema_of
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import (
    AlreadyDecided,
    ConfigurationError,
    ConversationBusy,
    DatabaseUnavailable,
    NotFound,
    OrderNotFound,
    Refused,
    SupportAgentError,
    UnknownTool,
)
from support_agent.domain.reasons import Language, Reason
from support_agent.domain.runs import Observation, RecordedCall, ToolCall
from support_agent.ports.model import ToolSpec
from support_agent.ports.storage import Database, Rehearsal, Transaction
from support_agent.ports.tool import (
    CallContext,
    Effect,
    ReadTool,
    Tool,
    ToolOutput,
    WriteTool,
)
from support_agent.services.unknown_orders import UnknownOrders
from support_agent.services.workers import tell

P = TypeVar("P")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A call's observation, and whether the tool handed the conversation to a person."""

    observation: Observation
    hands_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a call would come to; `apply` does a writing one's part again, in another rehearsal."""

    observation: Observation
    apply: Callable[[Transaction], ToolOutput] | None = None


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

        Whatever goes wrong ends in an observation that starts with ERROR; only a storage fault is
        raised, also one that is over already: the call stays open, and whoever goes on runs it.
        """
        try:
            tool, result = await self._begin(call, context, assurance, timeout_s)
        except Exception as error:  # noqa: BLE001 - the loop must survive any tool
            return await self._refuse(call, error, context)
        if isinstance(tool, ReadTool):
            return await self._record(call, Ran(observation=result), context)
        timeout_s = min(timeout_s, tool.timeout_s or timeout_s)
        return await self._write(tool, call, result, context, timeout_s)

    async def rehearse(
        self,
        call: ToolCall,
        context: CallContext,
        *,
        assurance: Assurance,
        timeout_s: float,
        rehearsal: Rehearsal,
    ) -> Rehearsed:
        """What a call would come to: nothing is recorded, and nothing follows it."""
        try:
            tool, result = await self._begin(call, context, assurance, timeout_s)
            if isinstance(tool, ReadTool):
                return Rehearsed(observation=result)
            apply = partial(tool.apply, prepared=result, context=context)
            output = await rehearsal.transact(apply)
        except Exception as error:  # noqa: BLE001 - as above
            return Rehearsed(observation=refused(error, context.language))
        return Rehearsed(observation=observed(output), apply=apply)

    async def _begin(
        self, call: ToolCall, context: CallContext, assurance: Assurance, timeout_s: float
    ) -> tuple[ReadTool[Any] | WriteTool[Any, Any], Any]:
        """The tool with its observation if it only reads, else with what its `apply` takes."""
        tool = self._find(call.name, assurance)
        arguments = parse_arguments(tool.arguments, call.arguments)
        async with asyncio.timeout(min(timeout_s, tool.timeout_s or timeout_s)):
            if isinstance(tool, ReadTool):
                return tool, observed(await tool.run(arguments, context))
            return tool, await tool.prepare(arguments, context)

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
                raise AlreadyAnswered(context.asker.conversation_id)
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
        except Exception as error:  # noqa: BLE001 - the effect is committed
            # `tick` goes on with what could not be done now.
            tell(error, "tool.follow_up_failed", tool=tool.name, call_id=context.call_id)

    async def follow_up_again(
        self, recorded: RecordedCall, context: CallContext, *, timeout_s: float
    ) -> None:
        """What follows a commit whose process may have died before it: it finds out what is left.

        Of a tool that changed something; a refusal changed nothing.
        """
        seen, tool = recorded.observation, self._tools.get(recorded.call.name)
        if seen is None or not seen.ok or not isinstance(tool, WriteTool):
            return
        output = ToolOutput(
            content=json.loads(seen.content), quote_ids=seen.quote_ids, request_ids=seen.request_ids
        )
        timeout_s = min(timeout_s, tool.timeout_s or timeout_s)
        await self._follow_up(tool, output, context, timeout_s)

    async def _refuse(self, call: ToolCall, error: Exception, context: CallContext) -> Ran:
        """Commit a refusal, and with it what follows from an order too many that was not found.

        Raises:
            DatabaseUnavailable: that was the error. It says nothing of what was asked for.
        """
        away = _storage_fault(error)
        if away is not None:
            raise away
        observation = refused(error, context.language)
        if not isinstance(error, OrderNotFound):
            return await self._record(call, Ran(observation=observation), context)

        def apply(tx: Transaction) -> bool:
            # The conversation's row before the run's, as everywhere.
            called = self._unknown_orders.called_a_person(tx, context.asker, call.arguments)
            if not tx.runs.answer(call, observation, epoch=context.epoch):
                raise AlreadyAnswered(context.asker.conversation_id)
            return called

        called = await self._database.transact(apply)
        return Ran(observation=observation, hands_off=called)

    async def _record(self, call: ToolCall, ran: Ran, context: CallContext) -> Ran:
        answered = await self._database.transact(
            lambda tx: tx.runs.answer(call, ran.observation, epoch=context.epoch), durable=False
        )
        if not answered:
            raise AlreadyAnswered(context.asker.conversation_id)
        return ran

    async def skip(self, call: ToolCall, code: str, why: str, context: CallContext) -> Observation:
        """Answer a call that is not executed."""
        observation = Observation(ok=False, content=f"ERROR {code}: {why}", error_code=code)
        await self._record(call, Ran(observation=observation), context)
        return observation


def _storage_fault(error: Exception) -> DatabaseUnavailable | None:
    """Also behind what an adapter made of it, such as orders that are in our database."""
    return next(
        (one for one in (error, error.__cause__) if isinstance(one, DatabaseUnavailable)), None
    )


class AlreadyAnswered(ConversationBusy):
    """Another owner answered this call or took the run over; what this one did was undone."""

    code = "ALREADY_ANSWERED"


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

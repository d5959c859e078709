"""What the tests of the agent share: small tools, models that misbehave, a look at the file."""

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

from support_agent.adapters.db.database import SqlDatabase
from support_agent.agent.turns import Incoming, TurnResult
from support_agent.container import open_container
from support_agent.domain.conversation import Assurance
from support_agent.domain.runs import CallTools, FinalAnswer, Observation, ToolCall, Usage
from support_agent.ports.model import ModelReply, ModelRequest, ToolResult
from support_agent.ports.tool import Arguments, Effect, ReadTool, ToolOutput, WriteTool
from tests.kit import TODAY, FixedClock, RelayModel, Shop, binding_of, settings_for


class NoArguments(Arguments):
    pass


class Reading(ReadTool[Any]):
    """A reading tool that does what a function says; counts how often it ran."""

    description = "For a test."
    assurance = Assurance.NONE

    def __init__(
        self,
        do: Callable[..., Any] = lambda: {"done": True},
        *,
        name: str = "probe",
        arguments: type[Arguments] = NoArguments,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.ran = 0
        self._do = do

    async def run(self, arguments: Any, context: Any) -> ToolOutput:
        self.ran += 1
        found = self._do(*(arguments,)[: len(inspect.signature(self._do).parameters)])
        return ToolOutput(content=await found if inspect.isawaitable(found) else found)


class Writing(WriteTool[Any, Any]):
    """A writing tool: `apply(tx, context)` is a function."""

    description = "For a test."
    effect = Effect.WRITE
    assurance = Assurance.NONE
    arguments = NoArguments

    def __init__(
        self, apply: Callable[..., ToolOutput | None], *, name: str = "write", prepare: Any = None
    ) -> None:
        self.name = name
        self.ran = 0
        self.followed_up = 0
        self.follow_up: Any = None
        self._apply = apply
        self._prepare = prepare

    async def prepare(self, arguments: Any, context: Any) -> Any:
        return await self._prepare() if self._prepare else None

    def apply(self, tx: Any, prepared: Any, context: Any) -> ToolOutput:
        self.ran += 1
        return self._apply(tx, context) or ToolOutput(content={"done": True})

    async def after_commit(self, output: ToolOutput, context: Any) -> None:
        self.followed_up += 1
        if self.follow_up is not None:
            following = self.follow_up()
            if inspect.isawaitable(following):
                await following


class FunctionModel:
    """Decides by a function of the request; a string is an answer, a list are calls."""

    def __init__(self, decide: Callable[[ModelRequest], Any], usage: Usage | None = None) -> None:
        self._decide = decide
        self._usage = usage or Usage(requests=1)
        self.requests: list[ModelRequest] = []

    async def decide(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        decision = self._decide(request)
        if inspect.isawaitable(decision):
            decision = await decision
        if isinstance(decision, str):
            decision = FinalAnswer(text=decision)
        elif isinstance(decision, list):
            decision = calls_of(request, decision)
        return ModelReply(decision=decision, usage=self._usage)

    async def aclose(self) -> None:
        pass


def calls_of(request: ModelRequest, calls: Sequence[tuple[str, str]]) -> CallTools:
    """Calls of a reply, each a name and its raw arguments."""
    prefix = f"{request.run_id}:{request.step}"
    return CallTools(
        calls=tuple(
            ToolCall(id=f"{prefix}:{i}", provider_id=f"call_{prefix}:{i}", name=n, arguments=a)
            for i, (n, a) in enumerate(calls)
        )
    )


async def forever(*_: object) -> Any:
    """Hangs until it is cancelled."""
    await asyncio.Event().wait()


@asynccontextmanager
async def open_agent(
    url: str,
    *,
    tools: Sequence[Any] | None = None,
    model: Any = None,
    database: Any = None,
    **sections: Any,
) -> AsyncIterator[Shop]:
    """The sample shop with other tools, another model or a watched database."""
    clock, model = FixedClock(TODAY), model or RelayModel()
    overrides: dict[str, Any] = {"clock": clock, "model": model}
    if tools is not None:
        overrides["tools"] = list(tools)
    if database is not None:
        overrides["database"] = database
    async with open_container(settings_for(url, **sections), overrides=overrides) as container:
        yield Shop(container=container, clock=clock, model=model, url=url)


async def take(
    shop: Shop,
    text: str,
    *,
    customer: str = "C001",
    conversation: str | None = None,
    assurance: Assurance = Assurance.VERIFIED,
) -> TurnResult:
    """A customer's message to whatever model the shop has; the script goes on where it was."""
    binding = binding_of(customer, assurance=assurance)
    incoming = Incoming(text=text, binding=binding, conversation_id=conversation)
    return await shop.container.agent().take(incoming)


async def resume(shop: Shop, run_id: str) -> TurnResult:
    return await shop.container.agent().resume(run_id, operator="lan", via="test")


class CountingDatabase(SqlDatabase):
    """Counts transactions: durable ones, step rows and reads."""

    durable = relaxed = reads = 0

    def transact(self, fn: Any, *, durable: bool = True) -> Any:
        if durable:
            self.durable += 1
        else:
            self.relaxed += 1
        return super().transact(fn, durable=durable)

    def read(self, fn: Any, *, brief: bool = False) -> Any:
        self.reads += 1
        return super().read(fn, brief=brief)


def rows(url: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """What stands in the file, seen through a connection of its own."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return connection.execute(statement, parameters).fetchall()


def change(url: str, statement: str, *parameters: Any) -> None:
    """A hand in the database file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(statement, parameters)


async def written(url: str, messages: int) -> None:
    """Until there are so many messages; nothing else tells who only looks at the file."""
    while len(rows(url, "SELECT seq FROM messages")) < messages:  # noqa: ASYNC110 - as it says
        await asyncio.sleep(0.001)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A line of a script that calls one tool."""
    return {"tool": tool, "arguments": arguments}


def raw(tool: str, text: str) -> dict[str, Any]:
    """A line of a script that calls one tool with arguments exactly as written."""
    return {"tool": tool, "raw_arguments": text}


def observations(result: Any) -> list[Observation]:
    """Every observation of a turn, in order."""
    return [recorded.observation for step in result.steps for recorded in step.calls]


def told(request: ModelRequest) -> list[str]:
    """The tool results that a model was shown."""
    return [turn.content for turn in request.turns if isinstance(turn, ToolResult)]

"""What a tool is: reading ones run freely, writing ones commit effect and observation at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from support_agent.domain.conversation import Assurance
from support_agent.domain.people import Asker
from support_agent.domain.reasons import Language
from support_agent.ports.storage import Transaction


class Effect(StrEnum):
    READ = "read"
    WRITE = "write"
    MONEY = "money"


class Arguments(BaseModel):
    """Base of every tool's arguments: strict, and nothing that was not asked for.

    Strict because the default mode reads "250.000" as 250 and true as 1.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Who is asking, from the channel and never from the model."""

    asker: Asker
    call_id: str
    epoch: int  # whose turn it is: what an overtaken owner does is undone
    language: Language


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool found or did. `content` becomes compact JSON for the model, in this order."""

    content: Mapping[str, Any]
    quote_ids: tuple[str, ...] = ()
    request_ids: tuple[str, ...] = ()
    hands_off: bool = False


A = TypeVar("A", bound=Arguments)
P = TypeVar("P")


class Tool(ABC, Generic[A]):
    """What the model may call.

    `name` and `description` are all a model chooses by: the description says when to use the tool
    and what comes back. `effect` is MONEY unless a tool says otherwise. `timeout_s` may only be
    below that of LIMITS__TOOL_SECONDS.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    effect: ClassVar[Effect] = Effect.MONEY
    assurance: ClassVar[Assurance] = Assurance.VERIFIED
    timeout_s: ClassVar[float | None] = None
    arguments: type[A]

    def headline(self, content: Mapping[str, Any]) -> str:
        """The observation in one line of `key=value`, for `--trace`."""
        return ", ".join(
            f"{key}={value}"
            for key, value in content.items()
            if isinstance(value, str | int | bool) and value != ""
        )


class ReadTool(Tool[A]):
    """Changes nothing; may be repeated."""

    effect: ClassVar[Effect] = Effect.READ

    @abstractmethod
    async def run(self, arguments: A, context: CallContext) -> ToolOutput: ...


class WriteTool(Tool[A], Generic[A, P]):
    """Changes something, exactly once.

    The runner commits what `apply` did and the observation in one transaction, so a crash leaves
    both or neither.
    """

    effect: ClassVar[Effect] = Effect.WRITE

    @abstractmethod
    async def prepare(self, arguments: A, context: CallContext) -> P:
        """Ask foreign systems what `apply` needs; no transaction is open."""

    @abstractmethod
    def apply(self, tx: Transaction, prepared: P, context: CallContext) -> ToolOutput:
        """Check and change, in the transaction that also records the observation."""

    async def after_commit(self, output: ToolOutput, context: CallContext) -> None:
        """What follows the commit and cannot undo it; `tick` makes good a crash before it."""
        return

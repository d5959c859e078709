"""`chat`: a conversation at the prompt. Every turn is committed, so leaving loses nothing."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from support_agent.cli.edge import tell_error
from support_agent.cli.exits import ExitCode, code_of, code_of_run
from support_agent.cli.meanwhile import Meanwhile
from support_agent.cli.options import (
    Conversation,
    Customer,
    Json,
    Operator,
    Trace,
    operator_or_user,
)
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import Opened, ready
from support_agent.cli.turn import binding_of, print_turn, turn_object
from support_agent.domain.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    SupportAgentError,
)

if TYPE_CHECKING:
    from support_agent.agent.turns import TurnResult
    from support_agent.services.conversations import Binding

PROMPT = "> "


def chat(
    *,
    customer: Customer,
    conversation: Conversation = None,
    operator: Operator = None,
    trace: Trace = False,
    as_json: Json = False,
) -> None:
    """Talk as a customer until Ctrl-D or Ctrl-C; the conversation can be gone on with later.

    What the shop writes meanwhile (a refund was decided, a person answers) is shown before the next
    prompt.

    Without a terminal each line of the input is one message. With --json one object is printed at
    the end.
    """
    with asyncio.Runner() as runner:
        opened = Opened(runner, ready())
        try:
            talk = _Talk(
                opened=opened,
                binding=binding_of(customer),
                conversation_id=conversation,
                operator=operator_or_user(operator),
                show=lambda result: _show(result, opened, trace=trace, as_json=as_json),
                as_json=as_json,
            )
            code = talk.go_on()
        finally:
            opened.close()
    if as_json:
        turns = [turn_object(result) for result in talk.results]
        about = {"conversation_id": talk.conversation_id, "turns": turns}
        print_json(about | {"meanwhile": talk.meanwhile.objects})
    raise typer.Exit(code)


class _Talk:
    """Reads messages and answers them, in one conversation."""

    def __init__(
        self,
        *,
        opened: Opened,
        binding: "Binding",
        conversation_id: str | None,
        operator: str,
        show: "Callable[[TurnResult], None]",
        as_json: bool,
    ) -> None:
        self._opened = opened
        self._binding = binding
        self._operator = operator
        self._show = show
        self._as_json = as_json
        self.results: list[TurnResult] = []
        self.meanwhile = Meanwhile(show=not as_json)
        # Entered before the first prompt: a wrong customer is told at once, and after Ctrl-C in
        # the first answer there is a conversation to go on with.
        self.conversation_id = opened.runner.run(self._enter(conversation_id))

    def go_on(self) -> int:
        """Until the input ends; the exit code is that of the last message.

        A message that fails is told and the next one is taken: the talk may be busy for a moment.
        """
        code = ExitCode.DONE
        while True:
            try:
                self._tell_meanwhile()
                text = _read_line()
            except (EOFError, KeyboardInterrupt):
                break
            if not text.strip():
                continue
            try:
                code = self._answer(text)
            except KeyboardInterrupt:
                code = ExitCode.INTERRUPTED
                break
        self._say_goodbye()
        return code

    def _answer(self, text: str) -> ExitCode:
        try:
            result = self._opened.runner.run(self._take(text))
        except SupportAgentError as error:
            code = code_of(error)
            if isinstance(error, ConfigurationError) or code is ExitCode.BROKEN:
                raise  # the next message would meet the same
            tell_error(error, as_json=self._as_json)
            return code
        self.results.append(result)
        self.meanwhile.answered_by(result.run_id)
        self._show(result)
        return code_of_run(result.status, result.stop_reason)

    async def _enter(self, conversation_id: str | None) -> str:
        entered = await self._opened.container.desk().enter(
            self._binding, conversation_id=conversation_id, first_text=""
        )
        if conversation_id is not None:
            await self.meanwhile.join(self._opened.container.database(), conversation_id)
        return entered.id

    def _tell_meanwhile(self) -> None:
        """A database that is away for a moment tells it before a later prompt."""
        looking = self.meanwhile.tell(self._opened.container.database(), self.conversation_id)
        with suppress(DatabaseUnavailable):
            self._opened.runner.run(looking)

    async def _take(self, text: str) -> "TurnResult":
        from support_agent.agent.turns import Incoming  # noqa: PLC0415 - not for --help

        return await self._opened.container.agent().take(
            Incoming(
                text=text,
                binding=self._binding,
                conversation_id=self.conversation_id,
                operator=self._operator,
            )
        )

    def _say_goodbye(self) -> None:
        customer = self._binding.customer_id
        say(
            "Everything so far is kept. Go on with: support-agent chat "
            f"--customer {customer} --conversation {self.conversation_id}",
            to=sys.stderr,
        )


def _read_line() -> str:
    """The next message; a prompt appears at a terminal only."""
    if sys.stdin.isatty():
        print(PROMPT, end="", file=sys.stderr, flush=True)  # noqa: T201 - stdout is for answers
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _show(result: "TurnResult", opened: Opened, *, trace: bool, as_json: bool) -> None:
    if not as_json:
        print_turn(result, opened.container.tool_runner(), trace=trace, as_json=False)

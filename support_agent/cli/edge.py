"""The outermost edge of the command line: whatever happens ends in one message and an exit code."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from typer import Abort, TyperException
from typer.core import TyperGroup

from support_agent.cli.exits import ExitCode, code_of
from support_agent.cli.output import flush, print_json, say, say_body
from support_agent.domain.errors import InvalidInput, SupportAgentError
from support_agent.logging import configure

log = structlog.get_logger(__name__)


class CommandLine(TyperGroup):
    """The root of all commands; its `main` is the one place that catches errors."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - typer's signature
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - typer's signature
        **extra: Any,  # noqa: ANN401 - typer's signature
    ) -> Any:  # noqa: ANN401 - typer's signature
        # Until the settings are read: structlog's own default writes to stdout, with variables.
        configure(format="console", level="warning")
        words = list(sys.argv[1:] if args is None else args)

        def work() -> object:
            _check_words(words)
            try:
                return super(CommandLine, self).main(
                    words or ["--help"],
                    prog_name or "support-agent",
                    complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
            except SystemExit as left:
                if not isinstance(left.__context__, BrokenPipeError):
                    raise
                return ExitCode.UNREAD  # typer's own answer to a closed pipe is 1

        try:
            code = guarded(work, as_json=wants_json(words))
        except BrokenPipeError:  # stderr is one
            code = ExitCode.UNREAD
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's signature
        try:
            return super().invoke(ctx)
        finally:
            flush()  # so that a closed pipe is noticed where typer expects it, not at the exit


def wants_json(words: Sequence[str]) -> bool:
    """Asked of the raw words: a usage error is found before options are parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        if any("\ud800" <= char <= "\udfff" for char in word):
            raise InvalidInput("an argument", "is not valid UTF-8; check the terminal's encoding")


def guarded(work: Callable[[], object], *, as_json: bool) -> int:
    """The exit code of the work, its error told on stderr; commands give theirs by typer.Exit."""
    try:
        code = work()
    except SupportAgentError as error:
        code = code_of(error)
        if code is ExitCode.BROKEN:
            log.exception("command.failed")
        tell_error(error, as_json=as_json)
        return code
    except TyperException as error:
        _tell_usage(error, as_json=as_json)
        return ExitCode.USAGE
    except (Abort, KeyboardInterrupt):
        code = ExitCode.INTERRUPTED
    except Exception as error:
        log.exception("command.failed")
        problem = f"the command failed unexpectedly ({type(error).__name__}); the log has more"
        _tell("INTERNAL", problem, {}, as_json=as_json)
        return ExitCode.BROKEN
    if code == ExitCode.INTERRUPTED:
        _tell("INTERRUPTED", "interrupted; what was committed is kept", {}, as_json=as_json)
    return code if isinstance(code, int) else ExitCode.DONE


def tell_error(error: SupportAgentError, *, as_json: bool) -> None:
    """An error with the data it carries."""
    data = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    _tell(error.code, str(error), data, as_json=as_json)


def _tell(code: str, message: str, data: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        about = {"code": code, "message": message}
        print_json({"error": {**data, **about}}, to=sys.stderr)
    else:
        say(f"Error: {message}", to=sys.stderr)


def _tell_usage(error: TyperException, *, as_json: bool) -> None:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if context is not None and not as_json:
        say_body(context.get_usage(), to=sys.stderr)
        say(f"Try '{context.command_path} --help' for help.", to=sys.stderr)
    _tell("USAGE", message, {}, as_json=as_json)

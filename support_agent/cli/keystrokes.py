"""Single keys and lines from a terminal. What was typed before the question does not count."""

import os
import sys

from support_agent.domain.errors import ConfigurationError, InvalidInput

ENTER = "\n"
LEFT = "\x04"  # Ctrl-D, or the terminal is gone
_MOST_AT_ONCE = 4_096


def at_the_desk() -> bool:
    """Whether somebody sits at a terminal, to read and to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_key(prompt: str) -> str:
    """One key, in small letters; `""` for several at once, which nobody means.

    Raises:
        ConfigurationError: this system has no such terminals.
    """
    try:
        import termios  # noqa: PLC0415 - not on every system
        import tty  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "single keys need a POSIX terminal; use approve, reject"
        ) from error
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)  # throws away what was typed ahead: it was not about this request
    try:
        _show(prompt)
        pressed = os.read(terminal, _MOST_AT_ONCE).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    _show("\n")
    if not pressed:
        return LEFT
    key = pressed.replace("\r", ENTER)
    return key.lower() if len(key) == 1 else ""


def read_line(prompt: str, *, field: str) -> str | None:
    """A line, without the white space around it; None when it was left before Enter (Ctrl-D).

    Raises:
        InvalidInput: not UTF-8.
    """
    _show(prompt)
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(sys.stdin.fileno(), _MOST_AT_ONCE)
        if not more:
            _show("\n")
            return None
        line += more
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(field, "is not valid UTF-8; check the terminal's encoding") from error


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

"""Reads the settings of a process; a name that does not exist is an error."""

import difflib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dotenv.parser import Binding, parse_stream
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from support_agent.domain.errors import ConfigurationError
from support_agent.settings.names import PREFIX, TEST_PREFIX
from support_agent.settings.section import Section
from support_agent.settings.settings import Settings

PROFILES = ("dev", "demo", "test", "prod")
PROFILE = f"{PREFIX}PROFILE"

ENCODING = "utf-8-sig"  # some editors put a byte order mark first, which would hide the first name


def load_settings(*, folder: Path | None = None) -> Settings:
    """The settings of this process.

    Args:
        folder: where `.env` and `.env.{profile}` lie; the working directory by default.

    Raises:
        ConfigurationError: an unknown name or a value that does not fit; names the variable.
    """
    profile = _profile()
    files = () if profile == "prod" else env_files(folder or Path.cwd(), profile)
    _check_names(os.environ, "the environment")
    for file in files:
        names = _names_in(file)
        _check_names(names, file.name)
        if PROFILE in {name.upper() for name in names}:
            raise ConfigurationError(
                f"is taken from the process environment only, not from {file.name}",
                setting=PROFILE,
            )
    try:
        return Settings(_env_file=files, _env_file_encoding=ENCODING)
    except ValidationError as error:
        problems = "; ".join(_explain(problem) for problem in error.errors(include_url=False))
        raise ConfigurationError(problems) from error


def env_files(folder: Path, profile: str) -> tuple[Path, ...]:
    """Those that exist, the later one wins."""
    candidates = (folder / ".env", folder / f".env.{profile}")
    return tuple(path for path in candidates if path.is_file())


def _profile() -> str:
    """Looked up as pydantic looks up names: in any case."""
    given = next((value for name, value in os.environ.items() if name.upper() == PROFILE), "")
    profile = given or "dev"
    if profile not in PROFILES:
        raise ConfigurationError(
            f"{profile!r} is not one of {', '.join(PROFILES)}", setting=PROFILE
        )
    return profile


def _names_in(file: Path) -> list[str]:
    """What an env file sets; a line that says nothing is an error, not skipped."""
    try:
        with file.open(encoding=ENCODING) as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file.name} cannot be read: {error}") from error
    return [name for binding in bindings if (name := _name_of(binding, file)) is not None]


def _name_of(binding: Binding, file: Path) -> str | None:
    valueless = binding.key is not None and binding.value is None
    if binding.error or valueless:
        # The parser counts blank lines before a statement as part of it.
        text = binding.original.string
        line = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
        raise ConfigurationError(f"{file.name}, line {line}: write it as NAME=value")
    return binding.key


@cache
def known_names() -> frozenset[str]:
    """Every setting by its environment name, without those that other products share."""
    names = {f"{PREFIX}APPROVER_TOKEN"}  # read by single commands, not by Settings
    for name, info in Settings.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, Section):
            keys = (info.alias or key for key, info in section.model_fields.items())
            names |= {f"{PREFIX}{name}__{key}".upper() for key in keys}
        elif info.validation_alias is None:
            names.add(f"{PREFIX}{name}".upper())
    return frozenset(names)


def _check_names(names: Iterable[str], source: str) -> None:
    """A misspelt section would be ignored in silence, so every prefixed name is checked."""
    for name in names:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper.startswith(TEST_PREFIX):
            continue
        if upper not in known_names():
            near = difflib.get_close_matches(upper, sorted(known_names()), n=1)
            sections = sorted({known.split("__")[0] for known in known_names()})
            hint = f"did you mean {near[0]}?" if near else f"they start {', '.join(sections)}"
            raise ConfigurationError(f"no such setting (in {source}); {hint}", setting=name)


def _explain(problem: ErrorDetails) -> str:
    """One problem by its variable, without the value: it may be a secret in the wrong place."""
    path = "__".join(str(part).upper() for part in problem["loc"])
    name = path if path.startswith(("OPENAI", "ANTHROPIC")) else f"{PREFIX}{path}"
    cause = problem.get("ctx", {}).get("error")
    return f"{name}: {cause or problem['msg']}"

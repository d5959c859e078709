"""The built wheel, installed where nothing else is, runs the shop from an empty folder."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support_agent.resources import resource_dir

ROOT = Path(__file__).parents[2]
QUESTION = "Đơn A100 của tôi có được hoàn tiền không?"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = ["build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run([sys.executable, "-m", *build], cwd=folder, env=dict(os.environ))
    (made,) = folder.iterdir()
    return made


def run(command: list[str], *, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(  # noqa: S603 - our own program
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_time_distributions() -> set[str]:
    """What the wheel needs to run, by name, all the way down; no extra, no tool of ours."""
    found: set[str] = set()
    wanted = [("support-agent", "")]
    while wanted:
        name, extra = wanted.pop()
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                key = canonicalize_name(needed.name)
                if key not in found:
                    wanted += [(key, one) for one in ("", *needed.extras)]
                    found.add(key)
    return found


def link_dependencies(into: Path) -> None:
    """A folder with the run-time dependencies of this environment and nothing else of it."""
    for name in run_time_distributions():
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}:
            target = into / top
            if not target.exists():
                target.symlink_to(Path(str(distribution(name).locate_file(top))))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and its run-time dependencies only."""
    here = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", "env"], cwd=here, env=dict(os.environ))
    binaries = here / "env" / "bin"
    pip = ["pip", "--python", str(binaries / "python"), "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check", str(wheel)]
    run([sys.executable, "-m", *pip, *offline], cwd=here, env=dict(os.environ))
    dependencies = here / "dependencies"
    dependencies.mkdir()
    link_dependencies(dependencies)
    (site,) = (here / "env" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return binaries


@pytest.fixture
def clean(installed: Path, tmp_path: Path) -> dict[str, str]:
    """An environment without a variable of ours, at home nowhere."""
    return {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}


def test_the_wheel_brings_migrations_and_data_and_nothing_that_is_not_ours(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    for brought in (
        "alembic/env.py",
        "alembic/versions/0001_first_schema.py",
        "data/shop/orders.yaml",
        "data/policies/standard.yaml",
        "data/prices.toml",
    ):
        assert f"support_agent/_resources/{brought}" in names
    assert "support_agent/py.typed" in names
    assert {name.split("/")[0] for name in names} == {
        "support_agent",
        "support_agent-0.1.0.dist-info",
    }
    assert [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".db", ".keys"))] == []


def test_every_file_of_the_package_and_its_resources_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    here = {
        path.relative_to(ROOT).as_posix()
        for folder in ("support_agent", "alembic", "data")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {
        name if name.startswith("support_agent/") else f"support_agent/_resources/{name}"
        for name in here
    }

    assert packed <= names


def test_a_checkout_finds_its_resources_in_its_root():
    assert resource_dir() == ROOT
    assert (resource_dir() / "alembic" / "env.py").is_file()


def test_an_installed_wheel_finds_its_resources_inside_the_package(installed, clean, tmp_path):
    program = (
        "import support_agent\n"
        "from support_agent.resources import resource_dir\n"
        "print(support_agent.__file__)\n"
        "print(resource_dir())\n"
        "print((resource_dir() / 'alembic' / 'versions').is_dir())\n"
    )

    done = run([str(installed / "python"), "-I", "-c", program], cwd=tmp_path, env=clean)

    package, resources, there = done.stdout.splitlines()
    assert package.startswith(str(installed.parent))
    assert Path(resources) == Path(package).parent / "_resources"
    assert there == "True"


def test_the_installed_environment_holds_none_of_the_tools(installed, clean, tmp_path):
    program = (
        "import importlib.util as u\n"
        "print([n for n in ('pytest', 'hypothesis', 'mypy', 'psycopg', 'tests') if u.find_spec(n)])"
    )

    done = run([str(installed / "python"), "-I", "-c", program], cwd=tmp_path, env=clean)

    assert done.stdout == "[]\n"


def test_the_installed_command_makes_a_shop_and_answers_about_a100(clean, tmp_path):
    clean["SUPPORT_AGENT_CLOCK__NOW"] = "2026-10-13"
    commands = (
        "support-agent db upgrade && support-agent db seed && "
        f'support-agent ask "{QUESTION}" --customer C001 --trace'
    )

    done = run(["/bin/sh", "-c", commands], cwd=tmp_path, env=clean)

    assert (
        "[1] lookup_order(A100) -> status=DELIVERED, total=250000, deliveredAt=2026-10-01"
        in done.stdout
    )
    assert "250.000\u00a0₫" in done.stdout
    assert "31/10/2026" in done.stdout or "2026-10-31" in done.stdout
    assert sorted(path.name for path in (tmp_path / "var").iterdir()) == [
        "support_agent.db",
        "support_agent.keys",
    ]


def test_it_answers_on_todays_date_too(clean, tmp_path):
    commands = (
        "support-agent db upgrade && support-agent db seed && "
        f'support-agent ask "{QUESTION}" --customer C001'
    )

    done = run(["/bin/sh", "-c", commands], cwd=tmp_path, env=clean)

    assert "A100" in done.stdout

"""What a newcomer's machine relies on: the lock file, CI and the hooks."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked() -> dict[str, str]:
    """Version by name."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^ \\]+)(?: ; [^\\]+)? \\$", LOCK, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def test_every_line_of_the_lock_is_a_pin_or_a_hash_and_no_address():
    for line in LOCK.splitlines():
        assert re.fullmatch(
            r"[a-z0-9._-]+==[A-Za-z0-9.+!]+( ; [^\\/]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?",
            line,
        ), line


def test_every_pin_has_hashes():
    blocks = re.split(r"\n(?=[a-z])", LOCK)

    pinned = re.findall(r"^[a-z][^\n]*==", LOCK, re.MULTILINE)  # one may have a pin for each Python
    assert len(blocks) == len(pinned)
    assert all("--hash=sha256:" in block for block in blocks)


def declared() -> list[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    every = [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)]
    build = PROJECT["build-system"]["requires"]
    return [text for text in (*every, *build) if not text.startswith("support-agent")]


@pytest.mark.parametrize("text", declared())
def test_what_the_project_declares_is_locked_at_a_version_it_accepts(text):
    needed = Requirement(text)

    assert needed.specifier.contains(locked()[canonicalize_name(needed.name)], prereleases=True)


def test_ci_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_hooks_are_local_and_of_the_locked_tools():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))

    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_every_package_from_npm_has_a_hash_and_no_address():
    text = (ROOT / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert all(
        re.fullmatch("sha512-[A-Za-z0-9+/]{86}==", package["integrity"])
        for name, package in packages.items()
        if name
    )


def test_what_package_json_names_is_locked_at_exactly_that_version():
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert manifest["private"] is True
    assert set(manifest) & {"dependencies", "scripts"} == set()
    for name, version in manifest["devDependencies"].items():
        assert re.fullmatch(r"[0-9.]+", version)
        assert lock[f"node_modules/{name}"]["version"] == version


def test_ci_has_node():
    assert {"nodejs", "npm"} <= set(
        re.findall(r"missing\+=\(([a-z0-9-]+)\)", (ROOT / ".ci" / "run").read_text())
    )

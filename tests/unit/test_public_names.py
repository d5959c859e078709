"""The names an integrator imports, and what importing them costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import support_agent


@pytest.mark.parametrize("name", support_agent.__all__)
def test_every_public_name_is_where_it_says(name):
    home = support_agent._HOMES[name]

    assert getattr(support_agent, name) is getattr(sys.modules[f"support_agent.{home}"], name)


def test_type_checkers_see_the_names_that_the_program_has():
    tree = ast.parse(Path(support_agent.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: (node.module or "").removeprefix("support_agent.")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen == support_agent._HOMES
    assert sorted(support_agent.__all__) == sorted(support_agent._HOMES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = support_agent.Agnet


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import support_agent", {"pydantic", "sqlalchemy", "structlog", "dependency_injector"}),
        ("from support_agent import Binding, NotFound", {"sqlalchemy", "dependency_injector"}),
        ("from support_agent import Settings", {"sqlalchemy", "dependency_injector", "openai"}),
        ("from support_agent import open_container", {"openai", "alembic", "psycopg", "typer"}),
    ],
)
def test_a_name_costs_only_its_own_part(program, heavy):
    ask = f"{program}\nimport sys\nprint(sorted({heavy!r} & set(sys.modules)))"

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"

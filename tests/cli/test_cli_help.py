"""Help: every command says what it does and shows how; what is not there yet is not there."""

import pytest
from typer.main import get_command

from support_agent.cli.app import app

WITHOUT_OBJECT = {
    "approvals review",
    "serve",
    "worker",
}  # somebody sits there, or nobody waits for an end


def commands() -> dict[str, object]:
    """Every command by its words."""
    found = {}
    for name, command in get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            found |= {f"{name} {word}": leaf for word, leaf in inner.items()}
    return found


def test_these_are_the_commands():
    assert set(commands()) == {
        "ask",
        "chat",
        "doctor",
        "serve",
        "tick",
        "worker",
        *(f"approvals {word}" for word in ("list", "show", "approve", "reject", "reduce", "ask")),
        *(f"approvals {word}" for word in ("review", "report")),
        *(f"approvers {word}" for word in ("list", "add", "limit", "disable", "enable", "token")),
        *(f"keys {word}" for word in ("create", "list", "rotate", "revoke")),
        *(f"refunds {word}" for word in ("list", "show", "cancel", "reconcile", "check")),
        *(f"refunds {word}" for word in ("request", "retry", "resolve")),
        *(f"destinations {word}" for word in ("add", "list", "show")),
        *(f"payouts {word}" for word in ("pause", "resume", "status", "unfreeze")),
        *(f"auto-approval {word}" for word in ("on", "off", "status")),
        *(f"conversations {word}" for word in ("list", "show", "take")),
        *(f"conversations {word}" for word in ("answer", "return")),
        *(f"runs {word}" for word in ("list", "show", "resume", "replay")),
        *(f"tasks {word}" for word in ("list", "done")),
        *(f"memory {word}" for word in ("show", "forget")),
        *(f"privacy {word}" for word in ("export", "erase")),
        *(f"usage {word}" for word in ("show", "top")),
        *(f"policies {word}" for word in ("list", "show", "check", "activate")),
        *(f"audit {word}" for word in ("verify", "export")),
        "orders check",
        *(f"db {word}" for word in ("upgrade", "seed", "check", "backup")),
    }


@pytest.mark.parametrize("words", sorted(commands()))
def test_each_command_explains_itself_with_an_example(cli, words):
    shown = cli(*words.split(), "--help").stdout

    assert f"  support-agent {words}" in shown.split("Examples:")[1]
    assert "--json" in shown or words in WITHOUT_OBJECT


def test_without_a_word_there_is_help(cli):
    assert "Commands:" in cli().stdout


@pytest.mark.parametrize("words", [("aks",), ("approvals",), ("approvals", "aprove"), ("server",)])
def test_a_word_it_does_not_know_is_a_usage_error(cli, words):
    assert "--help" in cli(*words, code=2).stderr
    assert cli.error(*words, code=2)["code"] == "USAGE"

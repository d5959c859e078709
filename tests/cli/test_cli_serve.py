"""`serve` before it listens: what is missing or does not fit ends it with words."""

import socket
import sys

import pytest


def test_a_port_that_is_taken_is_a_usage_error(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = cli("serve", "--port", str(taken.getsockname()[1]), code=2)

    assert result.stdout == ""
    assert "taken" in result.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"DATABASE__URL": "sqlite:///nowhere.db"}, "db upgrade"),
        ({"MODEL__KIND": "openai"}, "OPENAI_API_KEY"),
        ({"API__CUSTOMER_TOKEN_SECRETS": "short"}, "CUSTOMER_TOKEN_SECRETS"),
        ({"API__MAX_BODY_BYTES": "12"}, "MAX_BODY_BYTES"),
    ],
)
def test_what_does_not_fit_ends_it_before_it_listens(cli, environment, settings, says):
    environment(**settings)
    result = cli("serve", "--port", "0", code=2)

    assert result.stdout == ""
    assert says in result.stderr


@pytest.mark.parametrize("host", ["999.999.1.1", "no such host", "192.0.2.1"])
def test_an_address_that_is_not_of_this_machine_is_named(cli, host):
    assert host in cli("serve", "--host", host, "--port", "0", code=2).stderr


def test_without_its_libraries_it_says_how_to_install_them(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert "support-agent[api]" in cli("serve", code=2).stderr

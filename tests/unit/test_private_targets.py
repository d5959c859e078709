"""WEBHOOKS__PRIVATE_TARGETS: what no host can be is refused, as it would never be one."""

import pytest

from support_agent.domain.errors import ConfigurationError
from support_agent.settings import load_settings

NAME = "SUPPORT_AGENT_WEBHOOKS__PRIVATE_TARGETS"


def test_names_and_numbers_are_taken(monkeypatch, tmp_path):
    monkeypatch.setenv(NAME, " Backend.internal, 127.0.0.1,::1, backend,")

    hosts = load_settings(folder=tmp_path).webhooks.private_hosts

    assert hosts == {"backend.internal", "127.0.0.1", "::1", "backend"}


@pytest.mark.parametrize(
    "value",
    ["[::1]", "host:8080", "host.", "http://host", "host/path", "*.internal", "a b", "-a", "a@b"],
)
def test_what_is_no_host_is_refused_by_the_name_of_the_setting(monkeypatch, tmp_path, value):
    monkeypatch.setenv(NAME, f"ok.internal,{value}")

    with pytest.raises(ConfigurationError, match=f"{NAME}.*is no host; write"):
        load_settings(folder=tmp_path)

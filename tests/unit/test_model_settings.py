"""Which models are asked: what may stand beside what, and whose address and key each gets."""

import pytest

from support_agent.domain.errors import ConfigurationError
from support_agent.settings import DEFAULT_MODEL, Settings, load_settings

M = "SUPPORT_AGENT_MODEL__"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "variable", "says"),
    [
        ({"KIND": "gpt"}, "KIND", "'offline', 'openai', 'anthropic', 'json' or 'scripted'"),
        ({"KIND": "anthropic"}, "NAME", "is needed when MODEL__KIND=anthropic"),
        ({"KIND": "json"}, "NAME", "is needed when MODEL__KIND=json"),
        ({"NAME": " "}, "NAME", "at least 1 character"),
        ({"NAME": "x" * 201}, "NAME", "at most 200"),
        ({"FALLBACK_KIND": "scripted"}, "FALLBACK_KIND", "'offline', 'openai'"),
        ({"FALLBACK_KIND": "json"}, "FALLBACK_NAME", "is needed when MODEL__FALLBACK_KIND=json"),
        ({"FALLBACK_BASE_URL": "http://127.0.0.1:1/v1"}, "FALLBACK_BASE_URL", "is not set"),
        ({"FALLBACK_API_KEY": "x"}, "FALLBACK_API_KEY", "MODEL__FALLBACK_KIND is not set"),
        ({"SMALL_BASE_URL": "http://127.0.0.1:1/v1"}, "SMALL_BASE_URL", "is not set"),
        ({"SMALL_API_KEY": "x"}, "SMALL_API_KEY", "MODEL__SMALL_KIND is not set"),
        (
            {"KIND": "openai", "FALLBACK_KIND": "openai", "FALLBACK_NAME": "gpt-4o-mini"},
            "FALLBACK_NAME",
            "name already",
        ),
        ({"FALLBACK_NAME": "x"}, "FALLBACK_NAME", "MODEL__FALLBACK_KIND is not set"),
        ({"FALLBACK_KIND": "offline"}, "FALLBACK_NAME", "name already"),
        ({"SMALL_KIND": "offline"}, "SMALL_KIND", "'openai', 'anthropic' or 'json'"),
        ({"SMALL_KIND": "anthropic"}, "SMALL_NAME", "is needed when MODEL__SMALL_KIND=anthropic"),
        ({"SMALL_NAME": "x"}, "SMALL_NAME", "MODEL__SMALL_KIND is not set"),
        ({"INTENT": "small"}, "INTENT", "MODEL__SMALL_KIND is not set"),
        ({"INTENT": "large"}, "INTENT", "'none' or 'small'"),
        ({"JSON_SCHEMA": "maybe"}, "JSON_SCHEMA", "'auto', 'on' or 'off'"),
        ({"STREAM": "perhaps"}, "STREAM", "boolean"),
        ({"ATTEMPTS": "0"}, "ATTEMPTS", "greater than or equal to 1"),
        ({"ATTEMPTS": "1000"}, "ATTEMPTS", "less than or equal to 10"),
        ({"BACKOFF_SECONDS": "-1"}, "BACKOFF_SECONDS", "greater than 0"),
        ({"BACKOFF_SECONDS": "86400"}, "BACKOFF_SECONDS", "less than or equal to 60"),
        ({"BACKOFF_SECONDS": "nan"}, "BACKOFF_SECONDS", "less than or equal to 60"),
        ({"MAX_OUTPUT_TOKENS": "-5"}, "MAX_OUTPUT_TOKENS", "greater than 0"),
        ({"MAX_OUTPUT_TOKENS": "999999999"}, "MAX_OUTPUT_TOKENS", "less than or equal to"),
        ({"THINKING_TOKENS": "1024"}, "THINKING_TOKENS", "below MODEL__MAX_OUTPUT_TOKENS"),
        ({"THINKING_TOKENS": "-1"}, "THINKING_TOKENS", "greater than 0"),
    ],
)
def test_what_does_not_fit_names_its_variable(monkeypatch, given, variable, says):
    for name, value in given.items():
        monkeypatch.setenv(M + name, value)

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    assert f"{M}{variable}: " in str(raised.value)
    assert says in str(raised.value)


def test_the_same_model_on_another_server_is_another_one():
    model = {"kind": "openai", "name": "m", "fallback_kind": "openai", "fallback_name": "m"}
    settings = Settings(
        _env_file=None, model={**model, "fallback_base_url": "http://127.0.0.1:9/v1"}
    )

    assert [choice.model for choice in settings.models] == ["m", "m"]


def test_address_and_key_are_those_of_the_kind():
    settings = Settings(
        _env_file=None,
        model={
            "kind": "json",
            "name": "large",
            "fallback_kind": "anthropic",
            "fallback_name": "other",
            "small_kind": "openai",
        },
        OPENAI_API_KEY="sk-o",
        OPENAI_BASE_URL="https://o.example/v1",
        ANTHROPIC_API_KEY="sk-a",
        ANTHROPIC_BASE_URL="https://a.example",
    )

    found = [
        (one.kind, one.model, one.base_url, one.api_key.get_secret_value())
        for one in settings.models
    ]
    assert found == [
        ("json", "large", "https://o.example/v1", "sk-o"),
        ("anthropic", "other", "https://a.example", "sk-a"),
        ("openai", DEFAULT_MODEL, "https://o.example/v1", "sk-o"),
    ]


@pytest.mark.parametrize("role", ["fallback", "small"])
def test_a_key_is_not_sent_to_an_address_it_was_not_given_for(role):
    def settings(**more: str) -> Settings:
        model = {f"{role}_kind": "openai", f"{role}_base_url": "https://else.example/v1", **more}
        return Settings(_env_file=None, model=model, OPENAI_API_KEY="sk-o")

    (choice,) = settings().models[1:]
    assert (choice.base_url, choice.api_key) == ("https://else.example/v1", None)

    (choice,) = settings(**{f"{role}_api_key": "sk-e"}).models[1:]
    assert choice.api_key.get_secret_value() == "sk-e"


def test_keys_and_addresses_show_in_no_text():
    settings = Settings(
        _env_file=None,
        model={
            "kind": "openai",
            "fallback_kind": "openai",
            "fallback_name": "f",
            "fallback_base_url": "https://user:sk-private@else.example",
            "fallback_api_key": "sk-private",
            "small_kind": "openai",
            "small_api_key": "sk-private",
        },
        OPENAI_API_KEY="sk-private",
    )

    assert "sk-private" not in f"{settings!r} {settings} {settings.models!r}"

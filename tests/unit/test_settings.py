"""Where settings come from, and that a name or value that does not fit is told, not guessed."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from support_agent.domain.errors import ConfigurationError
from support_agent.settings import Settings, known_names, load_settings

PRIVATE = "sk-do-not-print-me"
WHSEC = f"whsec_{'QUFB' * 11}"  # 33 bytes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def set_all(monkeypatch: pytest.MonkeyPatch, names: dict[str, str]) -> None:
    for name, value in names.items():
        monkeypatch.setenv(name, value)


def test_without_any_setting_everything_has_a_default():
    settings = load_settings()

    assert settings.profile == "dev"
    assert settings.database.url == "sqlite:///var/support_agent.db"
    assert settings.model.kind == "offline"
    assert settings.payments.kind == "ledger"
    assert settings.clock.kind == "system"
    assert settings.approvals.proof == "token"
    assert settings.consent.request_refund == "asked"
    assert settings.security.keys is None


def test_a_value_of_the_environment_reaches_its_setting(monkeypatch):
    set_all(
        monkeypatch,
        {
            "SUPPORT_AGENT_LIMITS__MAX_STEPS": "3",
            "SUPPORT_AGENT_PAYMENTS__LEDGER_IS_BOOKS_ONLY": "true",
            "SUPPORT_AGENT_MODEL__SCRIPT": "story.jsonl",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        },
    )

    settings = load_settings()

    assert settings.limits.max_steps == 3
    assert settings.payments.ledger_is_books_only is True
    assert settings.model.script == Path("story.jsonl")
    assert settings.openai_base_url == "http://127.0.0.1:9/v1"


def test_the_environment_beats_the_profile_file_which_beats_the_plain_file(folder, monkeypatch):
    (folder / ".env").write_text(
        "SUPPORT_AGENT_LIMITS__MAX_STEPS=1\n"
        "SUPPORT_AGENT_LIMITS__MAX_TOKENS=1\n"
        "SUPPORT_AGENT_LIMITS__MESSAGE_CHARS=1\n"
    )
    (folder / ".env.demo").write_text(
        "SUPPORT_AGENT_LIMITS__MAX_STEPS=2\nSUPPORT_AGENT_LIMITS__MAX_TOKENS=2\n"
    )
    (folder / ".env.test").write_text("SUPPORT_AGENT_LIMITS__MAX_STEPS=99\n")
    set_all(
        monkeypatch,
        {"SUPPORT_AGENT_PROFILE": "demo", "SUPPORT_AGENT_LIMITS__MAX_STEPS": "3"},
    )

    limits = load_settings().limits

    assert (limits.max_steps, limits.max_tokens, limits.message_chars) == (3, 2, 1)


@pytest.mark.parametrize("name", ["SUPPORT_AGENT_PROFILE", "support_agent_profile"])
def test_prod_reads_no_file(folder, monkeypatch, name):
    (folder / ".env").write_text("SUPPORT_AGENT_LIMITS__MAX_STEPS=1\nSUPPORT_AGENT_NONSENSE=1\n")
    (folder / ".env.prod").write_text("SUPPORT_AGENT_LIMITS__MAX_STEPS=1\n")
    monkeypatch.setenv(name, "prod")

    settings = load_settings()

    assert settings.profile == "prod"
    assert settings.limits.max_steps == 8


def test_the_files_may_lie_elsewhere(tmp_path):
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (elsewhere / ".env").write_text("SUPPORT_AGENT_LIMITS__MAX_STEPS=4\n")

    assert load_settings(folder=elsewhere).limits.max_steps == 4
    assert load_settings().limits.max_steps == 8


def test_a_file_with_a_byte_order_mark_and_keys_of_others_is_read(folder):
    (folder / ".env").write_text(
        "SUPPORT_AGENT_LIMITS__MAX_STEPS=4\n# ghi chú\n\nOTHER_TOOL=x\nOPENAI_API_KEY=sk-1\n",
        encoding="utf-8-sig",
    )

    settings = load_settings()

    assert settings.limits.max_steps == 4
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "sk-1"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SUPPORT_AGENT_MODLE__KIND", "SUPPORT_AGENT_MODEL__KIND"),
        ("SUPPORT_AGENT_MODEL__KNID", "SUPPORT_AGENT_MODEL__KIND"),
        ("SUPPORT_AGENT_MODEL_KIND", "SUPPORT_AGENT_MODEL__KIND"),
        ("support_agent_limits__max_step", "SUPPORT_AGENT_LIMITS__MAX_STEPS"),
        ("SUPPORT_AGENT_SECURITY__KEY", "SUPPORT_AGENT_SECURITY__KEYS"),
        ("SUPPORT_AGENT_MODEL", "SUPPORT_AGENT_MODEL__"),
        ("SUPPORT_AGENT_PROFILE__NAME", "SUPPORT_AGENT_PROFILE"),
        ("SUPPORT_AGENT_MODEL__KIND__DEEPER", "SUPPORT_AGENT_MODEL__KIND"),
        ("SUPPORT_AGENT_OPENAI_API_KEY", "SUPPORT_AGENT_"),
        ("SUPPORT_AGENT_", "SUPPORT_AGENT_"),
    ],
)
@pytest.mark.parametrize("value", ["1", ""])
@pytest.mark.parametrize("source", ["the environment", ".env", ".env.demo"])
def test_an_unknown_name_is_refused_wherever_it_stands(
    folder, monkeypatch, name, hint, value, source
):
    monkeypatch.setenv("SUPPORT_AGENT_PROFILE", "demo")
    if source == "the environment":
        monkeypatch.setenv(name, value)
    else:
        (folder / source).write_text(f"{name}={value}\n")

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    assert raised.value.setting == name
    assert f"no such setting (in {source})" in str(raised.value)
    assert hint in str(raised.value)


def test_names_of_the_tests_and_of_single_commands_are_let_through(monkeypatch):
    set_all(
        monkeypatch,
        {
            "SUPPORT_AGENT_TEST_DATABASE_URL": "postgresql://nowhere/x",
            "SUPPORT_AGENT_APPROVER_TOKEN": PRIVATE,
        },
    )

    assert load_settings().profile == "dev"


def test_every_setting_is_a_known_name():
    assert {
        "SUPPORT_AGENT_PROFILE",
        "SUPPORT_AGENT_DATABASE__URL",
        "SUPPORT_AGENT_CLOCK__NOW",
        "SUPPORT_AGENT_CONSENT__REQUEST_REFUND",
        "SUPPORT_AGENT_SECURITY__KEYS",
        "SUPPORT_AGENT_LOG__FORMAT",
    } <= known_names()


@pytest.mark.parametrize("value", ["production", "DEV", "../prod"])
def test_an_unknown_profile_names_those_there_are(monkeypatch, value):
    monkeypatch.setenv("SUPPORT_AGENT_PROFILE", value)

    with pytest.raises(ConfigurationError, match=r"SUPPORT_AGENT_PROFILE: .*dev, demo, test, prod"):
        load_settings()


def test_the_profile_is_not_taken_from_a_file(folder):
    (folder / ".env").write_text("support_agent_profile=prod\n")

    with pytest.raises(ConfigurationError, match=r"process environment only, not from \.env"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SUPPORT_AGENT_MODEL__KIND", "gpt", "'json' or 'scripted'"),
        ("SUPPORT_AGENT_ORDERS__KIND", "csv", "'sql'"),
        ("SUPPORT_AGENT_PAYMENTS__KIND", "paypal", "'http' or 'class'"),
        ("SUPPORT_AGENT_PAYMENTS__STRIPE_ACCOUNT", "shop@example.com", "acct_"),
        ("SUPPORT_AGENT_PAYMENTS__STRIPE_URL", "http://127.0.0.1:8000/v1", "127.0.0.1:PORT"),
        ("SUPPORT_AGENT_PAYMENTS__STRIPE_URL", "http://127.0.0.1.example:80", "127.0.0.1:PORT"),
        ("SUPPORT_AGENT_PAYMENTS__STRIPE_URL", "https://example.com", "127.0.0.1:PORT"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "shop.example/refunds", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "http://shop.example/refunds", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "http://127.0.0.1.example/refunds", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "http://127.0.0.1@shop.example/", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "https://user:word@shop.example/", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "https://shop.example/#refunds", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "https://shop.example:99999/", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "https://", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__URL", "ftp://shop.example/refunds", "https://"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", "letmein", "whsec_"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", "whsec_", "24 to 64"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", "whsec_c2hvcnQ=", "24 to 64"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", f"whsec_{'!' * 40}", "24 to 64"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", f"whsec_{'QUFB' * 22}", "24 to 64"),
        ("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", f"{WHSEC},whsec_x", "24 to 64"),
        ("SUPPORT_AGENT_PAYMENTS__CLASS", "shop.pay.Gateway", "package.module:Class"),
        ("SUPPORT_AGENT_PAYMENTS__LOOKBACK_DAYS", "0", "greater than 0"),
        ("SUPPORT_AGENT_PAYMENTS__LOOKBACK_DAYS", "91", "less than or equal"),
        ("SUPPORT_AGENT_PAYMENTS__LEDGER_IS_BOOKS_ONLY", "maybe", "boolean"),
        ("SUPPORT_AGENT_APPROVALS__PROOF", "trust", "'token' or 'asserted'"),
        ("SUPPORT_AGENT_CONSENT__REQUEST_REFUND", "never", "'asked' or 'implied'"),
        ("SUPPORT_AGENT_LOG__LEVEL", "loud", "'warning'"),
        ("SUPPORT_AGENT_SHOP__LANGUAGE", "fr", "'vi' or 'en'"),
        ("SUPPORT_AGENT_SHOP__TIME_ZONE", "Saigon", "Asia/Ho_Chi_Minh"),
        ("SUPPORT_AGENT_SHOP__TIME_ZONE", "Asia", "Asia/Ho_Chi_Minh"),
        ("SUPPORT_AGENT_SHOP__TIME_ZONE", "../../etc/passwd", "Asia/Ho_Chi_Minh"),
        ("SUPPORT_AGENT_LIMITS__MAX_STEPS", "-1", "greater than 0"),
        ("SUPPORT_AGENT_LIMITS__MAX_STEPS", "0", "greater than 0"),
        ("SUPPORT_AGENT_LIMITS__MAX_STEPS", "many", "integer"),
        ("SUPPORT_AGENT_LIMITS__MAX_IDENTICAL_CALLS", "1", "greater than or equal to 2"),
        ("SUPPORT_AGENT_LIMITS__MAX_TOKENS", "99999999999", "less than or equal"),
        ("SUPPORT_AGENT_LIMITS__RUN_SECONDS", "-0.5", "greater than 0"),
        ("SUPPORT_AGENT_LIMITS__RUN_SECONDS", "nan", "SUPPORT_AGENT_LIMITS__RUN_SECONDS"),
        ("SUPPORT_AGENT_LIMITS__RUN_SECONDS", "inf", "less than or equal"),
        ("SUPPORT_AGENT_LIMITS__MAX_COST_MICROS", "-5", "greater than 0"),
        ("SUPPORT_AGENT_APPROVALS__WAIT_HOURS", "99999999", "less than or equal"),
        ("SUPPORT_AGENT_CONSENT__QUOTE_MINUTES", "-30", "greater than 0"),
        ("SUPPORT_AGENT_CLOCK__NOW", "tomorrow", "2026-10-13"),
        ("SUPPORT_AGENT_CLOCK__NOW", "2026-10-13T09:00:00", "+07:00"),
        ("SUPPORT_AGENT_CLOCK__NOW", "2026-02-30", "2026-10-13"),
        ("SUPPORT_AGENT_CLOCK__NOW", "20261013", "2026-10-13"),
        ("SUPPORT_AGENT_CLOCK__NOW", "1791858000", "2026-10-13"),
        ("SUPPORT_AGENT_CLOCK__NOW", "0001-01-01T00:00:00+07:00", "range"),
    ],
)
def test_a_value_that_does_not_fit_names_its_variable_and_what_would(
    monkeypatch, name, value, says
):
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    assert str(raised.value).startswith(f"{name}: ")
    assert says in str(raised.value)


def test_several_wrong_values_are_told_at_once(folder, monkeypatch):
    (folder / ".env").write_text("SUPPORT_AGENT_MODEL__KIND=gpt\n")
    monkeypatch.setenv("SUPPORT_AGENT_LIMITS__MAX_STEPS", "0")

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    assert "SUPPORT_AGENT_MODEL__KIND" in str(raised.value)
    assert "SUPPORT_AGENT_LIMITS__MAX_STEPS" in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "SUPPORT_AGENT_PROFILE",
        "SUPPORT_AGENT_MODEL__SCRIPT",
        "SUPPORT_AGENT_CLOCK__NOW",
        "SUPPORT_AGENT_SECURITY__KEYS",
        "SUPPORT_AGENT_LIMITS__MAX_COST_MICROS",
        "SUPPORT_AGENT_LIMITS__MAX_STEPS",
        "SUPPORT_AGENT_DATABASE__URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
    ],
)
def test_an_empty_value_is_as_good_as_none(folder, monkeypatch, name):
    expected = load_settings()
    monkeypatch.setenv(name, "")
    if name != "SUPPORT_AGENT_PROFILE":
        (folder / ".env").write_text(f"{name}=\n")

    assert load_settings() == expected


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-10-13", datetime(2026, 10, 13, 2, tzinfo=UTC)),
        ("2026-10-13T09:00:00+07:00", datetime(2026, 10, 13, 2, tzinfo=UTC)),
        ("2026-10-13T02:00:00Z", datetime(2026, 10, 13, 2, tzinfo=UTC)),
        ("2026-10-13 02:00:00.5+00:00", datetime(2026, 10, 13, 2, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_the_fixed_clock_takes_an_instant_or_a_day(monkeypatch, text, instant):
    monkeypatch.setenv("SUPPORT_AGENT_CLOCK__NOW", text)

    clock = load_settings().clock

    assert (clock.kind, clock.now) == ("fixed", instant)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"SUPPORT_AGENT_LOG__LEVEL=info\n\n\nSUPPORT_AGENT_MODEL__KIND\n", ".env, line 4"),
        (b"SUPPORT_AGENT_MODEL__KIND: openai\n", ".env, line 1"),
        (b"A=1\nSUPPORT_AGENT_MODEL__KIND='openai\n", ".env, line 2"),
        (b"SUPPORT_AGENT_MODEL__NAME=caf\xe9\n", ".env cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(folder, content, says):
    (folder / ".env").write_bytes(content)

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    assert says in str(raised.value)


def test_secrets_show_neither_in_repr_nor_as_text(monkeypatch):
    set_all(
        monkeypatch,
        {
            "OPENAI_API_KEY": PRIVATE,
            "OPENAI_BASE_URL": f"https://user:{PRIVATE}@example.com",
            "SUPPORT_AGENT_SECURITY__KEYS": f"k1:{PRIVATE}",
            "SUPPORT_AGENT_PAYMENTS__STRIPE_KEY": f"sk_live_{PRIVATE}",
            "SUPPORT_AGENT_PAYMENTS__WEBHOOK_SECRETS": f"whsec_{PRIVATE},whsec_2{PRIVATE}",
            "SUPPORT_AGENT_DATABASE__URL": f"postgresql://shop:{PRIVATE}@db/shop",
        },
    )

    settings = load_settings()

    assert settings.database.url.endswith("@db/shop")
    assert PRIVATE not in repr(settings)
    assert PRIVATE not in str(settings)
    assert PRIVATE not in f"{settings.database} {settings.security} {settings.payments}"


@pytest.mark.parametrize(
    ("given", "secrets"),
    [
        ("whsec_1", ("whsec_1",)),
        ("whsec_new, whsec_old", ("whsec_new", "whsec_old")),
        (" whsec_1 ,, ", ("whsec_1",)),
        (",", ()),
        ("", ()),
    ],
)
def test_several_webhook_secrets_stand_side_by_side(monkeypatch, given, secrets):
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__WEBHOOK_SECRETS", given)

    assert load_settings().payments.secrets == secrets


def test_several_signing_secrets_stand_side_by_side(monkeypatch):
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__SIGNING_SECRETS", f" {WHSEC} ,{WHSEC[:-1]}B")

    assert load_settings().payments.signers == (WHSEC, f"{WHSEC[:-1]}B")
    assert WHSEC not in repr(load_settings())


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/api/refunds?of=agent",
        "https://[2001:db8::1]:8443/refunds",
        "http://127.0.0.1:8000/refunds",
        "http://localhost:8000/refunds",
        "http://[::1]:8000/refunds",
    ],
)
def test_refunds_are_sent_over_tls_or_to_this_machine(monkeypatch, url):
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__URL", url)

    assert load_settings().payments.url == url


@pytest.mark.parametrize("kind", ["http", "class"])
@pytest.mark.parametrize("livemode", [True, False])
def test_elsewhere_a_setting_says_whether_real_money_moves(monkeypatch, kind, livemode):
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__KIND", kind)
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__LIVEMODE", str(livemode))

    assert load_settings().payments.moves_real_money is livemode


@pytest.mark.parametrize(
    ("kind", "key", "real"),
    [
        ("stripe", "sk_live_x", True),
        ("stripe", "rk_live_x", True),
        ("stripe", "something else", True),
        ("stripe", "sk_test_x", False),
        ("stripe", "rk_test_x", False),
        ("stripe", "", False),
        ("ledger", "sk_live_x", False),
    ],
)
def test_a_key_moves_real_money_unless_it_is_one_of_the_test_mode(monkeypatch, kind, key, real):
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__KIND", kind)
    monkeypatch.setenv("SUPPORT_AGENT_PAYMENTS__STRIPE_KEY", key)

    assert load_settings().payments.moves_real_money is real


@pytest.mark.parametrize(
    "name", ["SUPPORT_AGENT_MODEL__KIND", "SUPPORT_AGENT_LIMITS__MAX_STEPS", "SUPPORT_AGENT_KEYS"]
)
def test_what_was_typed_into_the_wrong_place_is_not_repeated(monkeypatch, name):
    monkeypatch.setenv(name, PRIVATE)

    with pytest.raises(ConfigurationError) as raised:
        load_settings()

    error: BaseException | None = raised.value
    while error is not None:
        assert PRIVATE not in str(error)
        error = error.__cause__


def test_settings_made_in_code_keep_secrets_out_of_their_errors():
    with pytest.raises(ValidationError) as raised:
        Settings(_env_file=None, security={"key": PRIVATE})

    assert PRIVATE not in str(raised.value)


def test_settings_cannot_be_changed_afterwards():
    settings = load_settings()

    with pytest.raises(ValidationError, match="frozen"):
        settings.limits.max_steps = 100


def test_importing_reads_neither_a_file_nor_the_environment(folder):
    (folder / ".env").write_text("SUPPORT_AGENT_NONSENSE=1\n")
    program = (
        "import sys\n"
        "sys.addaudithook(lambda name, args: name == 'open' and '.env' in str(args[0])"
        " and print(args[0]))\n"
        "import support_agent.settings\n"
        "print('dependency_injector' in sys.modules, 'sqlalchemy' in sys.modules)\n"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        env={**os.environ, "SUPPORT_AGENT_PROFILE": "nonsense"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "False False\n", "")

"""What reaches the log, and what must not."""

import json
from collections.abc import Iterator

import pytest
import structlog

from support_agent.logging import configure


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


def fail(message: str) -> None:
    customer_text = "số tài khoản 123456789"
    raise ValueError(f"{message} after {len(customer_text)} characters")


def test_json_is_one_object_a_line_on_stderr_with_the_runs_keys(capsys):
    configure(format="json", level="info")
    structlog.contextvars.bind_contextvars(run_id="run_1")

    structlog.get_logger("x").info("refund.approved", refund_id="req_1", by="Hương")

    out, err = capsys.readouterr()
    told = json.loads(err)
    assert out == ""
    assert err.count("\n") == 1
    assert "Hương" in err
    assert told.pop("timestamp").endswith("Z")
    assert told == {
        "event": "refund.approved",
        "level": "info",
        "run_id": "run_1",
        "refund_id": "req_1",
        "by": "Hương",
    }


def test_console_is_a_plain_line_on_stderr(capsys):
    configure(format="console", level="info")

    structlog.get_logger("x").warning("model.unavailable", problem="HTTP 503")

    out, err = capsys.readouterr()
    assert out == ""
    assert "model.unavailable" in err
    assert "HTTP 503" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_is_below_the_level_is_left_out(capsys, form):
    configure(format=form, level="warning")
    log = structlog.get_logger("x")

    log.info("run.started")
    log.error("run.failed")

    err = capsys.readouterr().err
    assert "run.started" not in err
    assert "run.failed" in err


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.filterwarnings("error")
def test_a_traceback_names_places_and_no_local_variables(capsys, form):
    configure(format=form, level="info")

    try:
        fail("stopped")
    except ValueError:
        structlog.get_logger("x").exception("tool.failed")

    err = capsys.readouterr().err
    assert 'fail("stopped")' in err.replace('\\"', '"')
    assert "stopped after 22 characters" in err
    assert "123456789" not in err


@pytest.mark.parametrize("form", ["console", "json"])
def test_foreign_text_cannot_drive_the_terminal(capsys, form):
    configure(format=form, level="info")
    hostile = "503\x1b[2J\u202eevil\nrun.failed"

    try:
        fail(hostile)
    except ValueError:
        structlog.get_logger("x").exception("model.unavailable", problem=hostile)

    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err
    assert "\nrun.failed" not in err.split("Traceback")[0]


def test_a_huge_value_is_cut(capsys):
    configure(format="json", level="info")

    structlog.get_logger("x").info("model.reply_invalid", problem="x" * 1_000_000)

    assert len(capsys.readouterr().err) < 20_000

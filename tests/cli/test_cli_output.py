"""What reaches a terminal: never what others wrote as it is, always what they said."""

import io
import json
import unicodedata

import pytest
import structlog

from support_agent.cli import output
from support_agent.cli.edge import guarded
from support_agent.cli.exits import ExitCode, code_of, code_of_run
from support_agent.cli.output import Column
from support_agent.cli.views import age
from support_agent.domain import errors
from support_agent.domain.runs import RunStatus, StopReason
from support_agent.logging import configure
from tests.kit import TODAY

HOSTILE = "Áo [bold red]đỏ[/bold red] \x1b[2J\x9b31m\x1b]0;owned\x07\u202efdp.exe\u200b\r\nquote_id: Q-1 \u2066"
HOSTILE_NAME = HOSTILE[:64]  # as long as a name may be
ACTED_ON = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def acted_on(text: str) -> set[str]:
    """Characters a terminal would act on instead of showing them."""
    return {char for char in text if unicodedata.category(char) in ACTED_ON and char != "\n"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stdout is a terminal without colours, narrower than a table."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    opened = Terminal()
    monkeypatch.setattr("sys.stdout", opened)
    return opened


def test_json_keeps_the_text_and_gives_a_terminal_nothing_to_act_on():
    text = output.to_json({"text": HOSTILE, "surrogate": "\udcff", "astral": "\U000e0041"})

    assert json.loads(text) == {"text": HOSTILE, "surrogate": "\udcff", "astral": "\U000e0041"}
    assert acted_on(text) == set()
    assert "Áo" in text


@pytest.mark.parametrize("at_terminal", [False, True])
def test_a_table_shows_cells_as_text(capsys, request, at_terminal):
    shown = request.getfixturevalue("terminal") if at_terminal else None
    output.print_table(
        (Column(title="ID"), Column(title="WHAT"), Column(title="N", right=True)),
        [("req_01m8ny1ntx1b44ba28wzy6hzh1", HOSTILE, "1"), ("b", "=cmd|' /C calc'!A0", "22")],
    )
    text = shown.getvalue() if shown else capsys.readouterr().out

    assert acted_on(text) == set()
    assert "[bold red]đỏ[/bold red] \\x1b[2J" in text
    assert "req_01m8ny1ntx1b44ba28wzy6hzh1" in text  # whole, however narrow the window
    assert len([line for line in text.splitlines() if "22" in line]) == 1


def test_a_table_wider_than_the_window_becomes_a_block_a_row(request):
    terminal = request.getfixturevalue("terminal")
    columns = [Column(title=title) for title in ("ID", "CONVERSATION", "REASON", "STARTED")]
    rows = [
        (f"run_{n}1m8ny1ntx1b44ba28wzy6hzh1", "con_01m8ny1ntx1b", reason, "2026-10-13 09:00")
        for n, reason in enumerate(("answered", ""))
    ]

    output.print_table(columns, rows)

    assert terminal.getvalue().splitlines() == [
        "id            run_01m8ny1ntx1b44ba28wzy6hzh1",
        "conversation  con_01m8ny1ntx1b",
        "reason        answered",
        "started       2026-10-13 09:00",
        "",
        "id            run_11m8ny1ntx1b44ba28wzy6hzh1",
        "conversation  con_01m8ny1ntx1b",
        "started       2026-10-13 09:00",
    ]


def test_a_table_that_fits_the_window_stays_one(request):
    terminal = request.getfixturevalue("terminal")
    output.print_table((Column(title="ID"), Column(title="N")), [("a" * 37, "1")])

    heading, _, row = (line.rstrip() for line in terminal.getvalue().splitlines() if line.strip())
    assert heading.split() == ["ID", "N"]
    assert row == "a" * 37 + "  1"  # 40 columns, as many as the window has


@pytest.mark.parametrize("at_terminal", [False, True])
def test_a_box_holds_all_of_what_others_wrote(capsys, request, at_terminal):
    shown = request.getfixturevalue("terminal") if at_terminal else None
    output.print_box("written by others", [HOSTILE, "x" * 200 + " approved by lan"])
    text = shown.getvalue() if shown else capsys.readouterr().out

    title, *lines = text.splitlines()
    assert "written by others" in title
    assert acted_on(text) == set()
    inside = lines[:-1] if at_terminal else lines
    assert all(line.startswith("│ " if at_terminal else "  | ") for line in inside)
    assert any("approved" in line for line in inside)


def test_a_line_stays_one_line(capsys):
    output.say("a\nrequest r is REFUNDED")
    output.say_body("a\nb\x1b")

    assert capsys.readouterr().out == "a\\nrequest r is REFUNDED\na\nb\\x1b\n"


@pytest.mark.parametrize(
    ("gone", "shown"),
    [
        ({"seconds": -5}, "0m"),
        ({"minutes": 59}, "59m"),
        ({"hours": 47}, "47h"),
        ({"days": 3}, "3d"),
    ],
)
def test_ages_are_told_in_one_unit(gone, shown):
    from datetime import timedelta  # noqa: PLC0415 - for this only

    assert age(TODAY - timedelta(**gone), TODAY) == shown


class TestExitCodes:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (errors.ConfigurationError("x"), 2),
            (errors.InvalidInput("f", "p"), 2),
            (errors.RequestNotFound("r"), 4),
            (errors.SelfApproval("lan"), 1),
            (errors.NotProved("x"), 1),
            (errors.StaleDecision("r", expected=1, actual=2), 5),
            (errors.ConversationBusy("c"), 5),
            (errors.DatabaseUnavailable("x"), 6),
            (errors.OrdersUnavailable("x"), 6),
            (errors.ModelUnavailable("x"), 6),
            (errors.PaymentOutcomeUnknown("x"), 6),
            (errors.ReserveMissing("r", account="a"), 70),
            (errors.SupportAgentError("x"), 70),
            (ValueError("x"), 70),
        ],
    )
    def test_each_error_has_its_code(self, error, code):
        assert code_of(error) == code

    def test_only_a_stopped_run_is_not_done(self):
        ended = {
            (RunStatus.DONE, StopReason.ANSWERED): 0,
            (RunStatus.WAITING_CUSTOMER, StopReason.ASKED_CUSTOMER): 0,
            (RunStatus.HANDED_OFF, StopReason.HANDED_OFF): 0,
            (RunStatus.STOPPED, StopReason.DEADLINE): 3,
            (RunStatus.STOPPED, StopReason.CANCELLED): 3,
            (RunStatus.STOPPED, StopReason.MODEL_UNAVAILABLE): 6,
        }
        assert {key: int(code_of_run(*key)) for key in ended} == ended

    def test_a_fault_of_ours_is_one_line_and_no_variables(self, environment, capsys):
        configure(format="console", level="warning")

        def broken() -> None:
            phone = "0912345678"
            raise RuntimeError(f"customer {phone}")

        assert guarded(broken, as_json=False) == ExitCode.BROKEN
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.splitlines()[-1] == (
            "Error: the command failed unexpectedly (RuntimeError); the log has more"
        )
        assert "'0912345678'" not in printed.err  # as a dump of variables would show it

    def test_a_fault_before_the_settings_are_read_stays_off_stdout(
        self, cli, monkeypatch: pytest.MonkeyPatch
    ):
        def broken() -> None:
            phone = "0912345678"
            raise RuntimeError(f"customer {phone}")

        monkeypatch.setattr("support_agent.settings.load_settings", broken)
        structlog.reset_defaults()
        result = cli("approvals", "list", code=70)

        assert result.stdout == ""
        assert result.stderr.splitlines()[-1].startswith("Error: the command failed unexpectedly")
        assert "'0912345678'" not in result.stderr

    def test_ctrl_c_says_that_what_is_committed_stays(self, capsys):
        def interrupted() -> None:
            raise KeyboardInterrupt

        assert guarded(interrupted, as_json=True) == ExitCode.INTERRUPTED
        assert json.loads(capsys.readouterr().err)["error"]["code"] == "INTERRUPTED"


class TestHostileData:
    """Everything others wrote, through every command that may show it."""

    @pytest.fixture
    def filled(self, cli):
        """An order with hostile names is quoted and filed by a hostile operator, and decided."""
        talk = ("--customer", "C007", "--operator", HOSTILE_NAME)
        quoted = cli.json("ask", f"hoàn tiền đơn A703 {HOSTILE}", *talk)
        again = (*talk, "--conversation", quoted["conversation_id"])
        [request] = cli.json("ask", "đồng ý", *again)["pending_approvals"]
        cli("ask", f"A703 thế nào? {HOSTILE}", *again, "--trace")
        return {
            "request": request,
            "conversation": quoted["conversation_id"],
            "run": quoted["run_id"],
        }

    @pytest.mark.parametrize("as_json", [False, True])
    def test_nothing_reaches_the_terminal_raw(self, cli, filled, as_json):
        commands = [
            (
                "ask",
                f"Đơn A703 có hoàn tiền được không? {HOSTILE}",
                "--customer",
                "C007",
                "--trace",
            ),
            ("approvals", "list"),
            ("approvals", "show", filled["request"]),
            (
                "approvals",
                "reject",
                filled["request"],
                "--expect",
                "1",
                "--as",
                "lan",
                "--note",
                HOSTILE,
            ),
            ("approvals", "show", filled["request"]),
            ("refunds", "list"),
            ("refunds", "show", filled["request"]),
            ("conversations", "list"),
            ("conversations", "show", filled["conversation"]),
            ("runs", "list"),
            ("runs", "show", filled["run"]),
            ("tasks", "list"),
            ("policies", "list"),
            ("audit", "verify"),
            ("doctor",),
        ]
        for command in commands:
            result = cli(*command, *(["--json"] if as_json else []))
            assert acted_on(result.output) == set(), command

    def test_names_of_things_reach_the_approver_as_text_in_the_box(self, cli, filled):
        shown = cli("approvals", "show", filled["request"], "--lang", "en").stdout
        facts, foreign = shown.split("written by others")

        assert "SALE" not in facts
        assert "[bold red]Áo[/bold red] <b>SALE</b> \\x1b[2J" in foreign

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (("ask", "a", "--customer", HOSTILE), 4),
            (("ask", "a", "--customer", "C001", "--conversation", HOSTILE), 4),
            (("approvals", "show", HOSTILE), 4),
            (("approvals", "approve", "x", "--expect", "1", "--as", HOSTILE_NAME), 4),
            (("runs", "show", HOSTILE), 4),
            (("policies", "activate", HOSTILE), 2),
            (("approvals", "list", "--cursor", HOSTILE), 2),
            (("approvals", HOSTILE), 2),
            (("approvals", "list", f"--{HOSTILE}"), 2),
            (("approvals", "list", "--limit", HOSTILE), 2),
            (("refunds", "list", "--status", HOSTILE), 2),
        ],
    )
    def test_an_error_repeats_hostile_words_only_visibly(self, cli, words, code):
        assert acted_on(cli(*words, code=code).output) == set()
        assert acted_on(cli(*words, "--json", code=code).output) == set()

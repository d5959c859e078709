"""`payouts` and `auto-approval`: stopping what moves money, from the terminal."""


def test_pausing_shows_in_the_status_and_resuming_says_what_waits(cli):
    assert cli.json("payouts", "status")["on"] is True

    paused = cli.json("payouts", "pause", "--operator", "thu")
    assert (paused["on"], paused["changed"], paused["changed_by"]) == (False, True, "thu")
    assert "payouts: off since 2026-10-13" in cli("payouts", "status").stdout
    assert "as before" in cli("payouts", "pause").stdout  # always allowed

    resumed = cli("payouts", "resume", "--operator", "thu").stdout
    assert "payouts: on since" in resumed
    assert "0 waiting to be paid" in resumed


def test_automatic_approval_goes_off_and_on_by_itself(cli):
    assert cli.json("auto-approval", "off")["on"] is False
    assert cli.json("payouts", "status")["on"] is True

    cli.filed("A100")

    assert "1 waiting for a person" in cli("auto-approval", "on").stdout
    assert cli.json("auto-approval", "status")["on"] is True


def test_a_row_that_somebody_changed_is_off_and_says_so(cli):
    cli("payouts", "pause")
    cli.tamper("UPDATE switches SET is_on = 1")

    status = cli.json("payouts", "status")

    assert (status["on"], status["genuine"], status["changed_by"]) == (False, False, None)
    assert "audit verify" in cli("payouts", "status").stdout


def test_a_payment_that_is_not_frozen_is_a_conflict(cli):
    ended = cli(
        "payouts", "unfreeze", "--order", "A100", "--payment", "P1", "--as", "huong", code=5
    )

    assert "no frozen payment 'P1' of order 'A100'" in ended.stderr

"""`conversations take|answer|return`: the desk of a person, from the hand-over to the end."""

import pytest

HAND_OFF = {"tool": "hand_off", "arguments": {"reason": "khách \u202e muốn gặp người"}}


@pytest.fixture
def talk(cli, scripted) -> str:
    """A conversation that the agent handed over."""
    scripted(
        {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
        HAND_OFF,
        {"answer": "Mình đây."},
        {"answer": "Không có gì ạ."},
    )
    result = cli.json("ask", "cho tôi gặp nhân viên", "--customer", "C001")
    assert result["status"] == "handed_off"
    return result["conversation_id"]


def say(cli, talk: str, text: str):
    return cli.json("ask", text, "--customer", "C001", "--conversation", talk)


def test_from_the_hand_over_to_the_end(cli, talk):
    silent = say(cli, talk, "có ai không?")
    assert (silent["status"], silent["answer"]) == ("handed_off", "")

    [waiting] = cli.json("conversations", "list", "--handed-off")["data"]
    assert waiting["id"] == talk
    shown = cli("conversations", "show", talk).stdout
    head = shown.split("#1 customer")[0]
    assert "with a person" in head
    assert "A100: DELIVERED, 250.000" in head
    assert 'lookup_order({"order_id":"A100"}): done' in head
    assert "1 messages that nobody has answered" in head

    answered = cli.json("conversations", "answer", talk, "Mình là Thu.", "--operator", "thu")
    assert answered == {"id": talk, "seq": 4, "text": "Mình là Thu.", "by": "thu"}
    assert "#4 staff" in cli("conversations", "show", talk).stdout

    returned = cli.json("conversations", "return", talk, "--operator", "thu")
    assert returned == {"id": talk, "handed_off": False, "by": "thu", "to_answer": 0}
    assert cli.json("conversations", "list", "--handed-off")["data"] == []
    assert cli.json("tasks", "list")["data"] == []
    assert say(cli, talk, "cảm ơn")["status"] == "done"


def test_the_answer_is_delivered_by_tick(cli, talk):
    cli("conversations", "answer", talk, "Mình là Thu.")

    ticked = cli("tick")

    assert f"to customer C001 ({talk}:3): Mình là Thu." in ticked.stderr.splitlines()


def test_what_the_model_gave_as_reason_stands_in_a_box_and_hides_nothing(cli, talk):
    shown = cli("conversations", "show", talk).stdout

    assert "  | khách \\u202e muốn gặp người" in shown


def test_the_summary_as_an_object(cli, talk):
    summary = cli.json("conversations", "show", talk)["summary"]

    assert [order["id"] for order in summary["orders"]] == ["A100"]
    assert [task["kind"] for task in summary["tasks"]] == ["hand_off"]
    assert [call["tool"] for call in summary["tried"]] == ["lookup_order", "hand_off"]
    assert (summary["unanswered"], summary["quotes"], summary["requests"]) == (0, [], [])


def test_a_person_takes_one_over(cli):
    talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]

    taken = cli.json("conversations", "take", talk, "--as", "lan")

    assert (taken["handed_off"], taken["by"]) == (True, "lan")
    assert say(cli, talk, "alo")["answer"] == ""
    assert "is the agent's again" in cli("conversations", "return", talk).stdout


def test_doing_the_task_gives_it_back_too(cli, talk):
    [task] = cli.json("tasks", "list")["data"]

    done = cli("tasks", "done", task["id"]).stdout

    assert f"conversation {talk} is the agent's again" in done
    assert cli.error("conversations", "return", talk, code=5)["code"] == (
        "CONVERSATION_NOT_HANDED_OFF"
    )


class TestRefused:
    @pytest.mark.parametrize(
        "words", [("take",), ("answer", "vâng"), ("return",)], ids=lambda words: words[0]
    )
    def test_an_unknown_conversation_is_not_found(self, cli, words):
        command, *text = words

        error = cli.error("conversations", command, "con_no", *text, code=4)

        assert error["code"] == "CONVERSATION_NOT_FOUND"

    def test_what_a_person_has_is_not_taken_again(self, cli, talk):
        error = cli.error("conversations", "take", talk, code=5)

        assert error["code"] == "CONVERSATION_HANDED_OFF"

    def test_it_is_not_given_back_twice(self, cli, talk):
        cli("conversations", "return", talk)

        cli.error("conversations", "return", talk, code=5)

    def test_nobody_answers_beside_the_agent(self, cli):
        talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]

        error = cli.error("conversations", "answer", talk, "vâng", code=5)

        assert f"conversations take {talk}" in error["message"]

    def test_an_empty_answer_is_a_usage_error(self, cli, talk):
        cli.error("conversations", "answer", talk, "  ", code=2)

    def test_an_approver_has_to_be_one(self, cli, talk):
        error = cli.error("conversations", "return", talk, "--as", "nobody", code=4)

        assert error["code"] == "APPROVER_NOT_FOUND"

    def test_a_name_that_needs_a_token_is_not_believed(self, cli, talk, environment):
        environment(APPROVALS__PROOF="token")

        error = cli.error("conversations", "return", talk, "--as", "lan", code=1)

        assert error["code"] == "NOT_PROVED"
        assert len(cli.json("conversations", "list", "--handed-off")["data"]) == 1

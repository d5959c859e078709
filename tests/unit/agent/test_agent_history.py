"""The view a model gets of a conversation: append-only, every call with its result."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from support_agent.agent.history import INTERRUPTED, step_turns, turns_of
from support_agent.domain.conversation import Author, Message
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    FinalAnswer,
    Observation,
    RecordedCall,
    RunStep,
    ToolCall,
    Usage,
)
from support_agent.ports.model import AssistantCalls, AssistantTurn, CustomerTurn, ToolResult

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
START = datetime(2026, 10, 13, 2, 0, tzinfo=UTC)

texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["Số 0912345678", "mail mai@example.com", "CCCD 001099012345", "A100?"]),
)


def step(run_id: str, number: int, decision, observations=()) -> RunStep:
    calls = decision.calls if isinstance(decision, CallTools) else ()
    recorded = tuple(
        RecordedCall(call=call, observation=observation)
        for call, observation in zip(calls, observations, strict=True)
    )
    return RunStep(
        run_id=run_id, number=number, decision=decision, usage=Usage(), at=START, calls=recorded
    )


@st.composite
def calling_steps(draw, run_id: str, number: int) -> RunStep:
    count = draw(st.integers(1, 3))
    calls = tuple(
        ToolCall(id=f"{run_id}:{number}:{i}", provider_id=f"p{i}", name="t", arguments=draw(texts))
        for i in range(count)
    )
    answered = st.one_of(
        st.none(), st.builds(Observation, ok=st.booleans(), content=st.text(min_size=1, max_size=9))
    )
    observations = [draw(answered) for _ in calls]
    return step(run_id, number, CallTools(calls=calls, thought=draw(texts)), observations)


@st.composite
def conversations(draw) -> tuple[list[Message], list[RunStep]]:
    """A conversation as the loop leaves it: a message, a run's steps, perhaps an answer, notices."""
    messages: list[Message] = []
    steps: list[RunStep] = []

    def add(author: Author, run_id: str | None) -> None:
        seq = len(messages) + 1
        messages.append(
            Message(
                conversation_id="c",
                seq=seq,
                author=author,
                text=draw(texts),
                at=START + timedelta(hours=draw(st.integers(0, 100))),
                run_id=run_id,
            )
        )

    for turn in range(draw(st.integers(1, 4))):
        run_id = f"run_{turn}"
        add(Author.CUSTOMER, run_id)
        count = draw(st.integers(0, 3))
        steps.extend(draw(calling_steps(run_id, number)) for number in range(1, count + 1))
        if draw(st.booleans()):  # or the process died
            ends = draw(st.sampled_from([FinalAnswer(text="x"), AskCustomer(question="x")]))
            steps.append(step(run_id, 9, ends))
            add(Author.AGENT, run_id)
        if draw(st.booleans()):
            add(draw(st.sampled_from([Author.NOTICE, Author.STAFF])), None)
    return messages, steps


def at_the_start_of(messages: list[Message], steps: list[RunStep], seq: int):
    """What was stored when the run of customer message `seq` began."""
    earlier = [message for message in messages if message.seq <= seq]
    begun = {message.run_id for message in earlier if message.seq < seq}
    return earlier, [step for step in steps if step.run_id in begun]


@settings(deadline=None)
@given(conversations())
def test_the_view_of_a_later_moment_starts_with_that_of_an_earlier_one(stored):
    messages, steps = stored
    whole = turns_of(messages, steps, ZONE)

    for message in messages:
        if message.author is Author.CUSTOMER:
            earlier = turns_of(*at_the_start_of(messages, steps, message.seq), ZONE)
            assert whole[: len(earlier)] == earlier
            assert isinstance(earlier[-1], CustomerTurn)


@settings(deadline=None)
@given(conversations())
def test_a_run_that_goes_on_sees_what_it_saw_and_its_new_steps(stored):
    """The loop appends a step's calls and results; reading them back must give the same."""
    messages, steps = stored
    last = max(m.seq for m in messages if m.author is Author.CUSTOMER)
    begun, before = at_the_start_of(messages, steps, last)
    own = [step for step in steps if step.run_id == begun[-1].run_id]
    view = turns_of(begun, before, ZONE)

    for count in range(1, len(own) + 1):
        view += step_turns(own[count - 1])
        assert turns_of(begun, before + own[:count], ZONE) == view


@settings(deadline=None)
@given(conversations())
def test_every_call_stands_with_exactly_its_own_results(stored):
    turns = turns_of(*stored, ZONE)
    place = 0
    while place < len(turns):
        turn = turns[place]
        place += 1
        assert not isinstance(turn, ToolResult)
        if isinstance(turn, AssistantCalls):
            results = turns[place : place + len(turn.calls)]
            assert [result.call for result in results] == list(turn.calls)
            place += len(turn.calls)


def message(seq: int, author: Author, text: str, *, at: datetime = START) -> Message:
    run_id = f"run_{seq}" if author is Author.CUSTOMER else None
    return Message(conversation_id="c", seq=seq, author=author, text=text, at=at, run_id=run_id)


def test_an_unanswered_call_is_told_to_be_interrupted():
    call = ToolCall(id="run_1:1:0", provider_id="p", name="request_refund", arguments="{}")
    steps = [step("run_1", 1, CallTools(calls=(call,)), [None])]

    turns = turns_of([message(1, Author.CUSTOMER, "A100?")], steps, ZONE)

    assert turns[-1] == ToolResult(call=call, content=INTERRUPTED)
    assert INTERRUPTED.startswith("ERROR ")


def test_each_customer_message_is_dated_by_its_own_local_day():
    messages = [
        message(1, Author.CUSTOMER, "a", at=datetime(2026, 10, 12, 16, 59, tzinfo=UTC)),
        message(2, Author.AGENT, "b"),
        message(3, Author.CUSTOMER, "c", at=datetime(2026, 10, 12, 17, 0, tzinfo=UTC)),
    ]

    first, _, second = turns_of(messages, [], ZONE)

    assert (first.today, second.today) == (date(2026, 10, 12), date(2026, 10, 13))


def test_a_placeholder_stands_for_the_same_number_whoever_wrote_it():
    messages = [
        message(1, Author.CUSTOMER, "Gọi 0912345678 hoặc mai@example.com"),
        message(2, Author.AGENT, "Gọi 0987654321 nhé"),
        message(3, Author.CUSTOMER, "không, +84 912 345 678"),
    ]

    assert [turn.text for turn in turns_of(messages, [], ZONE)] == [
        "Gọi [phone-1] hoặc [email-1]",
        "Gọi [phone-2] nhé",
        "không, [phone-1]",
    ]


def test_a_notice_is_something_the_customer_was_told():
    messages = [message(1, Author.CUSTOMER, "A100?"), message(2, Author.NOTICE, "Đã hoàn.")]

    assert turns_of(messages, [], ZONE)[-1] == AssistantTurn(text="Đã hoàn.")

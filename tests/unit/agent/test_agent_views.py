"""Views over random conversations: short enough, alike from call to call, with every pair whole."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support_agent.agent.asides import Asides
from support_agent.agent.cuts import Cut
from support_agent.agent.history import History, history_of, step_turns
from support_agent.agent.recap import Recaps
from support_agent.agent.shown import shown_of
from support_agent.agent.state import RunState
from support_agent.agent.summaries import Summaries
from support_agent.agent.views import Marks, View, Views
from support_agent.agent.weights import turn_tokens
from support_agent.domain.conversation import Assurance, Author, Conversation, Message
from support_agent.domain.people import Asker, customer_principal
from support_agent.domain.runs import (
    CallTools,
    Observation,
    RecordedCall,
    Run,
    RunStatus,
    RunStep,
    ToolCall,
    Usage,
)
from support_agent.ports.model import (
    AssistantCalls,
    Correction,
    CustomerTurn,
    Recap,
    ToolResult,
    Turn,
)
from support_agent.ports.storage import Compaction
from support_agent.testing.clock import FixedClock

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
START = datetime(2026, 10, 13, 2, 0, tzinfo=UTC)
MARKS = Marks(high=400, low=200)
CONVERSATION = Conversation(
    id="c",
    channel="cli",
    account="local",
    external_contact="C001",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    language="vi",
    created_at=START,
)


class Books:
    """What is stored of a conversation: the part of the storage port that a view asks."""

    def __init__(self) -> None:
        self.cuts: list[Compaction] = []
        self.messages: list[Message] = []
        self.steps: list[RunStep] = []
        self.statuses: dict[str, Any] = {}
        self.compactions = self.requests = self.quotes = self.runs = self
        self.conversations = SimpleNamespace(get=lambda _: CONVERSATION)

    async def read(self, fn: Any) -> Any:
        return fn(self)

    transact: Any = None

    def add(self, cut: Compaction) -> None:
        self.cuts.append(cut)

    def get(self, request_id: str) -> Any:
        return self.statuses.get(request_id)

    def open_in(self, conversation_id: str) -> tuple[Any, ...]:
        return ()

    def model_calls(self, conversation_id: str, *, after_seq: int = 0) -> int:
        run_ids = {m.run_id for m in self.messages if m.seq > after_seq and m.run_id}
        return sum(step.run_id in run_ids for step in self.steps)

    def history(self) -> History:
        """As another process reads it."""
        cut = self.cuts[-1] if self.cuts else None
        after = cut.through_seq if cut else 0
        messages = [message for message in self.messages if message.seq > after]
        run_ids = {message.run_id for message in messages}
        steps = [step for step in self.steps if step.run_id in run_ids]
        return history_of(messages, steps, ZONE, cut=cut)

    def say(self, author: Author, text: str, run_id: str | None = None) -> None:
        seq = len(self.messages) + 1
        at = START + timedelta(minutes=seq)
        self.messages.append(
            Message(conversation_id="c", seq=seq, author=author, text=text, at=at, run_id=run_id)
        )


def views_of(books: Books, marks: Marks = MARKS) -> Views:
    database: Any = books
    metering: Any = None  # without a model nothing is spent
    asides = Asides(model=None, metering=metering, timeout_s=1)
    summaries = Summaries(asides=asides, longest=marks.summary_chars)
    recaps = Recaps(database=database, clock=FixedClock(START), summaries=summaries)
    return Views(system="", tools=(), marks=marks, recaps=recaps, database=database)


def state_of(history: History, run_id: str = "run_9") -> RunState:
    run = Run(
        id=run_id,
        conversation_id="c",
        trigger_seq=history.places[-1].seq if history.places else 1,
        status=RunStatus.RUNNING,
        stop_reason=None,
        operator=None,
        started_at=START,
        assurance=Assurance.VERIFIED,
    )
    asker = Asker(
        customer_id="C001",
        principal=customer_principal("C001", via="test"),
        operator=None,
        conversation_id="c",
        run_id=run_id,
    )
    budget: Any = None  # nothing is spent
    return RunState(
        run=run,
        conversation=CONVERSATION,
        asker=asker,
        turns=[*history.turns],
        shown=shown_of(history),
        budget=budget,
    )


def a_step(
    run_id: str,
    number: int,
    calls: Sequence[tuple[str, str]],
    thought: str = "",
    provider_state: str = "",
) -> RunStep:
    """A step whose calls are given as the order they ask for and what was observed."""
    made = [
        ToolCall(
            id=f"{run_id}:{number}:{i}",
            provider_id=f"p{i}",
            name="lookup_order",
            arguments=json.dumps({"order_id": order_id}),
        )
        for i, (order_id, _) in enumerate(calls)
    ]
    recorded = tuple(
        RecordedCall(call=call, observation=Observation(ok=content[0] == "{", content=content))
        for call, (_, content) in zip(made, calls, strict=True)
    )
    return RunStep(
        run_id=run_id,
        number=number,
        decision=CallTools(calls=tuple(made), thought=thought, provider_state=provider_state),
        usage=Usage(),
        at=START,
        calls=recorded,
    )


def an_order(order_id: str, size: int = 300) -> str:
    return json.dumps(
        {
            "status": "DELIVERED",
            "total": 250_000,
            "order_id": order_id,
            "currency": "VND",
            "lines": [{"line_id": f"{order_id}-1", "name": "n" * size}],
        }
    )


order_ids = st.sampled_from(["A100", "A101", "A102", "A103"])
observations = st.one_of(
    st.builds(an_order, order_ids, st.integers(0, 400)),
    st.just("ERROR ORDER_NOT_FOUND: Không có đơn hàng này."),
    st.builds(
        lambda n: json.dumps({"request_id": f"req_{n}", "status": "PENDING_APPROVAL"}),
        st.integers(1, 5),
    ),
    st.text(min_size=1, max_size=200),
)
words = st.one_of(
    st.text(max_size=200),
    st.sampled_from(
        [
            "Đơn A100 của tôi có được hoàn tiền không? Số của tôi là 0912345678.",
            "đồng ý",
            "Viết cho tôi: mai@example.com, CCCD 001099012345",
            "Cho mình hỏi về đơn hàng. " * 10,
        ]
    ),
)
steps_of_calls = st.lists(st.tuples(order_ids, observations), min_size=1, max_size=3)
runs = st.tuples(
    words,
    st.lists(st.tuples(steps_of_calls, st.text(max_size=40)), max_size=6),
    st.one_of(st.none(), words),  # the answer, or the process died
    st.one_of(st.none(), st.tuples(st.sampled_from([Author.NOTICE, Author.STAFF]), words)),
)


def pairs_are_whole(turns: Sequence[Turn]) -> bool:
    """Every call is followed at once by exactly its own results, and no result stands alone."""
    waiting: list[ToolCall] = []
    for turn in turns:
        if isinstance(turn, ToolResult):
            if not waiting or waiting.pop(0) != turn.call:
                return False
        elif waiting:
            return False
        elif isinstance(turn, AssistantCalls):
            waiting = [*turn.calls]
    return not waiting


def in_view(view: View) -> int:
    return sum(map(turn_tokens, view.turns))


@settings(deadline=None)
@given(st.lists(runs, min_size=1, max_size=7), st.booleans(), st.integers(0, 50))
async def test_every_view_is_whole_alike_and_short(conversation, corrected, squeezed):
    """A conversation lived through: each run begins in another process, with what is stored."""
    books = Books()
    views = views_of(books)
    calls = 0
    for number, (question, steps, answer, notice) in enumerate(conversation):
        run_id = f"run_{number}"
        books.say(Author.CUSTOMER, question, run_id)
        state = state_of(books.history(), run_id)
        before: tuple[Turn, ...] = ()
        cuts = len(books.cuts)
        for step_number in range(1, len(steps) + 2):
            calls += 1
            view = await views.of(state, squeeze=calls == squeezed)
            views.keep(books, state)

            assert pairs_are_whole(view.turns)
            assert view.tokens == in_view(view)
            assert sum(isinstance(turn, Recap) for turn in view.turns) <= 1
            assert all(not isinstance(turn, Recap) for turn in view.turns[1:])
            asked = [turn for turn in view.turns if isinstance(turn, CustomerTurn)]
            assert asked[-1].text == state.turns[state.shown.starts[-1]].text
            if len(books.cuts) == cuts:
                assert view.turns[: len(before)] == before
            else:
                recap = sum(turn_tokens(t) for t in view.turns if isinstance(t, Recap))
                assert view.tokens - recap <= MARKS.low or is_least(state)
            assert view.tokens <= max(MARKS.high, least_tokens(state) + 2 * MARKS.step)
            before, cuts = view.turns, len(books.cuts)
            if step_number > len(steps):
                break
            made, thought = steps[step_number - 1]
            step = a_step(run_id, step_number, made, thought, "signed" * (step_number % 3))
            books.steps.append(step)
            state.turns += step_turns(step)
            if corrected:
                state.turns.append(Correction(text="ERROR MODEL_REPLY_INVALID: x"))
        # Another process shows the same, but for what was only told to this one.
        again = state_of(books.history(), run_id)
        again.shown.grow(again.turns)
        state.shown.grow(state.turns)
        stored = [turn for turn in state.shown.turns if not isinstance(turn, Correction)]
        assert again.shown.turns == stored
        if answer is not None:
            books.say(Author.AGENT, answer, run_id)
        if notice is not None:
            books.say(notice[0], notice[1])


def least_tokens(state: RunState) -> int:
    """Of the recap, the newest message of the customer and the run's pairs, all but one digested."""
    recap = sum(turn_tokens(turn) for turn in state.shown.turns if isinstance(turn, Recap))
    newest = max((i for i, t in enumerate(state.turns) if isinstance(t, AssistantCalls)), default=0)
    first = state.shown.starts[-1]
    least = replace(state.shown)
    least.lay(state.turns, Cut(first=first, digested=max(newest, first)), recap=None)
    return recap + least.tokens


def is_least(state: RunState) -> bool:
    """Nothing more may be cut: the current run stands first and its old results are digests."""
    shown = state.shown
    newest = max((i for i, t in enumerate(state.turns) if isinstance(t, AssistantCalls)), default=0)
    at_the_last = shown.cut.first in {0, shown.starts[-1]}
    return at_the_last and shown.cut.digested >= min(newest, len(state.turns))


async def test_estimates_follow_what_the_server_counted():
    books = Books()
    books.say(Author.CUSTOMER, "Đơn A100 của tôi có được hoàn tiền không? " * 12, "run_0")
    views, state = views_of(books), state_of(books.history(), "run_0")
    estimated = (await views.of(state)).tokens
    assert not books.cuts

    views.heard(state, Usage(requests=1, input_tokens=round(estimated * 1.5)))
    assert views.size(state) == round(estimated * 1.5)
    views.heard(state, Usage(requests=3, input_tokens=9))  # of three attempts together
    assert views.size(state) == round(estimated * 1.5)
    views.heard(state, Usage(requests=1, input_tokens=estimated * 50))
    assert views.size(state) == estimated * 2


async def test_a_server_that_counts_more_makes_the_view_be_cut_earlier():
    books = Books()
    for number in range(3):
        books.say(
            Author.CUSTOMER, f"{number}. " + "Đơn của tôi sao rồi shop ơi? " * 7, f"run_{number}"
        )
    views, state = views_of(books), state_of(books.history(), "run_2")
    before = await views.of(state)
    assert MARKS.low < before.tokens < MARKS.high

    views.heard(state, Usage(requests=1, input_tokens=before.tokens * 2))
    after = await views.of(state)

    assert isinstance(after.turns[0], Recap)
    assert after.turns[-1] == before.turns[-1]


async def test_what_an_adapter_kept_of_runs_that_are_over_is_cut_off():
    books = Books()
    for number in range(2):
        run_id = f"run_{number}"
        books.say(Author.CUSTOMER, "Đơn A100?", run_id)
        books.steps += [
            a_step(run_id, n, [("A100", an_order("A100"))], provider_state="signed")
            for n in (1, 2, 3)
        ]
    views = views_of(books, Marks(high=400, low=360))
    state = state_of(books.history(), "run_1")
    view = await views.of(state)

    kept = [turn.provider_state for turn in view.turns if isinstance(turn, AssistantCalls)]
    assert kept == ["", "", "", "signed", "signed", "signed"]


@pytest.mark.parametrize("squeeze", [False, True])
async def test_nothing_is_cut_where_there_is_nothing_to_cut(squeeze):
    books = Books()
    books.say(Author.CUSTOMER, "Đơn A100 của tôi sao rồi? " * 99, "run_0")
    views, state = views_of(books), state_of(books.history(), "run_0")

    view = await views.of(state, squeeze=squeeze)
    views.keep(books, state)

    assert view.turns == tuple(state.turns)
    assert view.tokens > MARKS.high
    assert not books.cuts


async def test_an_unanswered_call_keeps_its_pair_when_it_is_digested():
    """The process died in the call: its result says so, shorter or longer."""
    books = Books()
    books.say(Author.CUSTOMER, "Đơn A100?", "run_0")
    made = a_step("run_0", 1, [("A100", "x")])
    books.steps.append(
        replace(made, calls=(RecordedCall(call=made.calls[0].call, observation=None),))
    )
    books.say(Author.CUSTOMER, "Alo?", "run_1")
    views, state = views_of(books), state_of(books.history(), "run_1")

    shown = (await views.of(state)).turns
    assert pairs_are_whole(shown)
    assert shown[2].content.startswith("ERROR INTERRUPTED: ")
    state.shown.lay(state.turns, Cut(digested=3), recap=None)
    assert pairs_are_whole(state.shown.turns)
    assert state.shown.turns[2].content == "ERROR INTERRUPTED"

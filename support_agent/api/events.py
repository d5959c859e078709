"""What a stream of events tells of a run or a conversation, and from where it goes on."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel

from support_agent.agent.results import result_of
from support_agent.api.shapes_talk import (
    CallShape,
    MessageShape,
    RunBrief,
    calls_of,
    run_shape,
    step_shape,
)
from support_agent.domain.conversation import Message
from support_agent.domain.errors import ConversationNotFound, InvalidInput, RunNotFound
from support_agent.domain.runs import Run, RunStatus, RunStep
from support_agent.ports.storage import Mark, Transaction

LAST_EVENT_ID = "Last-Event-ID"
MOST = 100  # messages or runs of one look
Kind = Literal["run", "conversation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is made of what is stored, so any process goes on behind it."""

    id: str
    name: str
    data: BaseModel

    def encoded(self) -> bytes:
        """As it is sent: real UTF-8, and one line of data."""
        data = json.dumps(
            self.data.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")
        )
        text = f"id: {self.id}\nevent: {self.name}\ndata: {data}\n\n"
        return text.encode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a look found. `mark` is how far the thing was; `more`: there is more of it already."""

    events: tuple[Event, ...]
    mark: Mark | None
    more: bool = False
    is_over: bool = False


class Story(Protocol):
    """Tells what there is to tell, each event once and none left out, from where it stands."""

    kind: ClassVar[Kind]

    @property
    def id(self) -> str: ...

    def look(self, tx: Transaction) -> Told:
        """What is new, and go on behind it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Behind step `step` and so many of its observations; behind the end in `ended_in`."""

    step: int = 0
    observed: int = 0
    ended_in: int | None = None  # the epoch: a run that is resumed ends again in a later one

    _WRITTEN: ClassVar[re.Pattern[str]] = re.compile(
        r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,15}))?"
    )

    def __str__(self) -> str:
        end = "" if self.ended_in is None else f".{self.ended_in}"
        return f"{self.step}.{self.observed}{end}"

    @classmethod
    def read(cls, text: str | None) -> "RunPlace":
        """The place an event's id names; the beginning without one.

        Raises:
            InvalidInput: it is no id of these events.
        """
        if text is None:
            return cls()
        found = cls._WRITTEN.fullmatch(text)
        if found is None:
            raise _not_ours()
        step, observed, ended_in = found.groups()
        return cls(
            step=int(step), observed=int(observed), ended_in=int(ended_in) if ended_in else None
        )


class RunStory:
    """`step`, `observation` and `done` of a run; over when it has ended.

    Calls are answered in the order they were made in, before the next step.
    """

    kind: ClassVar[Kind] = "run"

    def __init__(self, run_id: str, place: RunPlace, *, for_staff: bool) -> None:
        self.id = run_id
        self._place = place
        self._for_staff = for_staff

    def look(self, tx: Transaction) -> Told:
        """As `Story`.

        Raises:
            RunNotFound: it is gone.
            InvalidInput: the place it is to go on behind is ahead of all that is stored.
        """
        run = tx.runs.get(self.id)
        if run is None:
            raise RunNotFound(self.id)
        steps, place, events = tx.runs.steps(self.id), self._place, list[Event]()
        _check(place, run, steps)
        for step, calls in zip(steps, calls_of(steps), strict=True):
            answered = [*takewhile(_is_answered, calls)]
            if step.number < place.step:
                continue
            if step.number > place.step:
                place = RunPlace(step=step.number)
                data = step_shape(step, (), for_staff=self._for_staff)
                named = data.model_copy(update={"calls": [_asked(call) for call in calls]})
                events.append(Event(id=str(place), name="step", data=named))
            for call in answered[place.observed :]:
                place = replace(place, observed=place.observed + 1, ended_in=None)
                events.append(Event(id=str(place), name="observation", data=call))
        is_over = run.status is not RunStatus.RUNNING
        if is_over and place.ended_in != run.epoch:
            place = replace(place, ended_in=run.epoch)
            done = run_shape(run, result_of(tx, run))
            events.append(Event(id=str(place), name="done", data=done))
        self._place = place
        mark = tx.runs.progress((self.id,)).get(self.id)
        return Told(events=tuple(events), mark=mark, is_over=is_over)


def _check(place: RunPlace, run: Run, steps: Sequence[RunStep]) -> None:
    """Refuse a place that the run has not come to."""
    calls = steps[place.step - 1].calls if 0 < place.step <= len(steps) else ()
    answered = sum(1 for one in calls if one.observation is not None)
    if place.step > len(steps) or place.observed > answered or (place.ended_in or 0) > run.epoch:
        raise _not_ours()


def _asked(call: CallShape) -> CallShape:
    """As it was decided: what came of it is told by itself."""
    return call.model_copy(update={"ok": None, "observation": None, "error_code": None})


def _is_answered(call: CallShape) -> bool:
    return call.ok is not None


class RunChange(RunBrief):
    """A run of the conversation that began, went on again or ended."""

    phase: Literal["begun", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkPlace:
    """Behind message `seq` and what was told of the runs up to `epoch`; `open`: one goes on."""

    seq: int = 0
    epoch: int = 0
    open: bool = False

    _WRITTEN: ClassVar[re.Pattern[str]] = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})(r?)")

    def __str__(self) -> str:
        return f"{self.seq}.{self.epoch}{'r' if self.open else ''}"

    @classmethod
    def read(cls, text: str | None) -> "TalkPlace":
        """As `RunPlace.read`."""
        if text is None:
            return cls()
        found = cls._WRITTEN.fullmatch(text)
        if found is None:
            raise _not_ours()
        seq, epoch, is_open = found.groups()
        return cls(seq=int(seq), epoch=int(epoch), open=bool(is_open))


class TalkStory:
    """`message` and `run` (begun, ended) of a conversation; over when it was erased.

    A run is told of in the order of the conversation's epochs. It is in another one when it was
    taken over, which is not told, and when it was resumed, which is.
    """

    kind: ClassVar[Kind] = "conversation"

    def __init__(self, conversation_id: str, place: TalkPlace) -> None:
        self.id = conversation_id
        self._place = place

    def look(self, tx: Transaction) -> Told:
        """As `Story`.

        Raises:
            ConversationNotFound: it is gone.
            InvalidInput: the place it is to go on behind is ahead of all that is stored.
        """
        conversation, place = tx.conversations.get(self.id), self._place
        if conversation is None:
            raise ConversationNotFound(self.id)
        if place.seq > conversation.last_seq or place.epoch > conversation.epoch:
            raise _not_ours()
        mark = tx.conversations.progress((self.id,)).get(self.id)
        if conversation.erased:
            return Told(events=(), mark=mark, is_over=True)
        messages = tx.conversations.messages(self.id, after_seq=place.seq, limit=MOST)
        runs = tx.runs.since(
            self.id, epoch=place.epoch if place.open else place.epoch + 1, limit=MOST
        )
        telling = _Telling(place, messages)
        telling.tell(runs)
        self._place = telling.place
        return Told(events=tuple(telling.events), mark=mark, more=telling.more)


class _Telling:
    """Messages and runs woven into one order: a run begins behind what it reads."""

    def __init__(self, place: TalkPlace, messages: Sequence[Message]) -> None:
        self.place = place
        self.events: list[Event] = []
        self.more = len(messages) == MOST
        self._left = [*messages]

    def tell(self, runs: Sequence[Run]) -> None:
        for run, is_told in zip(runs, self._are_told(), strict=False):
            ended = run.status is not RunStatus.RUNNING
            if not is_told:
                if not self._messages(run.trigger_seq):
                    return
                self._run(run, "begun")
            if ended:
                if not self._messages(run.answer_seq or 0):
                    return
                self._run(run, "ended")
        self.more = self.more or len(runs) == MOST
        if len(runs) < MOST:
            self._messages(None)

    def _are_told(self) -> Iterator[bool]:
        """Of one that goes on it was told that it began; it is the first that is looked at."""
        yield self.place.open
        while True:
            yield False

    def _messages(self, through_seq: int | None) -> bool:
        """Tell those up to one; False when it is behind what was read in this look."""
        while self._left and (through_seq is None or self._left[0].seq <= through_seq):
            message = self._left.pop(0)
            self._move(seq=message.seq)
            data = MessageShape.model_validate(message)
            self.events.append(Event(id=str(self.place), name="message", data=data))
        return bool(self._left) or not self.more or (through_seq or 0) <= self.place.seq

    def _run(self, run: Run, phase: Literal["begun", "ended"]) -> None:
        self._move(epoch=run.epoch, open=phase == "begun")
        if phase == "begun":  # whatever it has come to since
            run = replace(run, status=RunStatus.RUNNING, stop_reason=None)
        brief = RunBrief.model_validate(run).model_dump()
        data = RunChange.model_validate({**brief, "phase": phase})
        self.events.append(Event(id=str(self.place), name="run", data=data))

    def _move(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the place
        self.place = replace(self.place, **changes)


def _not_ours() -> InvalidInput:
    return InvalidInput(LAST_EVENT_ID, "is not the id of an event of this stream; leave it out")

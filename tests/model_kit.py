"""What the tests of model wrappers share: models that fail as told, and time that nobody waits for."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from support_agent.domain.errors import ModelUnavailable
from support_agent.domain.runs import FinalAnswer, Usage
from support_agent.ports.model import CustomerTurn, ModelReply, ModelRequest

TOOK = Usage(requests=1, input_tokens=100, output_tokens=10, cost_micros=7)
ANSWER = ModelReply(decision=FinalAnswer(text="Vâng."), usage=TOOK)


def asked(timeout_s: float = 120.0, **changed: Any) -> ModelRequest:
    """A request as the loop sends it."""
    values: dict[str, Any] = {
        "conversation_id": "cv_1",
        "run_id": "rn_1",
        "step": 1,
        "system": "",
        "tools": (),
        "turns": (CustomerTurn(text="Xin chào", today=date(2026, 10, 13)),),
        "timeout_s": timeout_s,
    }
    return ModelRequest(**(values | changed))


def away(**changed: Any) -> ModelUnavailable:
    """No answer; it may pass, and it cost 40 tokens."""
    values: dict[str, Any] = {"usage": Usage(requests=1, input_tokens=40)}
    return ModelUnavailable("HTTP 503", **(values | changed))


class Time:
    """A monotonic clock that is put forward by hand, and by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class PlayedModel:
    """Answers with the next outcome each time: a reply, or an error that is raised."""

    def __init__(
        self, *outcomes: ModelReply | Exception, time: Time | None = None, takes_s: float = 0.0
    ) -> None:
        self.requests: list[ModelRequest] = []
        self.closed = 0
        self._outcomes = list(outcomes)
        self._time = time
        self._takes_s = takes_s

    async def decide(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if self._time is not None:
            self._time.now += min(self._takes_s, request.timeout_s)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        self.closed += 1


class Gate:
    """Stands for the loop: hears what attempts have cost, and allows so many more."""

    ROOM = 321

    def __init__(self, allowed: int = 1_000) -> None:
        self.told: list[Usage] = []
        self._allowed = allowed

    async def __call__(self, so_far: Usage) -> int | None:
        self.told.append(so_far)
        return self.ROOM if len(self.told) <= self._allowed else None


def jitters(values: Sequence[float]) -> Callable[[], float]:
    """The given numbers in turn."""
    return iter(values).__next__

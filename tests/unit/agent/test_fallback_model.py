"""Asking a second model when the first one gives no answer."""

import pytest
from structlog.testing import capture_logs

from support_agent.agent.fallback import FallbackModel
from support_agent.agent.retrying import RetryingModel
from support_agent.domain.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelReplyInvalid,
    ModelUnavailable,
)
from support_agent.domain.runs import FinalAnswer, Usage
from support_agent.ports.model import ModelReply
from tests.model_kit import ANSWER, TOOK, Gate, PlayedModel, Time, asked, away

LOST = Usage(requests=1, input_tokens=40)
OTHER = ModelReply(decision=FinalAnswer(text="Dạ."), usage=TOOK)


def pair(first: PlayedModel, second: PlayedModel, time: Time, *, reserve_s: float = 60.0):
    return FallbackModel(first, second, reserve_s=reserve_s, rest_s=30.0, monotonic=time.monotonic)


async def test_the_second_is_not_asked_while_the_first_answers():
    first, second = PlayedModel(ANSWER, ANSWER), PlayedModel()
    model = pair(first, second, Time())

    assert await model.decide(asked()) is ANSWER
    assert await model.decide(asked()) is ANSWER
    assert second.requests == []


@pytest.mark.parametrize(
    "failure", [away(), ModelUnavailable("HTTP 400", may_pass=False, usage=LOST)]
)
async def test_the_second_answers_for_a_first_that_does_not_and_both_are_counted(failure):
    reply = await pair(PlayedModel(failure), PlayedModel(OTHER), Time()).decide(asked())

    assert reply.decision == OTHER.decision
    assert reply.usage == LOST + TOOK


async def test_a_wrong_setting_of_the_first_is_an_error_in_the_log_and_no_silence():
    refused = ConfigurationError("the key is refused", setting="OPENAI_API_KEY")

    with capture_logs() as logs:
        reply = await pair(PlayedModel(refused), PlayedModel(OTHER), Time()).decide(asked())

    assert reply.decision == OTHER.decision
    assert [(one["log_level"], one["problem"]) for one in logs] == [
        ("error", "OPENAI_API_KEY: the key is refused")
    ]


@pytest.mark.parametrize("failure", [away(), ConfigurationError("no key")])
async def test_when_the_seconds_setting_is_wrong_the_firsts_failure_stands(failure):
    broken = ConfigurationError("no such model")
    model = pair(PlayedModel(failure), PlayedModel(broken), Time())

    with capture_logs() as logs, pytest.raises(type(failure)) as raised:
        await model.decide(asked())

    assert raised.value is failure
    assert ("error", "no such model") in [(one["log_level"], one["problem"]) for one in logs]


@pytest.mark.parametrize("error", [away(), ContextTooLong("too long", usage=LOST)])
async def test_what_the_second_fails_with_holds_what_both_cost(error):
    with pytest.raises(type(error)) as raised:
        await pair(PlayedModel(away()), PlayedModel(error), Time()).decide(asked())

    assert raised.value is error
    assert error.usage == LOST + LOST


async def test_a_reply_of_the_second_that_is_no_decision_holds_what_both_cost():
    error = ModelReplyInvalid("prose", usage=TOOK)

    with pytest.raises(ModelReplyInvalid):
        await pair(PlayedModel(away()), PlayedModel(error), Time()).decide(asked())

    assert error.usage == LOST + TOOK


@pytest.mark.parametrize("error", [ContextTooLong("too long"), ModelReplyInvalid("prose")])
async def test_what_the_caller_can_mend_is_the_callers(error):
    second = PlayedModel(OTHER)

    with pytest.raises(type(error)):
        await pair(PlayedModel(error), second, Time()).decide(asked())

    assert second.requests == []


@pytest.mark.parametrize(
    ("left", "first_s", "second_s"), [(120.0, 60.0, 60.0), (90.0, 45.0, 45.0), (200.0, 140.0, 60.0)]
)
async def test_a_first_that_hangs_leaves_the_second_its_time(left, first_s, second_s):
    time = Time()
    first, second = PlayedModel(away(), time=time, takes_s=999), PlayedModel(OTHER)
    await pair(first, second, time).decide(asked(left))

    assert first.requests[0].timeout_s == first_s
    assert second.requests[0].timeout_s == second_s


async def test_without_time_left_the_second_is_not_asked():
    time = Time()
    first, second = PlayedModel(away(), time=time, takes_s=60), PlayedModel(OTHER)

    with pytest.raises(ModelUnavailable):
        await pair(first, second, time, reserve_s=0).decide(asked(60))

    assert second.requests == []


async def test_without_room_in_the_budget_the_second_is_not_asked():
    gate, second = Gate(allowed=0), PlayedModel(OTHER)

    with pytest.raises(ModelUnavailable):
        await pair(PlayedModel(away()), second, Time()).decide(asked(again=gate))

    assert gate.told == [LOST]
    assert second.requests == []


async def test_what_the_second_asks_for_counts_what_the_first_cost():
    time, gate = Time(), Gate()

    def twice(model: PlayedModel) -> RetryingModel:
        return RetryingModel(
            model, attempts=2, backoff_s=0.5, sleep=time.sleep, monotonic=time.monotonic
        )

    second = PlayedModel(away(), OTHER)
    model = FallbackModel(
        twice(PlayedModel(away(), away())),
        twice(second),
        reserve_s=60,
        monotonic=time.monotonic,
    )
    reply = await model.decide(asked(again=gate))

    assert [usage.requests for usage in gate.told] == [1, 2, 3]
    assert [sent.max_output_tokens for sent in second.requests] == [gate.ROOM] * 2
    assert reply.usage == LOST + LOST + LOST + TOOK


def again(model: PlayedModel, time: Time) -> RetryingModel:
    return RetryingModel(
        model, attempts=3, backoff_s=0.5, sleep=time.sleep, monotonic=time.monotonic
    )


async def test_a_wrong_setting_takes_no_failed_attempt_of_the_first_off_the_count():
    time, gate = Time(), Gate()
    first = again(PlayedModel(away(), ConfigurationError("the key is refused")), time)
    reply = await pair(first, PlayedModel(OTHER), time).decide(asked(again=gate))

    assert gate.told == [LOST, LOST + Usage(requests=1)]
    assert reply.usage == LOST + Usage(requests=1) + TOOK


async def test_a_wrong_setting_takes_no_failed_attempt_of_the_second_off_the_count():
    time, gate = Time(), Gate()
    second = again(PlayedModel(away(), ConfigurationError("no such model")), time)

    with pytest.raises(ModelUnavailable) as raised:
        await pair(PlayedModel(away()), second, time).decide(asked(again=gate))

    assert gate.told == [LOST, LOST + LOST]
    assert raised.value.usage == LOST + LOST + Usage(requests=1)


async def test_a_first_that_is_away_is_spared_for_a_while():
    time = Time()
    first, second = PlayedModel(away(), ANSWER), PlayedModel(OTHER, OTHER, OTHER)
    model = pair(first, second, time)

    for _ in range(3):
        await model.decide(asked())
        time.now += 12
    back = await model.decide(asked())

    assert len(second.requests) == 3
    assert back is ANSWER


async def test_a_first_that_rests_answers_for_a_second_that_does_not():
    first, second = PlayedModel(away(), ANSWER), PlayedModel(OTHER, away())
    model = pair(first, second, Time())
    await model.decide(asked())
    reply = await model.decide(asked())

    assert (reply.decision, reply.usage) == (ANSWER.decision, LOST + TOOK)


async def test_a_refusal_of_one_request_says_nothing_about_the_next():
    refused = ModelUnavailable("HTTP 400", may_pass=False)
    first, second = PlayedModel(refused, ANSWER), PlayedModel(OTHER)
    model = pair(first, second, Time())
    await model.decide(asked())

    assert await model.decide(asked()) is ANSWER


async def test_closing_closes_both():
    first, second = PlayedModel(), PlayedModel()
    await pair(first, second, Time()).aclose()

    assert (first.closed, second.closed) == (1, 1)

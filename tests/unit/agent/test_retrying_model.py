"""Asking a model again: when, how long after, and what it has cost by then."""

import pytest

from support_agent.agent.retrying import LONGEST_BACKOFF_S, RetryingModel
from support_agent.domain.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelReplyInvalid,
    ModelUnavailable,
)
from support_agent.domain.runs import Usage
from tests.model_kit import ANSWER, TOOK, Gate, PlayedModel, Time, asked, away, jitters

LOST = Usage(requests=1, input_tokens=40)


def retrying(model: PlayedModel, time: Time, *, attempts: int = 3, jitter=(1.0,) * 9):
    return RetryingModel(
        model,
        attempts=attempts,
        backoff_s=0.5,
        sleep=time.sleep,
        monotonic=time.monotonic,
        jitter=jitters(jitter),
    )


async def test_an_answer_at_once_is_passed_on_as_it_is():
    time = Time()
    model = PlayedModel(ANSWER)

    assert await retrying(model, time).decide(asked()) is ANSWER
    assert time.slept == []


async def test_what_may_pass_is_asked_again_and_its_cost_is_added():
    time = Time()
    reply = await retrying(PlayedModel(away(), away(), ANSWER), time).decide(asked())

    assert reply.decision == ANSWER.decision
    assert reply.usage == LOST + LOST + TOOK
    assert len(time.slept) == 2


async def test_the_last_error_holds_what_all_attempts_cost():
    model = PlayedModel(away(), away(), away())

    with pytest.raises(ModelUnavailable) as raised:
        await retrying(model, Time()).decide(asked())

    assert raised.value.usage == LOST + LOST + LOST
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("HTTP 400", may_pass=False, usage=LOST),
        ContextTooLong("too long", usage=LOST),
        ModelReplyInvalid("prose", usage=LOST),
        ConfigurationError("no key"),
    ],
)
async def test_what_will_not_pass_is_raised_at_once_with_what_came_before_it(error):
    time = Time()
    model = PlayedModel(away(), error, ANSWER)

    with pytest.raises(type(error)) as raised:
        await retrying(model, time).decide(asked())

    assert raised.value is error
    assert len(model.requests) == 2
    assert getattr(error, "usage", LOST + LOST) == LOST + LOST


async def test_waits_grow_from_attempt_to_attempt_and_are_spread_by_chance():
    time = Time()
    model = PlayedModel(*(away() for _ in range(4)), ANSWER)
    await retrying(model, time, attempts=5, jitter=(1.0, 0.5, 0.0, 1.0)).decide(asked())

    assert time.slept == [0.5, 0.5, 0.0, 4.0]


async def test_a_wait_by_our_own_reckoning_has_an_end():
    time = Time()
    model = PlayedModel(*(away() for _ in range(9)), ANSWER)
    await retrying(model, time, attempts=10).decide(asked(3600))

    assert max(time.slept) == LONGEST_BACKOFF_S


@pytest.mark.parametrize(
    ("says", "waits"),
    [(7.0, 7.0), (0.0, 0.5), (None, 0.5), (59.9, 59.9)],
)
async def test_the_server_is_not_asked_before_the_time_it_named(says, waits):
    time = Time()
    await retrying(PlayedModel(away(retry_after=says), ANSWER), time).decide(asked(60))

    assert time.slept == [waits]


@pytest.mark.parametrize("says", [60.0, 3600.0])
async def test_a_wait_that_uses_up_the_time_is_not_begun(says):
    time = Time()
    model = PlayedModel(away(retry_after=says), ANSWER)

    with pytest.raises(ModelUnavailable):
        await retrying(model, time).decide(asked(60))

    assert time.slept == []
    assert len(model.requests) == 1


async def test_each_attempt_has_what_the_ones_before_it_left():
    time = Time()
    model = PlayedModel(away(), away(), ANSWER, time=time, takes_s=10)
    await retrying(model, time).decide(asked(60))

    assert [request.timeout_s for request in model.requests] == [60, 49.5, 38.5]


async def test_one_that_hangs_until_the_end_is_not_asked_again():
    time = Time()
    model = PlayedModel(away(), ANSWER, time=time, takes_s=60)

    with pytest.raises(ModelUnavailable):
        await retrying(model, time).decide(asked(60))

    assert len(model.requests) == 1


async def test_before_each_further_attempt_it_is_asked_whether_there_is_room():
    gate, model = Gate(), PlayedModel(away(), away(), ANSWER)
    await retrying(model, Time()).decide(asked(again=gate))

    assert gate.told == [LOST, LOST + LOST]
    assert [sent.max_output_tokens for sent in model.requests] == [None, gate.ROOM, gate.ROOM]


async def test_without_room_nothing_is_waited_for_or_sent():
    """600 of 1,000 tokens were used by the failed attempt: whether 400 are enough is not for here."""
    time, gate = Time(), Gate(allowed=0)
    model = PlayedModel(away(), ANSWER)

    with pytest.raises(ModelUnavailable) as raised:
        await retrying(model, time).decide(asked(again=gate))

    assert raised.value.usage == LOST
    assert (len(model.requests), time.slept) == (1, [])


async def test_closing_closes_the_model():
    model = PlayedModel()
    await retrying(model, Time()).aclose()

    assert model.closed == 1

"""Asks a model again when the same request may be answered the next time."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from support_agent.agent.spending import next_attempt
from support_agent.domain.errors import ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import Usage
from support_agent.ports.model import ChatModel, ModelReply, ModelRequest

log = structlog.get_logger(__name__)

LONGEST_BACKOFF_S = 20.0


class RetryingModel:
    """Waits a random time up to `backoff_s`, doubled with each attempt, or what Retry-After says.

    Only what may pass is asked again, and only where the wait leaves time for it: otherwise it
    fails at once. A model call changes nothing on our side, so repeating one is safe. It is not
    free: what the failed ones cost is in the usage of the reply, or of the error.

    Args:
        model: whom to ask; it is closed with this one.
        attempts: the most, the first one included.
        jitter: a number from 0 to 1, another one each time.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        attempts: int,
        backoff_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._jitter = jitter

    async def decide(self, request: ModelRequest) -> ModelReply:
        deadline = self._monotonic() + request.timeout_s
        attempt, spent = 1, Usage()
        while True:
            try:
                reply = await self._model.decide(request)
            except (ModelReplyInvalid, ModelUnavailable) as error:
                spent = error.usage = spent + error.usage
                wait_s = self._wait_s(error, attempt, deadline)
                following = None if wait_s is None else await next_attempt(request, spent)
                if wait_s is None or following is None:
                    raise
                log.warning(
                    "model.asked_again",
                    problem=str(error),
                    attempt=attempt,
                    wait_s=round(wait_s, 3),
                )
                await self._sleep(wait_s)
            else:
                return replace(reply, usage=spent + reply.usage) if attempt > 1 else reply
            attempt += 1
            request = replace(following, timeout_s=deadline - self._monotonic())

    async def aclose(self) -> None:
        await self._model.aclose()

    def _wait_s(
        self, error: ModelReplyInvalid | ModelUnavailable, attempt: int, deadline: float
    ) -> float | None:
        """How long to wait before the next attempt; None when there is to be none."""
        if not isinstance(error, ModelUnavailable) or not error.may_pass:
            return None  # the model is told, the view is shortened, or a person must act
        if attempt >= self._attempts:
            return None
        most = min(LONGEST_BACKOFF_S, self._backoff_s * 2 ** (attempt - 1))
        wait_s = max(most * self._jitter(), error.retry_after or 0.0)
        return wait_s if wait_s < deadline - self._monotonic() else None

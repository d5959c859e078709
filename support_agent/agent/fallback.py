"""Asks a second model when the first one gives no answer."""

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from support_agent.agent.spending import next_attempt
from support_agent.domain.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelReplyInvalid,
    ModelUnavailable,
)
from support_agent.domain.runs import Usage
from support_agent.ports.model import ChatModel, ModelReply, ModelRequest

log = structlog.get_logger(__name__)


class FallbackModel:
    """The first model's answer, or the second's where there is none.

    - The first one leaves the second `reserve_s`, at most half of the time there is.
    - A first one that is away is asked second for the next `rest_s`: a conversation does not wait
      for it at every step.
    - A wrong setting of one model, a revoked key for one, does not silence the shop: it is logged
      as an error and the other one is asked.
    - A request that is too long and a reply that is no decision are the caller's to mend,
      whichever model they come from.
    """

    def __init__(
        self,
        first: ChatModel,
        second: ChatModel,
        *,
        reserve_s: float,
        rest_s: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = first
        self._second = second
        self._reserve_s = reserve_s
        self._rest_s = rest_s
        self._monotonic = monotonic
        self._rests_until = float("-inf")

    async def decide(self, request: ModelRequest) -> ModelReply:
        deadline = self._monotonic() + request.timeout_s
        one, other = self._order()
        reserve_s = min(self._reserve_s, request.timeout_s / 2)
        heard = _Heard(request, Usage())
        try:
            return await one.decide(heard.request(request, request.timeout_s - reserve_s))
        except ContextTooLong:
            raise
        except (ConfigurationError, ModelUnavailable) as error:
            failure = error
        if isinstance(failure, ModelUnavailable):
            spent = failure.usage
        else:
            spent = heard.cost + Usage(requests=1)
        self._note(one, failure)
        following = await next_attempt(request, spent)
        left_s = deadline - self._monotonic()
        if following is None or left_s <= 0:
            raise failure
        heard = _Heard(request, spent)
        try:
            reply = await other.decide(heard.request(following, left_s))
        except ConfigurationError as error:
            self._note(other, error)
            if isinstance(failure, ModelUnavailable):
                failure.usage = heard.cost + Usage(requests=1)
            raise failure from error
        except (ModelReplyInvalid, ModelUnavailable) as error:
            error.usage = spent + error.usage
            raise
        return replace(reply, usage=spent + reply.usage)

    async def aclose(self) -> None:
        try:
            await self._second.aclose()
        finally:
            await self._first.aclose()

    def _order(self) -> tuple[ChatModel, ChatModel]:
        if self._monotonic() < self._rests_until:
            return self._second, self._first
        return self._first, self._second

    def _note(self, model: ChatModel, failure: ConfigurationError | ModelUnavailable) -> None:
        which = "first" if model is self._first else "second"
        if isinstance(failure, ConfigurationError):
            log.error("model.misconfigured", model=which, problem=str(failure))
        else:
            log.warning("model.fell_back", model=which, problem=str(failure))
        # One request that is refused for what it is says nothing about the next one.
        is_away = isinstance(failure, ConfigurationError) or failure.may_pass
        if model is self._first and is_away:
            self._rests_until = self._monotonic() + self._rest_s


class _Heard:
    """What one of the two has told of its attempts: a wrong setting does not say what they cost."""

    def __init__(self, request: ModelRequest, before: Usage) -> None:
        self._ask = request.again
        self._before = before
        self.cost = before  # with what was spent before this one was asked

    def request(self, request: ModelRequest, timeout_s: float) -> ModelRequest:
        """The request with its time; what it costs is told on top of what was spent before."""
        again = None if self._ask is None else self._again
        return replace(request, timeout_s=timeout_s, again=again)

    async def _again(self, so_far: Usage) -> int | None:
        self.cost = self._before + so_far
        return await self._ask(self.cost) if self._ask is not None else None

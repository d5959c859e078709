"""Asks the small model something beside the decision: a summary, what the customer wants."""

import asyncio
from collections.abc import Sequence
from datetime import date

import structlog

from support_agent.agent.metering import Metering
from support_agent.agent.spending import Spending
from support_agent.agent.state import RunState
from support_agent.domain.errors import ConfigurationError, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import FinalAnswer
from support_agent.domain.tokens import estimate_tokens
from support_agent.ports.model import ChatModel, CustomerTurn, ModelReply, ModelRequest, Turn

log = structlog.get_logger(__name__)

SHARE_OF_TIME = 0.25  # of what the run has left: the decision itself needs the rest


class Asides:
    """An aside counts like every other call. No run fails for the want of one."""

    def __init__(self, *, model: ChatModel | None, metering: Metering, timeout_s: float) -> None:
        self._model = model
        self._metering = metering
        self._timeout_s = timeout_s

    async def ask(self, state: RunState, *, system: str, text: str, most_output_tokens: int) -> str:
        """The model's words about a text; empty without a model, room, time or an answer."""
        if self._model is None:
            return ""
        tokens = estimate_tokens(system) + estimate_tokens(text)
        spending = Spending(state=state, metering=self._metering, view_tokens=tokens)
        if await spending.room() is not None:
            state.over = None  # the decision itself may still fit
            return ""
        request = ModelRequest(
            conversation_id=state.conversation.id,
            run_id=state.run.id,
            step=state.step + 1,
            call_index=state.call_index,
            system=system,
            tools=(),
            turns=(CustomerTurn(text=text, today=_today(state.turns)),),
            timeout_s=min(self._timeout_s, state.budget.model_timeout() * SHARE_OF_TIME),
            max_output_tokens=min(spending.output_tokens, most_output_tokens),
            language=state.conversation.language,
            again=spending.again,
        )
        state.call_index += 1
        reply = await self._answered(self._model, request, spending)
        if spending.end is not None:
            state.over = None
        if reply is None or not isinstance(reply.decision, FinalAnswer):
            return ""
        return reply.decision.text

    async def _answered(
        self, model: ChatModel, request: ModelRequest, spending: Spending
    ) -> ModelReply | None:
        try:
            async with asyncio.timeout(request.timeout_s):
                reply = await model.decide(request)
        except (ModelReplyInvalid, ModelUnavailable) as error:
            spending.count(error.usage)
            log.warning("aside.not_answered", problem=str(error))
            return None
        except ConfigurationError as error:
            spending.count_refused()
            log.error("aside.misconfigured", problem=str(error))  # noqa: TRY400 - no fault of ours
            return None
        except TimeoutError:
            spending.count_lost()
            log.warning("aside.not_answered", problem="no answer in time")
            return None
        except asyncio.CancelledError:
            spending.count_lost()
            raise
        except Exception:
            spending.count_refused()
            log.exception("aside.failed")  # a fault of the program, but none of the decision's
            return None
        spending.count(reply.usage)
        return reply


def _today(turns: Sequence[Turn]) -> date:
    return next(turn.today for turn in reversed(turns) if isinstance(turn, CustomerTurn))

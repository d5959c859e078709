"""A chat model made of rules: for newcomers without an API key, for demos and for tests."""

import json
from typing import assert_never

from support_agent.adapters.models.offline.history import read
from support_agent.adapters.models.offline.planner import plan
from support_agent.adapters.models.offline.steps import Ask, Call, Say, Step
from support_agent.domain.runs import AskCustomer, CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply, ModelRequest


class OfflineModel:
    """Deterministic, and knows no id, amount, date or policy.

    Every fact in its text comes from the customer's words or from tool results in the request.
    It believes what it is told, as a language model might: limits and consent are code's.
    """

    async def decide(self, request: ModelRequest) -> ModelReply:
        step = plan(read(request))
        return ModelReply(decision=_decision(request, step), usage=Usage(requests=1))

    async def aclose(self) -> None:
        """Nothing is held open."""


def _decision(request: ModelRequest, step: Step) -> Decision:
    match step:
        case Call():
            call_id = f"{request.run_id}:{request.step}:0"
            arguments = json.dumps(dict(step.arguments), ensure_ascii=False, separators=(",", ":"))
            call = ToolCall(id=call_id, provider_id=call_id, name=step.name, arguments=arguments)
            return CallTools(calls=(call,), thought=step.thought)
        case Say():
            return FinalAnswer(text=step.text)
        case Ask():
            return AskCustomer(question=step.text)
        case _:
            assert_never(step)

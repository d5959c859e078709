"""What the model is shown of a conversation: append-only, every call with its result."""

from collections.abc import Sequence
from datetime import tzinfo

from support_agent.domain.conversation import Author, Message
from support_agent.domain.runs import CallTools, RunStep
from support_agent.domain.text import mask_all
from support_agent.ports.model import AssistantCalls, AssistantTurn, CustomerTurn, ToolResult, Turn

INTERRUPTED = "ERROR INTERRUPTED: the call was not answered; nothing is known of its outcome"


def turns_of(messages: Sequence[Message], steps: Sequence[RunStep], zone: tzinfo) -> list[Turn]:
    """The conversation as turns.

    A run's calls stand after the customer message that started it. Numbers that identify people are
    replaced by stable placeholders. Each turn depends only on what came before it, so the list of a
    later moment starts with the list of an earlier one.
    """
    by_run: dict[str, list[RunStep]] = {}
    for step in steps:
        by_run.setdefault(step.run_id, []).append(step)
    texts = mask_all([message.text for message in messages])
    turns: list[Turn] = []
    for message, text in zip(messages, texts, strict=True):
        if message.author is not Author.CUSTOMER:
            turns.append(AssistantTurn(text=text))
            continue
        turns.append(CustomerTurn(text=text, today=message.at.astimezone(zone).date()))
        for step in by_run.get(message.run_id or "", ()):
            turns += step_turns(step)
    return turns


def step_turns(step: RunStep) -> list[Turn]:
    """A step's calls, each with its result; answers are shown as the message that carried them."""
    if not isinstance(step.decision, CallTools):
        return []
    results = [
        ToolResult(
            call=recorded.call,
            content=recorded.observation.content if recorded.observation else INTERRUPTED,
        )
        for recorded in step.calls
    ]
    calls = AssistantCalls(calls=step.decision.calls, thought=step.decision.thought)
    return [calls, *results]

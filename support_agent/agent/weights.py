"""How many tokens a turn is, as estimated before a server counts it."""

from typing import assert_never

from support_agent.domain.tokens import estimate_tokens
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    Recap,
    ToolResult,
    ToolSpec,
    Turn,
)

TURN_TOKENS = 8  # role, ids and brackets around a turn


def turn_tokens(turn: Turn) -> int:
    """Of one turn, with what stands around it."""
    match turn:
        case AssistantTurn(text=text) | Correction(text=text):
            words = text
        case CustomerTurn(text=text, note=note):
            words = text + note
        case Recap(facts=facts, summary=summary, note=note):
            words = facts + summary + note
        case ToolResult(content=words):
            pass
        case AssistantCalls(calls=calls, thought=thought, provider_state=state):
            words = thought + state + "".join(call.name + call.arguments for call in calls)
        case _:
            assert_never(turn)
    return TURN_TOKENS + estimate_tokens(words)


def result_tokens(content: str) -> int:
    """Of a tool's result with this content."""
    return TURN_TOKENS + estimate_tokens(content)


def tool_tokens(tool: ToolSpec) -> int:
    """Of a tool's definition."""
    return estimate_tokens(f"{tool.name}{tool.description}{tool.parameters}")

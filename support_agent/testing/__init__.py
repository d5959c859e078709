"""Public test kit: a scripted model, simulators and contract suites for adapters."""

from support_agent.testing.scripted import ScriptedModel

__all__ = ["ScriptedModel"]

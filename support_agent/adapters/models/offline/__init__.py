"""The rule-based model: understand the words, read the history, plan a step, word it."""

from support_agent.adapters.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]

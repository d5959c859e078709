"""Every setting, its default and its environment name; nothing is read at import."""

from support_agent.settings.loading import known_names, load_settings
from support_agent.settings.model import DEFAULT_MODEL, ModelChoice, ModelSettings
from support_agent.settings.sections import SecuritySettings
from support_agent.settings.settings import Settings

__all__ = [
    "DEFAULT_MODEL",
    "ModelChoice",
    "ModelSettings",
    "SecuritySettings",
    "Settings",
    "known_names",
    "load_settings",
]

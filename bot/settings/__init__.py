"""Settings: one TOML file, and secrets from the environment or from files that it names."""

from faultline.bot.settings.environment import ENV_PREFIX, is_secret, secret_variable
from faultline.bot.settings.loading import DEFAULT_FILE, load_settings
from faultline.bot.settings.processes import ServerSettings, StoreSettings, WorkerSettings
from faultline.bot.settings.settings import (
    NAMED_TABLES,
    Settings,
    sections_in_order,
    sections_that_repeat,
)
from faultline.connectors.shared.settings.settings_types import Secrets, Section

__all__ = [
    "DEFAULT_FILE",
    "ENV_PREFIX",
    "NAMED_TABLES",
    "Secrets",
    "Section",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "WorkerSettings",
    "is_secret",
    "load_settings",
    "secret_variable",
    "sections_in_order",
    "sections_that_repeat",
]

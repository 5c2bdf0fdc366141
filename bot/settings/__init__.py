"""Settings: one TOML file, and secrets from the environment or from files that it names."""

from bot.settings.section import Secrets, Section
from bot.settings.settings import (
    DEFAULT_FILE,
    ENV_PREFIX,
    NAMED_TABLES,
    PagerDutySettings,
    ServerSettings,
    ServiceSettings,
    Settings,
    SlackSettings,
    StoreSettings,
    TracesSettings,
    WorkerSettings,
    is_secret,
    load_settings,
    secret_variable,
)

__all__ = [
    "DEFAULT_FILE",
    "ENV_PREFIX",
    "NAMED_TABLES",
    "PagerDutySettings",
    "Secrets",
    "Section",
    "ServerSettings",
    "ServiceSettings",
    "Settings",
    "SlackSettings",
    "StoreSettings",
    "TracesSettings",
    "WorkerSettings",
    "is_secret",
    "load_settings",
    "secret_variable",
]

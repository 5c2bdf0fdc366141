"""Which process needs which secret, declared once: for Terraform, Kubernetes and `faultline check`.

The web process (`faultline serve --no-worker`) faces the internet. It holds what proves senders and
visitors and what opens the store; the secrets of the bots in Slack and Teams too, because clicks
and mentions are answered from there. Vendors are asked by workers alone, so a secret that is not
named here is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from faultline.bot.settings.environment import is_secret, secret_variable
from faultline.bot.settings.settings import Settings

ProcessRole = Literal["server", "worker"]
PROVES_SENDERS = frozenset({"webhook_tokens", "webhook_secrets", "signing_secrets"})
"""Keys of any section whose secrets prove who sent a webhook."""
SERVER_ONLY = frozenset(
    {
        ("changes", "tokens"),
        ("heartbeat", "ping_url"),
        ("login", "client_secret"),
        ("server", "access_token"),
        ("slack", "app_token"),
        ("webhook", "tokens"),
    }
)
BOTH = frozenset(
    {
        ("msteams", "client_secret"),
        ("slack", "bot_token"),
        ("store", "database"),
        ("telemetry", "otlp_headers"),
    }
)


def needed_by(role: ProcessRole, section: str, key: str) -> bool:
    """Whether the process needs this secret."""
    if (section, key) in BOTH:
        return True
    of_server = key in PROVES_SENDERS or (section, key) in SERVER_ONLY
    return of_server if role == "server" else not of_server


def beyond_need(role: ProcessRole, settings: Settings) -> list[str]:
    """Variables of the secrets that these settings hold and the process does not need, sorted."""
    names = {name for section, key, name in _secrets(settings) if not needed_by(role, section, key)}
    return sorted(names)


def _secrets(settings: Settings) -> Iterator[tuple[str, str, str]]:
    for section in type(settings).model_fields:
        # Tables with names of the operator's choice are no instances, and hold no secret.
        for table in settings.instances(section):
            for key in type(table).model_fields:
                if is_secret(type(table), key) and getattr(table, key):
                    yield section, key, secret_variable(section, key, table.instance.name)

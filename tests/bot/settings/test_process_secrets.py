"""Each process holds only the secrets that it needs, and starts with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.alert_sources import built_in_sources
from faultline.bot.processes.check import secrets_check
from faultline.bot.processes.launch import refuse_what_cannot_serve, refuse_what_cannot_work
from faultline.bot.settings import Settings, is_secret
from faultline.bot.settings.environment import beyond_need, needed_by

ROOT = Path(__file__).parents[3]
OF_THE_SERVER = (
    "bot/web",
    "bot/api",
    "bot/mcp",
    "bot/intake",
    "bot/conversation/slack",
    "bot/processes/server.py",
)
"""What runs in the process that faces the internet, and in no worker."""
HELD = Settings.model_validate(
    {
        "datadog": {"api_key": "k", "app_key": "a", "webhook_tokens": ["t"]},
        "pagerduty": {"webhook_secrets": ["s"], "api_token": "p"},
        "slack": {"bot_token": "xoxb-1"},
        "model": {"api_key": "m"},
    }
)


def test_the_server_needs_no_key_of_a_vendor_and_the_worker_nothing_that_proves_senders() -> None:
    assert beyond_need("server", HELD) == [
        "FAULTLINE_DATADOG__API_KEY",
        "FAULTLINE_DATADOG__APP_KEY",
        "FAULTLINE_MODEL__API_KEY",
        "FAULTLINE_PAGERDUTY__API_TOKEN",
    ]
    assert beyond_need("worker", HELD) == [
        "FAULTLINE_DATADOG__WEBHOOK_TOKENS",
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS",
    ]
    assert "FAULTLINE_MODEL__API_KEY" in secrets_check(HELD, "server").line
    assert not secrets_check(HELD, "server").ok
    assert secrets_check(Settings(), "server").ok


def test_a_server_builds_no_connector_and_so_needs_no_key() -> None:
    settings = Settings.model_validate(
        {"github": {"app_id": "1", "installation_id": "2", "private_key": "not a key"}}
    )
    with pytest.raises(SettingsError, match="private_key"):
        refuse_what_cannot_work(settings)
    refuse_what_cannot_serve(settings)


def test_what_proves_the_senders_of_every_alert_source_is_the_servers() -> None:
    for source in built_in_sources():
        for key in source.required:
            if is_secret(source.settings, key):
                assert needed_by("server", source.section, key), f"{source.section}.{key}"


def test_what_the_servers_own_code_reads_is_the_servers() -> None:
    """The dead-man's switch was silent where each process had its own secrets: its address went to
    the workers, and the server calls it."""
    files = [file for place in OF_THE_SERVER for file in _python_files(ROOT / place)]
    code = "\n".join(file.read_text() for file in files)
    read = set()
    for section, field in Settings.model_fields.items():
        model = field.annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            continue
        for key in model.model_fields:
            if is_secret(model, key) and re.search(rf"\.{section}\.{key}\b", code):
                read.add((section, key))
    assert {("heartbeat", "ping_url"), ("changes", "tokens"), ("slack", "app_token")} <= read
    assert [one for one in sorted(read) if not needed_by("server", *one)] == []


def _python_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))

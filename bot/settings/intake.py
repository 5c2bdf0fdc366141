"""Settings of how alerts are taken while the database does not take them, and of the signs of life
around the bot. docs/reliability.md, docs/operating.md."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from faultline.connectors.shared.settings.settings_types import Section


class SpoolSettings(Section):
    """Where alerts wait that the database has not taken within a second: docs/reliability.md."""

    directory: Path | None = None
    """A directory on a disk of this host. Only the bot's user can read it. Unset: `spool` in
    `store.directory`."""
    max_alerts: int = Field(default=10_000, ge=1)
    """Alerts that may wait there. More are answered 503, so that their senders try again."""
    max_bytes: int = Field(default=67_108_864, ge=65_536)
    """The same in bytes."""
    survives_restart: bool = True
    """Whether the directory is still there after a restart. Where it is not, as on Fargate, set
    `false`: `/healthz` then asks for no restart while alerts wait in it."""


class HeartbeatSettings(Section):
    """Signs of life, in and out: docs/operating.md#dead-mans-switch."""

    watchdog_alert: str = "Watchdog"
    """Name of the alert that always fires, in Alertmanager. It starts no investigation. Empty:
    none is one."""
    watchdog_minutes: float = Field(default=15, ge=1)
    """Once it has arrived, minutes without it until it counts as missing. Keep it above twice the
    `repeat_interval` of its route."""
    ping_url: SecretStr | None = None
    """Secret. An address that is called once a minute while alerts get into the database, and with
    `/fail` behind it while they do not, as Healthchecks.io has them."""

    @field_validator("ping_url")
    @classmethod
    def _is_http(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("must begin with https:// or http://")
        return value

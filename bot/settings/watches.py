"""Settings of services that are looked at by the clock, without an alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.settings.settings_types import Section


class WatchSettings(Section):
    """A service that is looked at by the clock: docs/verify-deploy.md. Written as
    `[[watch]]` with a `service`, or as `[watch.NAME]`."""

    service: str | None = Field(default=None, min_length=1, max_length=200)
    """The service, as in the catalogue. Unset: the table's name."""
    every_minutes: float = Field(default=10, ge=5, le=1440)
    """How often it is looked at. Each look asks the metrics and logs of one service."""
    window_minutes: float = Field(default=15, ge=5, le=240)
    """How many minutes are compared with the 6 hours before."""
    times: int = Field(default=2, ge=1, le=20)
    """How many looks in a row must find it worse before an investigation starts."""
    severity: str = Field(default="warning", max_length=40)
    """The severity of its alert."""
    places: Mapping[str, str] = Field(default_factory=dict)
    """Where it is, by label, such as `{ cluster = "eu-1" }`: only sources that cover it are asked,
    and the alert carries them."""


def watches_by_name(values: dict[str, Any]) -> None:
    """Turn a list `[[watch]]` into tables by name: that of the service, or `name` where one is
    given. Raises SettingsError."""
    watch_tables = values.get("watch")
    if not isinstance(watch_tables, list):
        return
    tables: dict[str, dict[str, Any]] = {}
    for table in watch_tables:
        if not isinstance(table, dict):
            raise SettingsError("watch", "must be tables, [[watch]]")
        watch_table = dict(table)
        name = watch_table.pop("name", None) or watch_table.get("service")
        if not isinstance(name, str) or not name:
            raise SettingsError("watch", "each [[watch]] needs a service")
        if name in tables:
            raise SettingsError(
                f"watch.{name[:60]}", "is there twice: give one of them another name"
            )
        tables[name] = watch_table
    values["watch"] = tables

"""Hosts that the settings name: links of runbooks may lead to these and to no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from bot.settings import Settings
from connectors.datadog.links import APP_HOSTS


def linkable_hosts(settings: Settings) -> frozenset[str]:
    """Hosts of every address in the settings, of the configured vendors' own pages, and
    `runbooks.link_hosts`."""
    found = {host for url in _addresses(settings) if (host := _host(url))}
    found |= {host.lower() for host in settings.runbooks.link_hosts}
    datadog = settings.datadog
    if datadog.app_key is not None:
        found.add(datadog.app_host or APP_HOSTS.get(datadog.site, f"app.{datadog.site}"))
    return frozenset(found)


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        return
    if isinstance(value, str):
        if value.startswith(("http://", "https://")):
            yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _addresses(getattr(value, name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _addresses(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _addresses(one)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None

"""Hosts that the settings name: links of runbooks may lead to these and to no others."""

from __future__ import annotations

from urllib.parse import urlsplit

from faultline.bot.settings import Settings
from faultline.connectors.shared.settings.instance_settings import addresses_in
from faultline.connectors.vendors.datadog import DatadogSettings
from faultline.connectors.vendors.datadog.links import APP_HOSTS


def linkable_hosts(settings: Settings) -> frozenset[str]:
    """Hosts of every address in the settings, of the configured vendors' own pages, and
    `runbooks.link_hosts`."""
    tables = [settings, *(instance.section for instance in settings.every_instance())]
    hosts = {host for url in addresses_in(tables) if (host := _host(url))}
    hosts |= {host.lower() for host in settings.runbooks.link_hosts}
    for datadog in settings.sections(DatadogSettings):
        if datadog.app_key is not None:
            hosts.add(datadog.app_host or APP_HOSTS.get(datadog.site, f"app.{datadog.site}"))
    return frozenset(hosts)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None

"""Which reader a status page has: a public page's, or that of Azure Service Health."""

from __future__ import annotations

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.status_pages import StatusPageSettings
from faultline.connectors.vendors.status_pages.connector import (
    FORMATS,
    LIMITS,
    StatusPagesConnector,
)


def build(page_settings: StatusPageSettings, settings: SharedSettings) -> StatusPagesConnector:
    """The configured connector. Raises SettingsError without a name or an address."""
    provider = page_settings.provider or page_settings.instance.name
    if not provider:
        raise SettingsError("status_pages.provider", "must be set: whose page it is")
    if page_settings.kind == "azure_service_health":
        # Late: it loads the client of Azure.
        from faultline.connectors.vendors.status_pages.service_health import build_service_health

        return build_service_health(page_settings, settings, provider)
    if not (page_settings.url or FORMATS[page_settings.kind].base):
        raise SettingsError("status_pages.url", f"must be set for kind {page_settings.kind}")
    base = page_settings.url or FORMATS[page_settings.kind].base
    http = ReadOnlyHttp("status_pages", base, limits=page_settings.limits(LIMITS))
    return StatusPagesConnector(page_settings, provider, http)

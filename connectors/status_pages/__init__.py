"""Status pages of providers: incidents that they report."""

from connectors.connector_type import ConnectorType
from connectors.status_pages.settings import StatusPageSettings

CONNECTOR = ConnectorType(
    name="status_pages",
    settings=StatusPageSettings,
    build="connectors.status_pages.connector:build",
    kinds=("states",),
    docs="status_pages.md",
)

"""Status pages of providers: incidents that they report."""

from connectors.connector_type import ConnectorType, Listing
from connectors.status_pages.settings import StatusPageSettings

CONNECTOR = ConnectorType(
    name="status_pages",
    settings=StatusPageSettings,
    build="connectors.status_pages.opening:build",
    kinds=("states",),
    docs="status_pages.md",
    listing=Listing(
        title="Status pages of providers",
        login="nothing; Azure Service Health as Azure Monitor",
        places="components and regions that a page names",
        permissions="none exist; Azure Service Health: Reader",
        tested_against="a stand-in after the feeds' documentation and Azure's specification",
    ),
)

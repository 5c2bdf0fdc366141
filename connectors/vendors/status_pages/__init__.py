"""Status pages of providers: incidents that they report."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.status_pages.settings import StatusPageSettings

CONNECTOR = ConnectorType(
    name="status_pages",
    settings=StatusPageSettings,
    build="faultline.connectors.vendors.status_pages.opening:build",
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

"""Flagsmith: changes of feature flags."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.flagsmith.settings import FlagsmithSettings

CONNECTOR = ConnectorType(
    name="flagsmith",
    settings=FlagsmithSettings,
    build="faultline.connectors.vendors.flagsmith.connector:build",
    kinds=("changes",),
    docs="feature-flags.md",
    listing=Listing(
        title="Flagsmith",
        login="API key of an organisation",
        places="projects and environments",
        permissions="to view a project's audit log",
        tested_against="a stand-in after the published specification",
    ),
)

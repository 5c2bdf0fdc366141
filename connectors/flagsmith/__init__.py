"""Flagsmith: changes of feature flags."""

from connectors.connector_type import ConnectorType, Listing
from connectors.flagsmith.settings import FlagsmithSettings

CONNECTOR = ConnectorType(
    name="flagsmith",
    settings=FlagsmithSettings,
    build="connectors.flagsmith.connector:build",
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

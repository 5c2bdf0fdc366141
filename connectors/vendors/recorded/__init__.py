"""A recorded case as the source of evidence."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.recorded.settings import RecordedSettings

CONNECTOR = ConnectorType(
    name="recorded",
    settings=RecordedSettings,
    build="faultline.connectors.vendors.recorded.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors", "states", "traces"),
    docs="recorded.md",
    listing=Listing(
        title="Recorded case",
        login="nothing",
        places="as recorded",
        permissions="to read a folder",
        tested_against="real cases",
        also="everything else of a case",
    ),
    several=False,
)

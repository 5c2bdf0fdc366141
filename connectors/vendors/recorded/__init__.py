"""A recorded case as the source of evidence."""

from __future__ import annotations

from pathlib import Path

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings


class RecordedSettings(ConnectorSettings):
    """A recorded case as the source of evidence, for the demo and for experiments."""

    case: Path | None = None
    """A case folder. Its windows are used instead of those around the alert."""


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

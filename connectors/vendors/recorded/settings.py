"""Settings of the recorded case."""

from __future__ import annotations

from pathlib import Path

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings


class RecordedSettings(ConnectorSettings):
    """A recorded case as the source of evidence, for the demo and for experiments."""

    case: Path | None = None
    """A case folder. Its windows are used instead of those around the alert."""

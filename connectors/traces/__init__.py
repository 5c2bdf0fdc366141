"""Training traces: what a job leaves in directories and S3."""

from connectors.connector_type import ConnectorType
from connectors.traces.settings import TracesSettings

CONNECTOR = ConnectorType(
    name="traces",
    settings=TracesSettings,
    build="connectors.traces.connector:build",
    kinds=("traces",),
    docs="training-traces.md",
    reads_jobs=True,
    several=False,
)

"""Training traces: what a job leaves in directories and S3."""

from connectors.connector_type import ConnectorType, Listing
from connectors.traces.settings import TracesSettings

CONNECTOR = ConnectorType(
    name="traces",
    settings=TracesSettings,
    build="connectors.traces.connector:build",
    kinds=("traces",),
    docs="training-traces.md",
    listing=Listing(
        title="Training traces",
        login="as boto3, Google and Azure find it",
        places="jobs",
        permissions="to list and read a prefix",
        tested_against="real traces, emulated object stores",
        also="dumps, logs of a job",
    ),
    reads_jobs=True,
    several=False,
)

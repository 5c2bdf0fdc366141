"""Training traces: what a job leaves in directories and S3."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.traces.settings import TracesSettings

CONNECTOR = ConnectorType(
    name="traces",
    settings=TracesSettings,
    build="faultline.connectors.vendors.traces.connector:build",
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

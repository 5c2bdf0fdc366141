"""Training traces: what a job leaves in directories and S3."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Networks, Url


class TracesSettings(ConnectorSettings):
    """Where training jobs leave their traces."""

    locations: Names = ()
    """Directories, `s3://bucket/prefix`, `gs://bucket/prefix` or
    `https://ACCOUNT.blob.core.windows.net/container/prefix`. `{job}` is replaced by the training
    job's name."""
    endpoint_url: Url | None = None
    """S3-compatible endpoint, for stores other than AWS."""
    max_file_bytes: int = Field(default=2_000_000_000, ge=1024)
    """A larger trace file is left out, and the report says so."""
    max_files: int = Field(default=4096, ge=1)
    """Trace files taken for one investigation at most."""
    hosts: Names = ()
    """Hosts from which traces that an alert links to are fetched: `traces.example`,
    `*.traces.example`, on another port `traces.example:8443`, without TLS `http://minio:9000`.
    Unset: no link is followed."""
    private_networks: Networks = ()
    """Private networks those hosts may be in, such as `10.20.0.0/16`. Unset: only public
    addresses."""


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

"""Slurm: jobs and nodes of training clusters."""

from connectors.connector_type import ConnectorType, Listing
from connectors.slurm.settings import SlurmSettings

CONNECTOR = ConnectorType(
    name="slurm",
    settings=SlurmSettings,
    build="connectors.slurm.connector:build",
    kinds=("states",),
    docs="slurm.md",
    listing=Listing(
        title="Slurm",
        login="token of slurmrestd",
        places="clusters and partitions",
        permissions="a user without rights; operator where jobs are private",
        tested_against="the published specification",
    ),
)

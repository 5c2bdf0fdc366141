"""Slurm: jobs and nodes of training clusters."""

from connectors.connector_type import ConnectorType
from connectors.slurm.settings import SlurmSettings

CONNECTOR = ConnectorType(
    name="slurm",
    settings=SlurmSettings,
    build="connectors.slurm.connector:build",
    kinds=("states",),
    docs="slurm.md",
)

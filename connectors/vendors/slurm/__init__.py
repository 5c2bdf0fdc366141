"""Slurm: jobs and nodes of training clusters."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.slurm.settings import SlurmSettings

CONNECTOR = ConnectorType(
    name="slurm",
    settings=SlurmSettings,
    build="faultline.connectors.vendors.slurm.connector:build",
    kinds=("states",),
    docs="slurm.md",
    listing=Listing(
        title="Slurm",
        login="a token of Slurm",
        places="the name of the cluster",
        permissions="a user of Slurm without rights",
        tested_against="the published specifications of three versions",
        also="drain reasons",
    ),
)

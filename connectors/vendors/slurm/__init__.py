"""Slurm: jobs and nodes of training clusters."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class SlurmSettings(SelfHostedSettings):
    """Slurm as a source of the state of jobs and nodes: docs/connectors/slurm.md."""

    url: Url | None = None
    """Base of slurmrestd's HTTP API. Unset: Slurm is not asked."""
    version: str | None = Field(default=None, pattern=r"^v0\.0\.\d{2}$")
    """The API's version, such as `v0.0.42`. Unset: the newest that the server has."""
    cluster: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    """The cluster's name in the accounting, where several share it."""


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

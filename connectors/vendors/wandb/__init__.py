"""Weights & Biases: training metrics."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class WandbSettings(ConnectorSettings):
    """Weights & Biases as a source of training metrics: docs/connectors/wandb.md."""

    entity: str | None = None
    """The team or user that owns the projects."""
    project: str | None = None
    """The project that training jobs log to, as `project` or `entity/project`. Unset: only
    `projects`."""
    projects: Mapping[str, str] = Field(default_factory=dict)
    """Training job to its project, for jobs that log to another one."""
    base_url: Url = "https://api.wandb.ai"
    """The API. Change it for dedicated clouds and self-hosted servers."""
    app_url: Url | None = None
    """Base of links to runs. Unset: derived from `base_url`."""
    api_key: SecretStr | None = None
    """Secret. An API key, ideally of a read-only service account."""


CONNECTOR = ConnectorType(
    name="wandb",
    settings=WandbSettings,
    build="faultline.connectors.vendors.wandb.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="wandb.md",
    listing=Listing(
        title="Weights & Biases",
        login="API key",
        places="entity and project",
        permissions="an account that can view",
        tested_against="a stand-in of its GraphQL",
    ),
)

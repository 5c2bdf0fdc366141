"""MLflow: training metrics."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class MlflowSettings(SelfHostedSettings):
    """An MLflow tracking server as a source of training metrics: docs/connectors/mlflow.md."""

    url: Url | None = None
    """Base of the tracking server. Unset: MLflow is not used."""
    experiment: str | None = None
    """Name of the experiment that training jobs log to, in which a run has its job's name."""
    experiments: Mapping[str, str] = Field(default_factory=dict)
    """Training job to the name of its dedicated experiment, whose runs may have any name."""
    public_url: Url | None = None
    """Base of links, if people reach MLflow at another address than `url`."""


CONNECTOR = ConnectorType(
    name="mlflow",
    settings=MlflowSettings,
    build="faultline.connectors.vendors.mlflow.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="mlflow.md",
    listing=Listing(
        title="MLflow",
        login="as Prometheus",
        places="experiments",
        permissions="READ on the experiments",
        tested_against="MLflow 3.17 itself, and a stand-in that answers as it does",
    ),
)

"""MLflow: training metrics."""

from connectors.connector_type import ConnectorType, Listing
from connectors.mlflow.settings import MlflowSettings

CONNECTOR = ConnectorType(
    name="mlflow",
    settings=MlflowSettings,
    build="connectors.mlflow.connector:build",
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

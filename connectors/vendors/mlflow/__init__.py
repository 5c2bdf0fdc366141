"""MLflow: training metrics."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.mlflow.settings import MlflowSettings

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

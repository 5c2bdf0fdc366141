"""Weights & Biases: training metrics."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.wandb.settings import WandbSettings

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

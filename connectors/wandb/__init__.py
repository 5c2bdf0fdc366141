"""Weights & Biases: training metrics."""

from connectors.connector_type import ConnectorType
from connectors.wandb.settings import WandbSettings

CONNECTOR = ConnectorType(
    name="wandb",
    settings=WandbSettings,
    build="connectors.wandb.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="wandb.md",
)

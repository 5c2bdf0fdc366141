"""AWS: CloudWatch, Logs Insights, X-Ray, CloudTrail and deployments."""

from connectors.aws.settings import AwsSettings
from connectors.connector_type import ConnectorType

CONNECTOR = ConnectorType(
    name="aws",
    settings=AwsSettings,
    build="connectors.aws.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors", "states"),
    docs="aws.md",
    several=False,
)

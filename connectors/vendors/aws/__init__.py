"""AWS: CloudWatch, Logs Insights, X-Ray, CloudTrail and deployments."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.aws.settings import AwsSettings

CONNECTOR = ConnectorType(
    name="aws",
    settings=AwsSettings,
    build="faultline.connectors.vendors.aws.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors", "states"),
    docs="aws.md",
    listing=Listing(
        title="AWS",
        login="as boto3 finds it, roles of accounts",
        places="accounts and regions",
        permissions="a policy of reading calls",
        tested_against="two emulators; AWS' own service models",
        also="state of databases",
    ),
    several=False,
)

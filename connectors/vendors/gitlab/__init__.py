"""GitLab: deployments, merges and code."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.gitlab.settings import GitLabSettings

CONNECTOR = ConnectorType(
    name="gitlab",
    settings=GitLabSettings,
    build="faultline.connectors.vendors.gitlab.connector:build",
    kinds=("changes",),
    docs="gitlab.md",
    listing=Listing(
        title="GitLab",
        login="token",
        places="environments of deployments",
        permissions="`read_api` as Reporter",
        tested_against="a stand-in after its documentation",
        also="code of a stack trace",
    ),
)

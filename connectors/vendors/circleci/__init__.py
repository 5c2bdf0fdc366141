"""CircleCI: deployments and builds."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.circleci.settings import CircleCISettings

CONNECTOR = ConnectorType(
    name="circleci",
    settings=CircleCISettings,
    build="faultline.connectors.vendors.circleci.connector:build",
    kinds=("changes",),
    docs="ci.md",
    listing=Listing(
        title="CircleCI",
        login="personal API token",
        places="branches",
        permissions="a user that may view",
        tested_against="a stand-in after its documentation",
    ),
)

"""CircleCI: deployments and builds."""

from connectors.circleci.settings import CircleCISettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="circleci",
    settings=CircleCISettings,
    build="connectors.circleci.connector:build",
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

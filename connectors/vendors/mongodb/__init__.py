"""MongoDB: who waits for locks, what stays open, members that are behind, what fills up."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.mongodb.settings import MongodbSettings

CONNECTOR = ConnectorType(
    name="mongodb",
    settings=MongodbSettings,
    build="faultline.connectors.vendors.mongodb.connector:build",
    kinds=("states",),
    docs="mongodb.md",
    listing=Listing(
        title="MongoDB",
        login="user and password",
        places="one server each",
        permissions="the role `clusterMonitor`",
        tested_against="a stand-in that speaks its protocol, after its manual",
        also="locks, slow operations",
    ),
)

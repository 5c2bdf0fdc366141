"""MongoDB: who waits for locks, what stays open, members that are behind, what fills up."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class MongodbSettings(DatabaseSettings):
    """MongoDB as a source of its own state: docs/connectors/mongodb.md."""

    port: int = Field(default=27017, ge=1, le=65535)
    """Its port."""
    auth_database: str = Field(default="admin", min_length=1, max_length=63)
    """The database in which the user was created."""
    statement_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds after which one command of ours is cancelled."""


CONNECTOR = ConnectorType(
    name="mongodb",
    settings=MongodbSettings,
    build="faultline.connectors.vendors.mongodb.connector:build",
    kinds=("states", "topology"),
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

"""Settings of MongoDB."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class MongodbSettings(DatabaseSettings):
    """MongoDB as a source of its own state: docs/connectors/mongodb.md."""

    port: int = Field(default=27017, ge=1, le=65535)
    """Its port."""
    auth_database: str = Field(default="admin", min_length=1, max_length=63)
    """The database in which the user was created."""
    statement_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds after which one command of ours is cancelled."""

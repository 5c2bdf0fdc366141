"""Settings of MySQL and MariaDB."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class MysqlSettings(DatabaseSettings):
    """MySQL or MariaDB as a source of its own state: docs/connectors/mysql.md."""

    port: int = Field(default=3306, ge=1, le=65535)
    """Its port."""
    statement_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds after which one statement of ours is cancelled."""
    sample_s: float = Field(default=5.0, ge=0, le=30)
    """Seconds between two readings of counters, whose difference is compared with all that the
    server counted before. 0: counters are not compared."""

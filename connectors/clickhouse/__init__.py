"""ClickHouse: logs, spans and metrics of OpenTelemetry, and those of SigNoz, by SQL."""

from connectors.clickhouse.settings import ClickHouseSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="clickhouse",
    settings=ClickHouseSettings,
    build="connectors.clickhouse.connector:build",
    kinds=("metrics", "logs", "spans"),
    docs="clickhouse.md",
    listing=Listing(
        title="ClickHouse, SigNoz",
        login="as Prometheus",
        places="resource attributes",
        permissions="`SELECT` on the tables, `readonly`",
        tested_against="ClickHouse's engine (chDB) behind its HTTP interface",
    ),
)

"""ClickHouse: logs, spans and metrics of OpenTelemetry, and those of SigNoz, by SQL."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.clickhouse.settings import ClickHouseSettings

CONNECTOR = ConnectorType(
    name="clickhouse",
    settings=ClickHouseSettings,
    build="faultline.connectors.vendors.clickhouse.connector:build",
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

"""ClickHouse: logs, spans and metrics of OpenTelemetry, and those of SigNoz, by SQL."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url

TABLE = r"^[A-Za-z0-9_.-]{1,200}$"


class ClickHouseSettings(SelfHostedSettings):
    """ClickHouse as a source of logs, spans and metrics: docs/connectors/clickhouse.md."""

    url: Url | None = None
    """Base of the HTTP interface, such as `https://clickhouse.example.com:8443`. Unset: ClickHouse
    is not used."""
    database: str | None = Field(default=None, pattern=TABLE)
    """The database that holds the tables. Unset: all that the user may read are looked through."""
    logs_table: str | None = Field(default=None, pattern=TABLE)
    """Table of log lines. Unset: `otel_logs` or `distributed_logs_v2`."""
    traces_table: str | None = Field(default=None, pattern=TABLE)
    """Table of spans. Unset: `otel_traces` or `distributed_signoz_index_v3`."""
    metrics_tables: Names = ()
    """Tables of metrics. Unset: `otel_metrics_gauge` and `otel_metrics_sum`, or
    `distributed_time_series_v4` and `distributed_samples_v4`."""
    query_timeout_s: int = Field(default=15, ge=1, le=300)
    """Seconds that the server may take for one query (`max_execution_time`)."""
    public_url: Url | None = None
    """Where people reach the same server: links open its page for queries (`/play`). Unset: no
    links."""


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

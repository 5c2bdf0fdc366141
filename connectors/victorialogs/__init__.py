"""VictoriaLogs: logs."""

from connectors.connector_type import ConnectorType, Listing
from connectors.victorialogs.settings import VictoriaLogsSettings

CONNECTOR = ConnectorType(
    name="victorialogs",
    settings=VictoriaLogsSettings,
    build="connectors.victorialogs.connector:build",
    kinds=("logs", "metrics"),
    docs="victorialogs.md",
    listing=Listing(
        title="VictoriaLogs",
        login="as Prometheus",
        places="fields of lines",
        permissions="to query `/select/logsql/`",
        tested_against="a stand-in after its documentation",
    ),
)

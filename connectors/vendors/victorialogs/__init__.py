"""VictoriaLogs: logs."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.victorialogs.settings import VictoriaLogsSettings

CONNECTOR = ConnectorType(
    name="victorialogs",
    settings=VictoriaLogsSettings,
    build="faultline.connectors.vendors.victorialogs.connector:build",
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

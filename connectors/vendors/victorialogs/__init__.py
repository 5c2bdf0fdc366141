"""VictoriaLogs: logs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url

TenantNumber = Annotated[int, Field(ge=0, lt=2**32)]


class VictoriaLogsSettings(SelfHostedSettings):
    """VictoriaLogs as a source of logs: docs/connectors/victorialogs.md."""

    url: Url | None = None
    """Base of the HTTP API, before `/select/`. Unset: VictoriaLogs is not used."""
    account_id: TenantNumber | None = None
    """The tenant's account, sent as `AccountID`. Unset: nothing is sent, which means 0."""
    project_id: TenantNumber | None = None
    """The tenant's project, sent as `ProjectID`."""
    service_fields: Names = (
        "service.name",
        "service_name",
        "service",
        "app",
        "kubernetes.container_name",
        "kubernetes_container_name",
    )
    """Fields that may name a service, in this order."""
    level_fields: Names = ("level", "severity_text", "severity", "log.level", "log_level")
    """Fields that may hold a line's level."""
    public_url: Url | None = None
    """Base of links, if people reach VictoriaLogs at another address than `url`."""


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

"""Azure Monitor: Log Analytics and Application Insights."""

from __future__ import annotations

from pydantic import SecretStr, field_validator, model_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Url
from faultline.connectors.vendors.azure.queries import LogTable


class AzureMonitorSettings(ConnectorSettings):
    """Azure Monitor's alerts in, and Log Analytics and Application Insights as evidence:
    docs/connectors/azure_monitor.md."""

    webhook_tokens: Secrets = ()
    """Secret. Tokens that an action group's webhook may present, as `?token=...` in its address,
    separated by commas."""
    webhook_audience: Names = ()
    """For action groups with a secure webhook: the application whose tokens they send, by its id
    and its Application ID URI (`api://...`). Unset: Entra's tokens are not accepted."""
    webhook_tenant_id: str | None = None
    """The id of the directory that issues these tokens. Unset: that of `tenant_id`."""
    workspace_id: str | None = None
    """The Log Analytics workspace's id (a GUID, "Workspace ID" on its page). Unset: Azure is not
    used."""
    workspace_resource_id: str | None = None
    """Its resource id, `/subscriptions/...`, for links into the portal."""
    application_id: str | None = None
    """Application id of a classic Application Insights resource. Unset: the workspace's App tables
    are read."""
    application_resource_id: str | None = None
    """Its resource id, for links."""
    log_tables: Names = ()
    """Tables of the workspace that hold logs: names that are known, or
    `Table:message:service:level` with columns."""
    tenant_id: str | None = None
    """The directory's id."""
    client_id: str | None = None
    """The application's id, or that of a user-assigned managed identity."""
    client_secret: SecretStr | None = None
    """Secret. The application's client secret. Without it the managed identity is used."""
    api_url: Url = "https://api.loganalytics.azure.com"
    """The Log Analytics API. Change it for other clouds."""
    applications_url: Url = "https://api.applicationinsights.io"
    """The Application Insights API."""
    platform_metrics: bool = True
    """Whether to read Azure's metrics of the resources that an alert names by their ids."""
    management_url: Url = "https://management.azure.com"
    """Azure Resource Manager, which has these metrics."""
    login_url: Url = "https://login.microsoftonline.com"
    """Microsoft Entra."""
    identity_url: Url = "http://169.254.169.254"
    """Where a machine gets its managed identity's token."""
    portal_url: Url = "https://portal.azure.com"
    """Base of links."""

    @model_validator(mode="after")
    def _knows_the_directory(self) -> AzureMonitorSettings:
        if self.webhook_audience and not (self.webhook_tenant_id or self.tenant_id):
            raise ValueError("webhook_audience needs webhook_tenant_id")
        return self

    @field_validator("log_tables")
    @classmethod
    def _are_tables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            LogTable.of(text)
        return value


CONNECTOR = ConnectorType(
    name="azure_monitor",
    settings=AzureMonitorSettings,
    build="faultline.connectors.vendors.azure.connector:build",
    kinds=("metrics", "spans", "logs", "changes"),
    docs="azure_monitor.md",
    listing=Listing(
        title="Azure Monitor",
        login="managed or workload identity, client secret",
        places="workspaces and resources",
        permissions="Log Analytics Data Reader, Monitoring Reader",
        tested_against="the published specification",
    ),
)

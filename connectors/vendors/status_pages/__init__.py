"""Status pages of providers: incidents that they report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class StatusPageSettings(ConnectorSettings):
    """A provider's status page: docs/connectors/status_pages.md."""

    provider: str | None = Field(default=None, pattern=r"^[^,\r\n]{1,60}$")
    """The provider's name in answers. Unset: the `name` of the table."""
    kind: Literal["statuspage", "aws", "google_cloud", "azure", "azure_service_health", "feed"] = (
        "statuspage"
    )
    """What the page is made with. `statuspage` is also for incident.io, `feed` is any RSS or Atom
    feed, and `azure_service_health` what Azure tells your `subscriptions`."""
    url: Url | None = None
    """The page's address, or that of a `feed`. Unset: the public one of `aws`, `google_cloud` or
    `azure`."""
    subscriptions: Names = ()
    """Ids of the Azure subscriptions whose Service Health is read, with the credential of
    `[azure_monitor]`."""
    called_as: Names = ()
    """Names and domains by which services call it, such as `stripe.com`, which stands for all hosts
    below it. Unset: its name alone."""
    used_by: Names = ()
    """Services that need it, even where no call to it is seen."""
    components: Names = ()
    """The parts of it that count, as the page calls them. `*` stands for anything. Unset: all."""
    regions: Names = ()
    """The regions that count, of `aws`, `google_cloud` and `azure_service_health`. Unset: all."""


CONNECTOR = ConnectorType(
    name="status_pages",
    settings=StatusPageSettings,
    build="faultline.connectors.vendors.status_pages.opening:build",
    kinds=("states",),
    docs="status_pages.md",
    listing=Listing(
        title="Status pages of providers",
        login="nothing; Azure Service Health as Azure Monitor",
        places="components and regions that a page names",
        permissions="none exist; Azure Service Health: Reader",
        tested_against="a stand-in after the feeds' documentation and Azure's specification",
    ),
)

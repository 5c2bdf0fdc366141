"""Azure Service Health: the service issues that Azure reports to a subscription.

Source: Microsoft.ResourceHealth, "Events - List By Subscription Id", api-version 2024-02-01 of
Azure's REST API specifications. The credential is that of Azure Monitor's settings.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.auth.server_access import AzureToken, ServerAccess
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import unexpected_response
from faultline.connectors.vendors.azure import AzureMonitorSettings
from faultline.connectors.vendors.azure.session import credential_of
from faultline.connectors.vendors.status_pages import StatusPageSettings
from faultline.connectors.vendors.status_pages.connector import (
    LIMITS,
    PageIncidents,
    StatusPage,
    StatusPagesConnector,
)
from faultline.connectors.vendors.status_pages.incidents import (
    MOST_INCIDENTS,
    ProviderIncident,
    of_service_health,
)

VERSION = "2024-02-01"
SUBSCRIPTION = re.compile(r"[0-9A-Za-z-]{1,64}")
MOST_SUBSCRIPTIONS = 20
MOST_PAGES = 5
UPDATED_WITHIN = timedelta(days=14)
"""The API chooses events by their last update. Of one that goes on, Azure says something more often
than that."""
BLADE = "#view/Microsoft_Azure_Health/AzureHealthBrowseBlade/~/serviceIssues"
RIGHT = "Microsoft.ResourceHealth/events/read (the role Reader) on this subscription"


def build_service_health(
    page_settings: StatusPageSettings, settings: SharedSettings, provider: str
) -> ServiceHealthConnector:
    """The configured connector. Raises SettingsError."""
    are_ids = all(
        SUBSCRIPTION.fullmatch(subscription) for subscription in page_settings.subscriptions
    )
    if not are_ids or not 0 < len(page_settings.subscriptions) <= MOST_SUBSCRIPTIONS:
        problem = f"must be set to ids of subscriptions, at most {MOST_SUBSCRIPTIONS}"
        raise SettingsError("status_pages.subscriptions", problem)
    azure = settings.section(AzureMonitorSettings)
    base = page_settings.url or azure.management_url
    access = ServerAccess(auth=AzureToken(base, credential_of(azure)))
    http = ReadOnlyHttp("status_pages", base, limits=page_settings.limits(LIMITS), access=access)
    return ServiceHealthConnector(page_settings, provider, http, f"{azure.portal_url}/{BLADE}")


class ServiceHealthConnector(StatusPagesConnector):
    """The service issues of the configured subscriptions."""

    access_note = "only GET is sent, besides the token's request"

    def __init__(
        self, page_settings: StatusPageSettings, provider: str, http: ReadOnlyHttp, portal: str
    ) -> None:
        super().__init__(page_settings, provider, http)
        self._portal = portal

    def _pages(self) -> list[StatusPage]:
        pages = []
        for subscription in dict.fromkeys(self._settings.subscriptions):
            path = f"/subscriptions/{subscription}/providers/Microsoft.ResourceHealth/events"
            pages.append(StatusPage(path, self._portal))
        return pages

    async def _incidents(
        self, session: HttpSession, page: StatusPage, at: datetime
    ) -> PageIncidents:
        start = at - UPDATED_WITHIN
        params = [
            ("api-version", VERSION),
            # The API takes American dates.
            ("queryStartTime", f"{start.month}/{start.day}/{start.year}"),
        ]
        incidents: list[ProviderIncident] = []
        for _ in range(MOST_PAGES):
            issues, following = await self._page(session, page.path, params)
            # An issue has no link: point to the portal's list.
            incidents += [replace(issue, link=page.link) for issue in issues]
            if len(incidents) > MOST_INCIDENTS:
                return PageIncidents(
                    incidents[:MOST_INCIDENTS], f"the first {MOST_INCIDENTS} issues"
                )
            if not following:
                return PageIncidents(incidents)
            params = following
        return PageIncidents(incidents, f"the first {MOST_PAGES} pages of events")

    async def _page(
        self, session: HttpSession, path: str, params: list[tuple[str, str]]
    ) -> tuple[list[ProviderIncident], list[tuple[str, str]]]:
        """The issues of one answer, and what is asked for the next. Raises ConnectorError,
        BudgetExceeded."""
        try:
            issues, link = of_service_health(await session.body(path, params))
            # The query of the next page, which is asked of the same address. Raises ValueError.
            parts = urlsplit(link)
            if link and parts.path.casefold() != path.casefold():
                raise ValueError("the next page has another path")
            return issues, parse_qsl(parts.query, max_num_fields=20)
        except ConnectorError as error:
            if error.status != 403:
                raise
            problem = f"{error.problem}: give the credential {RIGHT}"
            raise ConnectorError(self.name, error.call, problem, status=403) from error
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            raise unexpected_response(self.name, path, error) from error

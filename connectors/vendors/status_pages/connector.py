"""Status pages of providers: the incidents that overlap with ours, as facts about the provider.

Whether one bears on the alert, the analysis decides by who calls the provider
(`faultline.analysis.suspects.call_graph`). One request per investigation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Scope
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    StateRow,
    full_window,
    nanoseconds,
)
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.vendor_text import short, unexpected_response
from faultline.connectors.vendors.status_pages import StatusPageSettings
from faultline.connectors.vendors.status_pages.incidents import (
    MOST_INCIDENTS,
    NO_IMPACT,
    SERIOUS,
    ProviderIncident,
    of_aws,
    of_feed,
    of_google,
    of_statuspage,
)

LIMITS = Limits(deadline_s=10, max_bytes=8 * 1024 * 1024, requests_per_s=1, concurrency=1)


class StatusPage(NamedTuple):
    """One page: its path, and where people read it."""

    path: str
    link: str


class PageIncidents(NamedTuple):
    """What a page says; `cut` where that is not all."""

    incidents: list[ProviderIncident]
    cut: str | None = None


class PageFormat(NamedTuple):
    """What is asked, and how the answer is read."""

    base: str
    path: str
    read: Callable[[bytes], list[ProviderIncident]]


FORMATS: Mapping[str, PageFormat] = {
    "statuspage": PageFormat("", "/api/v2/incidents.json", of_statuspage),
    "aws": PageFormat("https://health.aws.amazon.com", "/public/currentevents", of_aws),
    "google_cloud": PageFormat("https://status.cloud.google.com", "/incidents.json", of_google),
    "azure": PageFormat("https://azure.status.microsoft", "/en-us/status/feed/", of_feed),
    "feed": PageFormat("", "", of_feed),
}
HISTORIES = frozenset({"feed"})
"""Formats whose entries do not say whether they are over: each counts at its own time alone."""


class StatusPagesConnector:
    """The incidents of one provider."""

    name = "status_pages"
    kinds: tuple[EvidenceKind, ...] = ("states",)
    access_note = "a public page, there is nothing to write"

    def __init__(
        self, page_settings: StatusPageSettings, provider: str, http: ReadOnlyHttp
    ) -> None:
        self._settings = page_settings
        self._provider = provider
        self._http = http
        self.limits = http.limits

    async def collect(self, request: Request) -> Collected:
        """Those of its incidents that count and overlap with ours, each once."""
        collection = CollectionBuilder()
        scope, incidents = request.scope, set[ProviderIncident]()
        async with self._http.open() as session:
            for page in self._pages():
                query = f"GET {self._http.base_url}{page.path}"
                reading = self._incidents(session, page, scope.incident.start)
                page_incidents = await collection.fetch("states", query, reading)
                if page_incidents is None:
                    continue
                rows: list[tuple[Any, ...]] = []
                for incident in page_incidents.incidents:
                    if (
                        # Two pages may tell of the same incident.
                        incident not in incidents
                        and self._is_ours(incident)
                        and self._overlaps(incident, scope)
                    ):
                        incidents.add(incident)
                        rows += self._rows(incident, scope, query)
                count = collection.add("states", rows)
                window = full_window(scope)
                item = Item("states", query, window, page.link, rows=count, cut=page_incidents.cut)
                collection.items.append(item)
        return collection.collected()

    async def check(self) -> Check:
        """Can the page be read?"""
        incidents: list[ProviderIncident] = []
        try:
            async with self._http.open() as session:
                for page in self._pages():
                    incidents += (await self._incidents(session, page, datetime.now(UTC))).incidents
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        now = sum(incident.until is None for incident in incidents)
        line = f"{self._provider}: {len(incidents)} incidents at {self._http.base_url} can be read"
        open_now = "" if self._settings.kind in HISTORIES else f", {now} of them open"
        return Check(self.name, True, f"{line}{open_now}; {self.access_note}")

    def _pages(self) -> list[StatusPage]:
        """What is asked, one after the other."""
        return [StatusPage(FORMATS[self._settings.kind].path, self._http.base_url)]

    async def _incidents(
        self, session: HttpSession, page: StatusPage, at: datetime
    ) -> PageIncidents:
        """What a page says at a time. Raises ConnectorError, BudgetExceeded."""
        body = await session.body(page.path)
        try:
            incidents = FORMATS[self._settings.kind].read(body)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            raise unexpected_response(self.name, page.path or self._http.base_url, error) from error
        cut = f"the first {MOST_INCIDENTS} incidents" if len(incidents) > MOST_INCIDENTS else None
        return PageIncidents(incidents[:MOST_INCIDENTS], cut)

    def _is_ours(self, incident: ProviderIncident) -> bool:
        """Whether it is of a part and region that counts. One that names none is of all."""
        if incident.impact in NO_IMPACT:
            return False
        return _fits(incident.parts, self._settings.components) and _fits(
            incident.regions, self._settings.regions
        )

    def _overlaps(self, incident: ProviderIncident, scope: Scope) -> bool:
        if incident.since is not None and incident.since > scope.incident.end:
            return False
        if self._settings.kind in HISTORIES:
            return incident.since is not None and incident.since >= scope.events_from
        return incident.until is None or incident.until >= scope.incident.start

    def _rows(self, incident: ProviderIncident, scope: Scope, query: str) -> list[tuple[Any, ...]]:
        services: Sequence[str | None] = [s for s in self._settings.used_by if s in scope.services]
        rows: list[tuple[Any, ...]] = []
        for service in services or [None]:
            row = StateRow(
                kind="Provider",
                name=self._provider,
                fact="provider_outage" if incident.impact in SERIOUS else "provider_degraded",
                service=service,
                place=", ".join(incident.regions[:3]) or None,
                # The names by which calls to the provider are recognised.
                field=", ".join(dict.fromkeys([self._provider, *self._settings.called_as])),
                value=_summary(incident),
                query=query,
                link=_link(incident.link),
            )
            # The builder takes times in ns.
            values = {
                **row._asdict(),
                "since": nanoseconds(incident.since) if incident.since else None,
            }
            rows.append(tuple(values.values()))
        return rows


def _fits(values: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns or not values:
        return True
    folded = [value.casefold() for value in values]
    return any(
        fnmatchcase(value, component.casefold()) for value in folded for component in patterns
    )


def _summary(incident: ProviderIncident) -> str:
    """As it stands in the answer: title, impact, parts, and its times."""
    notes = [incident.impact] if incident.impact else []
    notes += [", ".join(incident.parts[:2])] if incident.parts else []
    notes += [f"since {_clock(incident.since)}"] if incident.since else []
    notes += [f"until {_clock(incident.until)}"] if incident.until else []
    return f"{incident.title or 'untitled'} ({'; '.join(notes)})" if notes else incident.title


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%d %b %H:%M} UTC"


def _link(url: str | None) -> str | None:
    link = short(url or "", 500)
    # Foreign text: a link with another scheme may do harm.
    return link if link.startswith("https://") and " " not in link else None

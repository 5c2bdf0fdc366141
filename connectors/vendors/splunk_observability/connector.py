"""Splunk Observability Cloud: golden signals of the services in scope from APM's Monitoring
MetricSets, alerts of detectors, and custom events that tell of changes. Only GET is sent.

Source: dev.splunk.com/observability/reference (see
`faultline.connectors.vendors.splunk_observability.rows`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    epoch_ms,
    full_window,
)
from faultline.connectors.shared.rows.log_windows import Row
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.splunk_observability import SplunkObservabilitySettings
from faultline.connectors.vendors.splunk_observability import rows as tables

VENDOR = "splunk_observability"
LIMITS = Limits(deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=5, concurrency=4)
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_SERVICES, MOST_SERIES, MOST_LISTED = 5, 500, 500
RESOLUTIONS_S = (60, 300, 3600)
"""In which data are kept, besides each second."""
MOST_POINTS = 360
SERIES, POINTS, ALERTS, EVENTS = (
    "/v2/metrictimeseries",
    "/v1/timeserieswindow",
    "/v2/incident",
    "/v2/event/find",
)
UNSAFE_CHARACTERS = frozenset('"\\*')
"""A name with one of these could mean more than itself in a query."""


def build(
    observability_settings: SplunkObservabilitySettings, settings: SharedSettings
) -> SplunkObservabilityConnector | None:
    """The configured connector, or None without a realm and a token."""
    if observability_settings.url is None or observability_settings.token is None:
        return None
    headers = {"X-SF-TOKEN": observability_settings.token.get_secret_value()}
    limits = observability_settings.limits(LIMITS)
    http = ReadOnlyHttp(VENDOR, observability_settings.url, headers=headers, limits=limits)
    names = ServiceNames.of_catalogue(settings.services)
    return SplunkObservabilityConnector(
        http, names, observability_settings.environment, observability_settings.change_types, limits
    )


class SplunkObservabilityConnector:
    """Series and alerts of the services in scope, and changes of the organization."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "changes")
    follows = ("service",)

    def __init__(
        self,
        http: ReadOnlyHttp,
        names: ServiceNames,
        environment: str | None = None,
        change_types: Sequence[str] = (),
        limits: Limits = LIMITS,
    ) -> None:
        self._http = http
        self._names = names
        self._environment = environment
        self._change_types = tuple(change_types)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every call side by side; one that fails is a gap, the rest stands."""
        services, more = in_scope(request, MOST_SERVICES)
        async with self._http.open() as session:
            asking = _Asking(session, self._names, self._environment, request)
            asking.collection.unasked("metrics", bool(services), more)
            await asyncio.gather(
                asking.golden(services), asking.alerts(), asking.changes(self._change_types)
            )
        return asking.collection.collected()

    async def check(self) -> Check:
        """Which parts can the token read?"""
        calls: Mapping[str, tuple[str, dict[str, str]]] = {
            "metrics": (SERIES, {"query": f"sf_metric:{tables.REQUESTS}", "limit": "1"}),
            "alerts": (ALERTS, {"limit": "1"}),
            "events": (EVENTS, {"query": "sf_eventCategory:USER_DEFINED", "limit": "1"}),
        }
        refusals: dict[str, str | None] = {}
        async with self._http.open() as session:
            for part, (path, params) in calls.items():
                try:
                    await session.get(path, list(params.items()), type=Any)
                except ConnectorError as error:
                    refusals[part] = error.problem
                # A limit of ours says nothing about the token's rights.
                except FaultlineError as error:
                    return Check(self.name, False, str(error))
                else:
                    refusals[part] = None
        needs = dict.fromkeys(calls, "the token scope API and the role read_only")
        parts = ReadableParts(refusals, needs)
        line = f"Splunk Observability Cloud at {self._http.base_url}: {parts.words}"
        line += "; only GET is sent; whether the token may also write is not asked"
        return Check(self.name, bool(parts.readable), line, parts.unread)


@dataclass
class _Asking:
    """One collection: what was asked, and what came."""

    session: HttpSession
    names: ServiceNames
    environment: str | None
    request: Request
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)

    async def golden(self, services: Sequence[str]) -> None:
        """Rate, errors and latency of those that APM knows."""
        query, series_page = await self._apm_series(services)
        if series_page is None or not series_page.results:
            return
        window = full_window(self.request.scope)
        # The finest resolution that keeps the points within bounds.
        step_s = next(
            (
                resolution_s
                for resolution_s in RESOLUTIONS_S
                if window.seconds / resolution_s <= MOST_POINTS
            ),
            RESOLUTIONS_S[-1],
        )
        start, end = str(epoch_ms(window.start)), str(epoch_ms(window.end))
        # The reference writes the end with a large S, its examples do not.
        span = [("startMs", start), ("endMs", end), ("endMS", end)]
        params = [("query", query), *span, ("resolution", str(step_s * 1000))]
        phrase = f"GET {POINTS}?query={query}&startMs={start}&endMs={end}&resolution={step_s}000"
        points = await self.collection.fetch(
            "metrics", phrase, self.session.get(POINTS, params, type=tables.Points)
        )
        if points is not None:
            rows = tables.metric_rows(series_page.results, points, self.names, step_s)
            cut = None
            if series_page.isPartialCount or series_page.count > MOST_SERIES:
                cut = f"the first {MOST_SERIES} series; there are more"
            self._keep("metrics", phrase, window, rows, cut)

    async def _apm_series(self, services: Sequence[str]) -> tuple[str, tables.SeriesPage | None]:
        """The query for the services' series, and its answer; None where nothing answers it. A
        service without a series is missing."""
        theirs = [name for service in services for name in self.names.theirs(service)]
        names = [
            name
            for name in theirs
            if name.isprintable() and not UNSAFE_CHARACTERS & set(name[:100])
        ]
        query = self._query(names)
        if not names:
            return query, None
        params = [("query", query), ("limit", str(MOST_SERIES))]
        call = self.session.get(SERIES, params, type=tables.SeriesPage)
        series_page = await self.collection.fetch("metrics", f"GET {SERIES}?query={query}", call)
        if series_page is None:
            return query, None
        ours = {
            self.names.ours(str(result.dimensions.get(tables.SERVICE)))
            for result in series_page.results
        }
        reason = "APM has no service of its name; see aliases in the catalogue"
        for service in services:
            if service not in ours:
                self.collection.missing.append(Missing("metrics", service, reason, unknown=True))
        return query, series_page

    async def alerts(self) -> None:
        """What detectors found wrong during the windows, over or not."""
        window = full_window(self.request.scope)
        params = [("includeResolved", "true"), ("limit", str(MOST_LISTED))]
        call = self.session.get(ALERTS, params, type=list[tables.Alert])
        phrase = f"GET {ALERTS}?includeResolved=true"
        alerts = await self.collection.fetch("monitors", phrase, call)
        if alerts is not None:
            start, end = epoch_ms(window.start), epoch_ms(window.end)
            rows = [
                row
                for row in tables.alert_rows(alerts, self.names)
                # Column 3 is the time in ns. The window is in ms.
                if start <= row[3] // tables.MS < end
            ]
            cut = f"the latest {MOST_LISTED}" if len(alerts) >= MOST_LISTED else None
            self._keep("monitors", phrase, window, rows, cut)

    async def changes(self, types: Sequence[str]) -> None:
        """Custom events of the organization that tell of a change."""
        scope = self.request.scope
        window = Window(start=scope.incident.start - LOOKBACK, end=scope.incident.end)
        query = "sf_eventCategory:USER_DEFINED"
        start, end = str(epoch_ms(window.start)), str(epoch_ms(window.end))
        params = [("query", query), ("start_time", start), ("end_time", end)]
        params += [("limit", str(MOST_LISTED)), ("order_by", "-sf_timestamp")]
        call = self.session.get(EVENTS, params, type=list[tables.CustomEvent])
        phrase = f"GET {EVENTS}?query={query}&start_time={start}&end_time={end}"
        events = await self.collection.fetch("changes", phrase, call)
        if events is not None:
            rows = list(tables.change_rows(events, self.names, types))
            cut = f"the latest {MOST_LISTED} events" if len(events) >= MOST_LISTED else None
            self._keep("changes", phrase, window, rows, cut)

    def _query(self, names: Sequence[str]) -> str:
        metrics = " OR ".join(
            f"sf_metric:{metric}" for metric in (tables.REQUESTS, *tables.LATENCY)
        )
        services = " OR ".join(f'{tables.SERVICE}:"{name[:100]}"' for name in names)
        # Series by further dimensions count the same requests again.
        query = f"({metrics}) AND ({services}) AND NOT sf_dimensionalized:true"
        if self.environment is not None:
            query += f' AND {tables.ENVIRONMENT}:"{self.environment}"'
        return query

    def _keep(
        self, kind: EvidenceKind, query: str, window: Window, rows: list[Row], cut: str | None
    ) -> None:
        """The rows as an item; none say nothing."""
        if rows:
            self.collection.add(kind, rows)
            item = Item(kind, query, window, rows=len(rows), cut=cut)
            self.collection.items.append(item.holding(rows))

"""Dynatrace: golden signals and problems of the services in scope, deployments and configuration
events, by GET of the Environment API v2 (docs.dynatrace.com, "Environment API")."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    epoch_ms,
    full_window,
)
from faultline.connectors.shared.rows.log_windows import CountGrid, Row
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.dynatrace import DynatraceSettings
from faultline.connectors.vendors.dynatrace import rows as tables

T = TypeVar("T")

VENDOR = "dynatrace"
LIMITS = Limits(deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=5, concurrency=4)
"""One environment takes 50 requests a minute for each of these calls."""
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_SERVICES, MOST_ENTITIES, MOST_LISTED = 5, 50, 200
CHANGES = ("CUSTOM_DEPLOYMENT", "CUSTOM_CONFIGURATION")
API = "/api/v2"
SCOPES: Mapping[str, tuple[str, list[tuple[str, str]]]] = {
    "entities": ("entities.read", [("entitySelector", 'type("SERVICE")'), ("pageSize", "1")]),
    "metrics": ("metrics.read", [("pageSize", "1")]),
    "problems": ("problems.read", [("pageSize", "1")]),
    "events": ("events.read", [("pageSize", "1")]),
}
"""What a part needs, and how it is tried."""


def build(
    dynatrace_settings: DynatraceSettings, settings: SharedSettings
) -> DynatraceConnector | None:
    """The configured connector, or None without an environment and a token."""
    if dynatrace_settings.url is None or dynatrace_settings.token is None:
        return None
    headers = {"Authorization": f"Api-Token {dynatrace_settings.token.get_secret_value()}"}
    limits = dynatrace_settings.limits(LIMITS)
    http = ReadOnlyHttp(VENDOR, dynatrace_settings.url, headers=headers, limits=limits)
    return DynatraceConnector(http, ServiceNames.of_catalogue(settings.services), limits)


def quoted(text: str) -> str:
    """A value in a selector, in which a tilde escapes: docs.dynatrace.com, "Entity selector"."""
    printable = "".join(char if char.isprintable() else " " for char in text[:100])
    # Tildes first, or those before the quotes would be doubled.
    return '"' + printable.replace("~", "~~").replace('"', '~"') + '"'


class DynatraceConnector:
    """Series and problems of the services in scope, and changes of the environment."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "changes")
    follows = ("service",)

    def __init__(self, http: ReadOnlyHttp, names: ServiceNames, limits: Limits = LIMITS) -> None:
        self._http = http
        self._names = names
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every call side by side; one that fails is a gap, the rest stands."""
        services, more = in_scope(request, MOST_SERVICES)
        async with self._http.open() as session:
            asking = _Asking(session, self._names, request, self._http.base_url)
            asking.collection.unasked("metrics", bool(services), more)
            # Changes are read without a service as well, because they are of all entities.
            calls = [asking.changes(change) for change in CHANGES]
            await asyncio.gather(*calls, asking.of_services(services))
        return asking.collection.collected()

    async def check(self) -> Check:
        """Which parts can the token read?"""
        refusals: dict[str, str | None] = {}
        async with self._http.open() as session:
            for part, (_, params) in SCOPES.items():
                try:
                    await session.get(f"{API}/{part}", params, type=dict[str, object])
                except ConnectorError as error:
                    refusals[part] = error.problem
                except FaultlineError as error:
                    return Check(self.name, False, str(error))
                else:
                    refusals[part] = None
        needs = {part: f"the scope {scope}" for part, (scope, _) in SCOPES.items()}
        parts = ReadableParts(refusals, needs)
        line = f"Dynatrace at {self._http.base_url}: {parts.words}; only GET is sent"
        line += "; whether the token may also write is not asked"
        return Check(self.name, bool(parts.readable), line, parts.unread)


@dataclass
class _Asking:
    """One collection: what was asked, and what came."""

    session: HttpSession
    names: ServiceNames
    request: Request
    base: str
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)

    async def get(
        self, kind: EvidenceKind, path: str, params: list[tuple[str, str]], type: type[T]
    ) -> T | None:
        """The answer; a call that fails becomes a gap and gives None."""
        query = self.call_text(path, params)
        return await self.collection.fetch(
            kind, query, self.session.get(f"{API}{path}", params, type=type)
        )

    @staticmethod
    def call_text(path: str, params: list[tuple[str, str]]) -> str:
        """A call as a person reads it."""
        return f"GET {API}{path}?{'&'.join(f'{name}={value}' for name, value in params)}"

    def keep(
        self,
        kind: EvidenceKind,
        query: str,
        window: Window,
        rows: list[Row],
        cut: str | None = None,
    ) -> None:
        """The rows as an item; none say nothing."""
        if rows:
            self.collection.add(kind, rows)
            item = Item(kind, query, window, rows=len(rows), cut=cut)
            self.collection.items.append(item.holding(rows))

    async def of_services(self, services: Sequence[str]) -> None:
        """Series and problems of those that Dynatrace knows."""
        names = [quoted(name) for service in services for name in self.names.theirs(service)]
        if not names:
            return
        window = full_window(self.request.scope)
        params = [
            ("entitySelector", f'type("SERVICE"),entityName.in({",".join(names)})'),
            *_during(window),
            ("pageSize", str(MOST_ENTITIES)),
        ]
        metrics = await self.get("metrics", "/entities", params, tables.Services)
        if metrics is None:
            return
        ids: dict[str, str] = {}
        for entity in metrics.entities:
            ours = self.names.ours(entity.displayName)
            if ours in services:
                ids[entity.entityId] = ours
        reason = "no service of Dynatrace bears its name; see aliases in the catalogue"
        for service in services:
            if service not in ids.values():
                self.collection.missing.append(Missing("metrics", service, reason, unknown=True))
        if ids:
            selector = (
                f'type("SERVICE"),entityId({",".join(quoted(entity_id) for entity_id in ids)})'
            )
            await asyncio.gather(self.golden(ids, selector, window), self.problems(selector))

    async def golden(self, ids: Mapping[str, str], selector: str, window: Window) -> None:
        """Rate, errors and latency."""
        grid = CountGrid.of(window)
        # One call for all of them, because an environment takes 50 calls a minute.
        metrics = (tables.REQUESTS, tables.FAILED, tables.P50, tables.P99)
        params = [
            ("metricSelector", ",".join(metrics)),
            ("entitySelector", selector),
            *_during(window),
            ("resolution", f"{grid.step_s // 60}m"),
        ]
        metric_data = await self.get("metrics", "/metrics/query", params, tables.MetricData)
        if metric_data is not None:
            rows = tables.metric_rows(metric_data, ids, grid.step_s)
            self.keep("metrics", self.call_text("/metrics/query", params), window, rows)

    async def problems(self, selector: str) -> None:
        """Problems that affect the services, open or closed."""
        window = full_window(self.request.scope)
        params = [
            ("entitySelector", selector),
            *_during(window),
            ("pageSize", str(MOST_LISTED)),
        ]
        monitors = await self.get("monitors", "/problems", params, tables.Problems)
        if monitors is not None:
            rows = list(tables.problem_rows(monitors.problems, self.names, self.base))
            query = self.call_text("/problems", params)
            self.keep("monitors", query, window, rows, _cut(monitors))

    async def changes(self, kind: str) -> None:
        """Events of one type, of all entities."""
        scope = self.request.scope
        window = Window(start=scope.incident.start - LOOKBACK, end=scope.incident.end)
        params = [
            ("eventSelector", f"eventType({quoted(kind)})"),
            *_during(window),
            ("pageSize", str(MOST_LISTED)),
        ]
        changes = await self.get("changes", "/events", params, tables.Events)
        if changes is not None:
            rows = list(tables.change_rows(changes.events, self.names))
            self.keep("changes", self.call_text("/events", params), window, rows, _cut(changes))


def _during(window: Window) -> list[tuple[str, str]]:
    return [("from", str(epoch_ms(window.start))), ("to", str(epoch_ms(window.end)))]


def _cut(page: tables.Page) -> str | None:
    return f"the first {MOST_LISTED}; there are more" if page.nextPageKey else None

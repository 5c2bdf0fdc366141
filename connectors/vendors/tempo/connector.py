"""Tempo: traces that pass through the services in scope, over the HTTP API's search and reads of
whole traces.

Paths and parameters are those of grafana.com/docs/tempo/latest/api_docs, as of 2026; whole traces
come from the v2 API, or from v1 where a server has no other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec

from faultline.analysis.case.alert_place import bounds_of, namespace_of, place_of
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    SpanTableRow,
    full_window,
    ns_of,
    sampled_windows,
    split,
    trace_of,
)
from faultline.connectors.shared.rows.otlp_spans import hex_id
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.grafana import GrafanaSettings
from faultline.connectors.vendors.grafana.links import Explore
from faultline.connectors.vendors.prometheus.promql import quoted
from faultline.connectors.vendors.tempo import TempoSettings
from faultline.connectors.vendors.tempo.traces import WholeTraces, between

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=20, concurrency=6)
MOST_SERVICES = 3
TRACES_PER_SEARCH = 20
"""Traces that one search gives; Tempo's own default."""
PARTS = 3
TYPICAL, FAILED, SLOW = 4, 4, 4
"""Traces of one service read whole: any of each third of a window, failed and slow ones of the
window."""
FEW = 5
"""Fewer failed traces than these in the incident are not read for being failed: the rest of the
sample, which is of all traces, tells of them as often as they happen."""
MOST_TRACES = 24
"""Traces read whole in each window, of all services."""
SLOW_SHARE = 0.9
"""Slow is what nine of ten spans of the service in the baseline's sample are not; one bound for
both windows."""
SERVICES = "/api/v2/search/tag/resource.service.name/values"
SEARCH = "/api/search"
TAGS = "/api/v2/search/tags"
NO_TRACE = "no trace of this service in these windows; see aliases in the service catalogue"


def build(tempo_settings: TempoSettings, settings: SharedSettings) -> TempoConnector | None:
    """The configured connector, or None without a URL."""
    if tempo_settings.url is None:
        return None
    grafana = settings.section(GrafanaSettings)
    return TempoConnector(
        tempo_settings.url,
        access_of(tempo_settings, "tempo"),
        names=ServiceNames.of_catalogue(settings.services),
        explore=Explore(grafana.public_url or grafana.url, "tempo", tempo_settings.grafana_source),
        limits=tempo_settings.limits(LIMITS),
    )


class SpanHit(msgspec.Struct):
    durationNanos: str | int | None = None


class SpanSet(msgspec.Struct):
    spans: list[SpanHit] | None = None


class TraceHit(msgspec.Struct):
    """A trace as the search gives it, with the spans that the query matched."""

    traceID: str = ""
    spanSets: list[SpanSet] | None = None
    spanSet: SpanSet | None = None


class SearchAnswer(msgspec.Struct):
    traces: list[TraceHit] | None = None
    metrics: dict[str, Any] | None = None


class TagValue(msgspec.Struct):
    value: str = ""


class TagValues(msgspec.Struct):
    tagValues: list[TagValue]


class TagScope(msgspec.Struct):
    name: str = ""
    tags: list[str] | None = None


class TagsAnswer(msgspec.Struct):
    scopes: list[TagScope] | None = None


@dataclass
class _TempoSearch:
    """One search: what it asked, and what its traces brought."""

    query: str
    window: Window
    most: int
    hits: list[TraceHit] = field(default_factory=list)
    rows: list[SpanTableRow] = field(default_factory=list)
    failed: bool = False

    @property
    def ids(self) -> list[str]:
        """The traces to read whole."""
        return [t for hit in self.hits if (t := hex_id(hit.traceID, 16))][: self.most]


class TempoConnector:
    """Spans of whole traces: any, failed and slow ones of each service in scope, chosen alike in
    both windows."""

    name = "tempo"
    kinds: tuple[EvidenceKind, ...] = ("spans",)
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        names: ServiceNames | None = None,
        explore: Explore | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, access=access, limits=limits)
        self._names = names or ServiceNames()
        self._explore = explore or Explore(None, "tempo", "")
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Traces of both windows. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        windows = sampled_windows(request.scope)
        async with self._http.open() as session:
            service_names = await self._service_names(session, full_window(request.scope))
            bounds = await self._bounds(session, request)
            service_searches = await asyncio.gather(
                *(
                    self._of_service(session, collection, s, service_names, windows, bounds)
                    for s in services
                )
            )
            read = WholeTraces(session, self._names)
            for window in windows:
                searches = [
                    s
                    for searches_of_service in service_searches
                    for s in searches_of_service
                    # A search may cover a part of the window.
                    if window.start <= s.window.start < window.end
                ]
                await self._read(read, collection, searches, window)
            # Last, and only if no search has brought it.
            await self._alert_trace(read, collection, request.alert, windows[-1])
        for service, searches in zip(services, service_searches, strict=True):
            if not any(s.hits or s.failed for s in searches):
                collection.missing.append(Missing("spans", service, NO_TRACE, unknown=True))
        collection.unasked("spans", bool(services) or "spans" in collection.rows, more)
        return collection.collected()

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Those with spans in that time."""
        async with self._http.open() as session:
            service_names = await self._service_names(session, window)
        return tuple(self._names.ours(name) for name in service_names)

    async def check(self) -> Check:
        """Reachable and allowed? Tempo itself has no permissions, so what others may do is the
        gateway's matter."""
        try:
            async with self._http.open() as session:
                await session.get(SEARCH, [("q", "{ true }"), ("limit", "1")], type=SearchAnswer)
                version = await _version(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        line = f"Tempo{version} at {self._http.base_url}: traces can be searched; only GET is sent"
        return Check(
            self.name,
            True,
            f"{line}; Tempo cannot tell whether these credentials may also send traces",
        )

    async def _service_names(self, session: HttpSession, window: Window) -> list[str]:
        """Names of services; none from a server that does not list them. Raises where nothing else
        will work."""
        try:
            answer = await session.get(SERVICES, between(window), type=TagValues)
        except ConnectorError as error:
            if error.status in (400, 404):
                return []
            raise
        return [tag_value.value for tag_value in answer.tagValues]

    async def _bounds(self, session: HttpSession, request: Request) -> list[str]:
        """The alert's place as conditions of a search, the narrowest first and "" last: with its
        namespace, without it, and anywhere."""
        if not place_of(request.alert) and not namespace_of(request.alert):
            return [""]
        params = [("scope", "resource"), *between(full_window(request.scope))]
        try:
            answer = await session.get(TAGS, params, type=TagsAnswer)
        # Without the tags, search in all places.
        except ConnectorError:
            return [""]
        tags: list[str] = []
        for scope in answer.scopes or ():
            if scope.name == "resource":
                tags += scope.tags or ()
        bounds = []
        for place in bounds_of(request.alert, tags):
            conditions = (f' && resource.{tag} = "{quoted(value)}"' for tag, value in place.items())
            bounds.append("".join(conditions))
        return bounds

    async def _of_service(
        self,
        session: HttpSession,
        collection: CollectionBuilder,
        service: str,
        service_names: Sequence[str],
        windows: Sequence[Window],
        bounds: Sequence[str],
    ) -> list[_TempoSearch]:
        """The service's searches in the alert's place, and everywhere where it has no trace
        there."""
        # A name that Tempo does not list may have traces all the same.
        theirs = self._names.matches(service, service_names) or self._names.theirs(service)[:1]
        named = " || ".join(f'resource.service.name = "{quoted(name)}"' for name in theirs)
        phrase = f"({named})" if len(theirs) > 1 else named
        searches: list[_TempoSearch] = []
        for within in bounds:
            searches = await self._searches(session, collection, f"{phrase}{within}", windows)
            if any(search.hits or search.failed for search in searches):
                break
        return searches

    async def _searches(
        self,
        session: HttpSession,
        collection: CollectionBuilder,
        condition: str,
        windows: Sequence[Window],
    ) -> list[_TempoSearch]:
        """Any and failed traces of the service in each window, then slow ones by the baseline's
        bound. `condition` is the condition that its spans hold."""
        failed = [
            _TempoSearch(f"{{ {condition} && status = error }}", window, FAILED)
            for window in windows
        ]
        typical = [
            _TempoSearch(f"{{ {condition} }}", part, TYPICAL)
            for window in windows
            for part in split(window, PARTS)
        ]
        await asyncio.gather(
            *(self._search(session, collection, search) for search in (*failed, *typical))
        )
        # The last window is the incident.
        if len(failed[-1].hits) < FEW:
            for failed_search in failed:
                failed_search.most = 0
        # The first parts are the baseline's.
        bound = _slow_ms(typical[:PARTS]) or _slow_ms(typical)
        slow = (
            [
                _TempoSearch(
                    # Failed traces have a search already.
                    f"{{ {condition} && duration > {bound}ms && status != error }}",
                    w,
                    SLOW,
                )
                for w in windows
            ]
            if bound
            else []
        )
        await asyncio.gather(*(self._search(session, collection, search) for search in slow))
        # In this order: a trace counts for the first search that chose it.
        return [*failed, *slow, *typical]

    async def _search(
        self, session: HttpSession, collection: CollectionBuilder, search: _TempoSearch
    ) -> None:
        params = [
            ("q", search.query),
            ("limit", str(TRACES_PER_SEARCH)),
            # One span of each trace is enough for its duration.
            ("spss", "1"),
            *between(search.window),
        ]
        answer = await collection.fetch(
            "spans", search.query, session.get(SEARCH, params, type=SearchAnswer)
        )
        search.failed = answer is None
        search.hits = (answer.traces or []) if answer else []

    async def _read(
        self,
        read: WholeTraces,
        collection: CollectionBuilder,
        searches: Sequence[_TempoSearch],
        window: Window,
    ) -> None:
        """Whole traces of one window; a trace counts for the first search that chose it."""
        chosen: dict[str, _TempoSearch] = {}
        for search in searches:
            for trace_id in search.ids:
                chosen.setdefault(trace_id, search)
        taken = dict(list(chosen.items())[:MOST_TRACES])
        results = await asyncio.gather(*(read.trace(trace_id, window) for trace_id in taken))
        for search, result in zip(taken.values(), results, strict=True):
            search.rows += result or []
            collection.add("spans", result or [])
        for search in searches:
            if search.hits:
                collection.items.append(self._item(search, read, len(search.hits)))
        collection.missing += read.take_missing(len(taken))

    def _item(self, search: _TempoSearch, read: WholeTraces, hit_count: int) -> Item:
        read_count = min(hit_count, search.most)
        cut = (
            f"{read_count} of at least {hit_count} traces read whole"
            if hit_count > read_count
            else None
        )
        if hit_count < TRACES_PER_SEARCH and hit_count > read_count:
            cut = f"{read_count} of {hit_count} traces read whole"
        link = self._link(search.query, search.window)
        count = len(search.rows)
        item = Item("spans", search.query, search.window, link, rows=count, cut=read.note(cut))
        return item.holding(search.rows)

    async def _alert_trace(
        self, read: WholeTraces, collection: CollectionBuilder, alert: Alert, window: Window
    ) -> None:
        """The trace that the alert's labels name."""
        trace_id = hex_id(trace_of(alert.labels)[:64], 16)
        if not trace_id or trace_id in read.trace_ids:
            return
        rows = await read.trace(trace_id, window)
        collection.missing += read.take_missing(1)
        if rows:
            link = self._link(trace_id, window)
            count = collection.add("spans", rows)
            collection.items.append(Item("spans", trace_id, window, link, rows=count).holding(rows))

    def _link(self, query: str, window: Window) -> str:
        params = urlencode([("q", query), ("limit", str(TRACES_PER_SEARCH)), *between(window)])
        otherwise = f"{self._http.base_url}{SEARCH}?{params}"
        return self._explore.link({"queryType": "traceql", "query": query}, window, otherwise)


def _slow_ms(sample: Sequence[_TempoSearch]) -> int | None:
    """The bound of slow spans in ms; None where the sample tells no durations."""
    spans = [
        ns
        for search in sample
        for trace in search.hits
        for span_set in (*(trace.spanSets or ()), *([trace.spanSet] if trace.spanSet else ()))
        for span in span_set.spans or ()
        if (ns := ns_of(span.durationNanos)) is not None
    ]
    if not spans:
        return None
    return max(1, math.ceil(sorted(spans)[min(len(spans) - 1, int(SLOW_SHARE * len(spans)))] / 1e6))


class _TempoBuildInfo(msgspec.Struct):
    version: str = ""


async def _version(session: HttpSession) -> str:
    try:
        version = (await session.get("/api/status/buildinfo", type=_TempoBuildInfo)).version
    except ConnectorError:
        return ""
    return f" {short(version, 40)}" if version else ""

"""Jaeger: traces through the services in scope, and the calls between services, over the query
service's HTTP API.

Its own JSON is asked (`/api/traces`, what Jaeger's pages use: it can be searched for errors); a
server without it is asked by the v3 API (OTLP, `/api/v3`). Parameters: jaegertracing/jaeger,
query_parser.go and apiv3/http_gateway.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CallRow,
    CollectionBuilder,
    SpanTableRow,
    epoch_ms,
    full_window,
    nanoseconds,
    sampled_windows,
    split,
    trace_of,
)
from faultline.connectors.shared.rows.otlp_spans import (
    UNREADABLE,
    ResourceSpans,
    TracesData,
    hex_id,
    span_rows,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.jaeger import JaegerSettings
from faultline.connectors.vendors.jaeger.span_places import place_tags
from faultline.connectors.vendors.jaeger.spans import JaegerTrace, trace_rows

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=4)
MOST_SERVICES = 3
MOST_NAMES = 2
"""Of the names that a service has in Jaeger, those that are searched for."""
PARTS = 3
TYPICAL, FAILED, SLOW = 5, 5, 5
"""Traces of one service asked for: any of each third of a window, failed and slow ones of the
window. Fewer failed ones in the incident are not kept for being failed: the rest of the sample
tells of them as often as they happen."""
SLOW_SHARE = 0.9
"""Slow is what nine of ten traces of the baseline's sample are not; one bound for both windows."""
MOST_EDGES = 5000
FAILED_TAGS = {"error": "true"}
NO_TRACE = "no trace of this service in these windows; see aliases in the service catalogue"


def build(jaeger_settings: JaegerSettings, settings: SharedSettings) -> JaegerConnector | None:
    """The configured connector, or None without a URL."""
    if jaeger_settings.url is None:
        return None
    names = ServiceNames.of_catalogue(settings.services)
    return JaegerConnector(
        jaeger_settings.url,
        access_of(jaeger_settings, "jaeger"),
        names=names,
        public_url=jaeger_settings.public_url,
        limits=jaeger_settings.limits(LIMITS),
    )


class ServicesAnswer(msgspec.Struct):
    data: list[str] | None


class ServicesAnswerV3(msgspec.Struct):
    services: list[str]


class TracesAnswer(msgspec.Struct):
    data: list[JaegerTrace] | None


class TracesAnswerV3(msgspec.Struct):
    """Released servers wrap the spans in `result`; the specification does not."""

    result: TracesData | None = None
    resourceSpans: list[ResourceSpans] | None = None


class Edge(msgspec.Struct):
    parent: str = ""
    child: str = ""


class EdgesAnswer(msgspec.Struct):
    data: list[Edge] | None


class EdgesAnswerV3(msgspec.Struct):
    dependencies: list[Edge]


@dataclass(frozen=True)
class Search:
    """What is asked of one service in one window. `least_us` bounds the trace's spans from
    below; `tags` are those that a span, or its process, has."""

    service: str
    window: Window
    limit: int
    failed: bool = False
    least_us: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def params(self) -> list[tuple[str, str]]:
        """As the query service and its pages take them; times in microseconds."""
        params = [
            ("service", self.service),
            ("limit", str(self.limit)),
            ("start", str(nanoseconds(self.window.start) // 1000)),
            ("end", str(nanoseconds(self.window.end) // 1000)),
        ]
        tags = {**(FAILED_TAGS if self.failed else {}), **self.tags}
        if tags:
            params.append(("tags", msgspec.json.encode(tags).decode()))
        if self.least_us is not None:
            params.append(("minDuration", f"{self.least_us}us"))
        return params

    @property
    def params_v3(self) -> list[tuple[str, str]]:
        """As the v3 API takes them: by the names of released servers, and by those of the
        specification."""
        values = {
            "service_name": self.service,
            "start_time_min": _rfc3339(self.window.start),
            "start_time_max": _rfc3339(self.window.end),
            "search_depth": str(self.limit),
        }
        if self.least_us is not None:
            values["duration_min"] = f"{self.least_us / 1e6:.6f}s"
        params = []
        for name, value in values.items():
            params.append((f"query.{name}", value))
            # Send both spellings: the server decides which one it reads.
            params.append((f"query.{_camel(name)}", value))
        return params


Sampled = tuple[Search, list[SpanTableRow] | None]
"""A search and the spans of its traces; None where it failed."""


class JaegerConnector:
    """Spans of any, failed and slow traces of each service in scope, chosen alike in both windows,
    and topology."""

    name = "jaeger"
    kinds: tuple[EvidenceKind, ...] = ("spans", "topology")
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        names: ServiceNames | None = None,
        public_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, access=access, limits=limits)
        self._page = plain_url(public_url, self.name) if public_url else self._http.base_url
        self._names = names or ServiceNames()
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Traces of both windows and the calls between services. A call that fails becomes a gap,
        the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        windows = sampled_windows(request.scope)
        async with self._http.open() as session:
            ask = await _Ask.of(session, self._names)
            reads = [
                self._of_service(ask, collection, service, windows, request.alert)
                for service in services
            ]
            await asyncio.gather(
                self._topology(ask, collection, full_window(request.scope)), *reads
            )
            # The last window is the incident.
            await self._alert_trace(ask, collection, trace_of(request.alert.labels), windows[-1])
        collection.unasked("spans", bool(services) or "spans" in collection.rows, more)
        return collection.collected()

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """All that Jaeger knows; it does not say of when."""
        del window
        async with self._http.open() as session:
            ask = await _Ask.of(session, self._names)
        return tuple(self._names.ours(name) for name in ask.services)

    async def check(self) -> Check:
        """Reachable and allowed? Jaeger's query service has no call that writes."""
        try:
            async with self._http.open() as session:
                ask = await _Ask.of(session, self._names)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        api = " by the v3 API, which cannot be searched for failed traces" if ask.v3 else ""
        phrase = f"{len(ask.services)} services are known"
        line = (
            f"Jaeger at {self._http.base_url}: traces can be "
            f"searched{api}, {phrase}; only GET is sent"
        )
        return Check(self.name, True, line)

    async def _of_service(
        self,
        ask: _Ask,
        collection: CollectionBuilder,
        service: str,
        windows: Sequence[Window],
        alert: Alert,
    ) -> None:
        theirs = self._names.matches(service, ask.services)
        if not theirs:
            collection.missing.append(Missing("spans", service, NO_TRACE, unknown=True))
            return
        name_windows = [(name, window) for name in theirs[:MOST_NAMES] for window in windows]
        searches = await self._any_and_failed(ask, collection, name_windows, {})
        # The v3 API cannot be searched for tags.
        bounds = [] if ask.v3 else place_tags(_every_row(searches), service, alert)
        tags: Mapping[str, str] = {}
        # Where nothing is found in the alert's place, traces of all places stand.
        for within in bounds:
            searches_there = await self._any_and_failed(ask, collection, name_windows, within)
            if _every_row(searches_there):
                searches, tags = searches_there, within
                break

        typical = [rows for search, rows in searches if not search.failed]
        bound = _slow_bound(typical, service, until=nanoseconds(windows[0].end))
        if bound:
            slow = [
                Search(name, window, SLOW, least_us=bound, tags=tags)
                for name, window in name_windows
            ]
            searches += await self._searches(ask, collection, slow)

        self._retain(ask, collection, searches, since=nanoseconds(windows[-1].start))
        # Only searches that were answered can say that there is no trace.
        if all(rows is not None and not rows for _, rows in searches):
            collection.missing.append(Missing("spans", service, NO_TRACE, unknown=True))

    async def _any_and_failed(
        self,
        ask: _Ask,
        collection: CollectionBuilder,
        name_windows: Sequence[tuple[str, Window]],
        tags: Mapping[str, str],
    ) -> list[Sampled]:
        """Any traces of each part of the windows, and failed ones where they can be asked for."""
        searches = [
            Search(name, part, TYPICAL, tags=tags)
            for name, window in name_windows
            # A server gives the latest traces first, so ask about each part of the window.
            for part in split(window, PARTS)
        ]
        if not ask.v3:
            searches += [
                Search(name, window, FAILED, failed=True, tags=tags)
                for name, window in name_windows
            ]
        return await self._searches(ask, collection, searches)

    async def _searches(
        self, ask: _Ask, collection: CollectionBuilder, searches: Sequence[Search]
    ) -> list[Sampled]:
        answers = await asyncio.gather(
            *(self._search(ask, collection, search) for search in searches)
        )
        return list(zip(searches, answers, strict=True))

    async def _search(
        self, ask: _Ask, collection: CollectionBuilder, search: Search
    ) -> list[SpanTableRow] | None:
        """Spans of the traces found; None where the search failed."""
        answer = await collection.fetch("spans", ask.query(search), ask.search(search))
        if answer is None:
            return None
        rows, dropped = answer
        if dropped:
            collection.missing.append(
                Missing("spans", ask.query(search), f"{dropped} spans {UNREADABLE}")
            )
        return rows

    def _retain(
        self, ask: _Ask, collection: CollectionBuilder, searches: Sequence[Sampled], *, since: int
    ) -> None:
        """The rows of each search as an item; those of failed traces only where many failed in
        the incident."""
        failed = [rows for search, rows in searches if search.failed]
        often = _failed_traces(failed, since=since) >= FAILED
        for search, rows in searches:
            if not rows or (search.failed and not often):
                continue
            traces = len({row.trace_id for row in rows})
            cut = f"only {search.limit} traces were asked for" if traces >= search.limit else None
            link = f"{self._page}/search?{urlencode(search.params)}"
            count = collection.add("spans", rows)
            item = Item("spans", ask.query(search), search.window, link, rows=count, cut=cut)
            collection.items.append(item.holding(rows))

    async def _alert_trace(
        self, ask: _Ask, collection: CollectionBuilder, raw_id: str, window: Window
    ) -> None:
        """The trace that the alert's labels name."""
        trace_id = hex_id(raw_id[:64], 16)
        if not trace_id:
            return
        query = f"{ask.traces}/{trace_id}"
        answer = await collection.fetch("spans", query, ask.trace(trace_id))
        if answer is not None:
            count = collection.add("spans", answer[0])
            item = Item("spans", query, window, f"{self._page}/trace/{trace_id}", rows=count)
            collection.items.append(item.holding(answer[0]))

    async def _topology(self, ask: _Ask, collection: CollectionBuilder, window: Window) -> None:
        edges = await collection.fetch("topology", ask.edges_query(window), ask.edges(window))
        if edges is None:
            return
        our_edges = self._our_edges(edges)
        cut = None
        if len(our_edges) > MOST_EDGES:
            cut = f"{len(our_edges) - MOST_EDGES} of {len(our_edges)} left out"
        observed_nanoseconds = nanoseconds(window.end)
        rows = [
            CallRow(caller, callee, "jaeger", observed_nanoseconds)
            for caller, callee in our_edges[:MOST_EDGES]
        ]
        count = collection.add("topology", rows)
        link = f"{self._page}/dependencies"
        collection.items.append(
            Item("topology", ask.edges_query(window), window, link, rows=count, cut=cut)
        )

    def _our_edges(self, edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Each edge between two services once, by our names."""
        ours: dict[tuple[str, str], None] = {}
        for parent, child in edges:
            if not parent or not child:
                continue
            caller = short(self._names.ours(parent), 200)
            callee = short(self._names.ours(child), 200)
            if caller != callee:
                ours[caller, callee] = None
        return list(ours)


class _Ask:
    """The calls, in whichever of its two APIs the server has. `services` are the services it
    knows."""

    def __init__(
        self, session: HttpSession, names: ServiceNames, services: Sequence[str], *, v3: bool
    ) -> None:
        self._session = session
        self._names = names
        self.services = services
        self.v3 = v3

    @property
    def traces(self) -> str:
        """Path of searches."""
        return "/api/v3/traces" if self.v3 else "/api/traces"

    def query(self, search: Search) -> str:
        """What is asked, as a person can ask it."""
        return f"{self.traces}?{urlencode(search.params_v3 if self.v3 else search.params)}"

    @classmethod
    async def of(cls, session: HttpSession, names: ServiceNames) -> _Ask:
        """Raises where neither API answers."""
        try:
            # This call also tells which of the two APIs the server has.
            answer = await session.get("/api/services", type=ServicesAnswer)
            return cls(session, names, answer.data or (), v3=False)
        except ConnectorError as error:
            if error.status != 404:
                raise
        answer_v3 = await session.get("/api/v3/services", type=ServicesAnswerV3)
        return cls(session, names, answer_v3.services, v3=True)

    async def search(self, search: Search) -> tuple[list[SpanTableRow], int]:
        """Spans of the traces found, and how many were not readable."""
        return await self._rows(self.traces, search.params_v3 if self.v3 else search.params)

    async def trace(self, trace_id: str) -> tuple[list[SpanTableRow], int]:
        """Spans of one trace."""
        return await self._rows(f"{self.traces}/{trace_id}", [])

    async def _rows(
        self, path: str, params: list[tuple[str, str]]
    ) -> tuple[list[SpanTableRow], int]:
        if not self.v3:
            traces = (await self._session.get(path, params, type=TracesAnswer)).data or []
            return await asyncio.to_thread(trace_rows, traces, self._names)
        try:
            answer = await self._session.get(path, params, type=TracesAnswerV3)
        except ConnectorError as error:
            # That is how v3 says "No traces found".
            if error.status == 404:
                return [], 0
            raise
        data = answer.result or TracesData(resourceSpans=answer.resourceSpans)
        return await asyncio.to_thread(span_rows, data, self._names)

    def edges_query(self, window: Window) -> str:
        """What is asked for the calls between services."""
        return f"{self._edges_path}?{urlencode(self._edges_params(window))}"

    async def edges(self, window: Window) -> list[tuple[str, str]]:
        """Caller and callee, by Jaeger's names."""
        path, params = self._edges_path, self._edges_params(window)
        if self.v3:
            dependencies = (await self._session.get(path, params, type=EdgesAnswerV3)).dependencies
        else:
            dependencies = (await self._session.get(path, params, type=EdgesAnswer)).data or []
        return [(edge.parent, edge.child) for edge in dependencies]

    @property
    def _edges_path(self) -> str:
        return "/api/v3/dependencies" if self.v3 else "/api/dependencies"

    def _edges_params(self, window: Window) -> list[tuple[str, str]]:
        if self.v3:
            return [("startTime", _rfc3339(window.start)), ("endTime", _rfc3339(window.end))]
        return [
            ("endTs", str(epoch_ms(window.end))),
            ("lookback", str(round(window.seconds * 1000))),
        ]


def _every_row(searches: Iterable[Sampled]) -> list[SpanTableRow]:
    every: list[SpanTableRow] = []
    for _, rows in searches:
        every += rows or ()
    return every


def _failed_traces(search_rows: Sequence[list[SpanTableRow] | None], since: int) -> int:
    """How many traces have spans since then."""
    return len({row.trace_id for rows in search_rows for row in rows or () if row.start >= since})


def _slow_bound(
    search_rows: Sequence[list[SpanTableRow] | None], service: str, until: int
) -> int | None:
    """The bound of slow traces in us: of each trace the service's longest span counts.

    It is taken from what began before `until`, the end of the baseline, where anything did.
    """
    sample = [row for rows in search_rows for row in rows or ()]
    before = [row for row in sample if row.start < until]
    longest: dict[str, float] = {}
    for row in before or sample:
        if row.service == service:
            # The service's own time counts: a long trace may be slow elsewhere.
            longest[row.trace_id] = max(longest.get(row.trace_id, 0.0), row.duration_us)
    if not longest:
        return None
    durations = sorted(longest.values())
    place = min(len(durations) - 1, int(SLOW_SHARE * len(durations)))
    return max(1, round(durations[place]))


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

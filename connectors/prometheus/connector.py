"""Prometheus: metrics by service and the alerts that were active, over the HTTP API's read calls.

Speaks to Prometheus 2.24 and later and to what answers like it (Thanos, Mimir, VictoriaMetrics).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import polars as pl

from analysis.errors import ConnectorError, FaultlineError
from analysis.kinds.watched_signals import AlertQuery
from analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from connectors.alert_place import place_labels, place_of
from connectors.base import Check, Collected, Item, Missing, Request
from connectors.collection_builder import CollectionBuilder
from connectors.gpu_metrics import PROMETHEUS as GPU_METRICS
from connectors.http import HttpSession, ReadOnlyHttp
from connectors.joined_windows import merged
from connectors.limits import Limits
from connectors.prometheus import promql
from connectors.prometheus.gpus import GpuQueries, gpu_queries
from connectors.prometheus.overview import REACHES_DAYS, SIGNALS, PrometheusOverview
from connectors.prometheus.promql import PromQuery, PromTemplate
from connectors.prometheus.rules import (
    NAME_LABEL,
    RULES,
    PrometheusRules,
    query_of_rule,
    rule_params,
)
from connectors.prometheus.scrape_intervals import (
    counting_params,
    counting_query,
    period_s,
    slowest_interval,
)
from connectors.prometheus.series import (
    CALL,
    InstantAnswer,
    InstantSeries,
    PrometheusSelection,
    PrometheusSeries,
    RangeAnswer,
    metrics_table,
    monitors_table,
)
from connectors.prometheus.service_calls import service_calls
from connectors.prometheus.settings import PrometheusSettings
from connectors.server_access import ANYONE, ServerAccess
from connectors.shared_settings import SharedSettings

LATELY = timedelta(minutes=30)
"""How long ago `check` looks for metrics."""
MAX_POINTS = 11_000
"""Points per series above which Prometheus refuses a range query (web/api/v1/api.go,
query_range)."""
RANGE_SCRAPES = 4
"""Scrapes in the range of `rate()`, as many as Grafana's $__rate_interval has."""
LONG_INTERVAL_S = 60.0
FEWEST_SCRAPES = 3
"""Where is scraped that seldom: one may be missing, and a longer range would blur when it began."""
UNKNOWN_RANGE_S = 60.0
"""Its shortest range where nothing tells how often is scraped: four scrapes at the usual 15 s."""
ALERTS = 'ALERTS{alertstate=~"pending|firing"}'
ALL_SERVICES = 100
"""Up to that many services all are asked, for the cause may lie in one that nobody named; beyond,
those in scope."""
WRITING_FLAGS = ("web.enable-admin-api", "web.enable-lifecycle")
"""Flags of the server that open calls which change it."""
LIMITS = Limits(requests_per_s=20, concurrency=6)


def build(own: PrometheusSettings, settings: SharedSettings) -> PrometheusConnector | None:
    """The configured connector, or None without a URL."""
    if own.url is None:
        return None
    return PrometheusConnector(
        own.url,
        own.access("prometheus"),
        step_s=own.step_s,
        queries=own.queries,
        service_label=own.service_label,
        limits=own.limits(LIMITS),
    )


class _NamesAnswer(msgspec.Struct):
    data: list[str]


class _TextsAnswer(msgspec.Struct):
    data: dict[str, str]


class _StatusAnswer(msgspec.Struct):
    status: str


@dataclass(frozen=True)
class _Available:
    """A default query whose metric exists."""

    template: PromTemplate
    labels: Sequence[str]
    """Those of its metric."""
    every_s: float | None
    """How often its metric is scraped, where that can be told."""


class PrometheusConnector:
    """Metrics and active alerts. `queries` adds to the default queries, or replaces those of the
    same signal."""

    name = "prometheus"
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "topology")

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        step_s: float = 15.0,
        queries: Mapping[str, str] | None = None,
        service_label: str = "service",
        all_services: int = ALL_SERVICES,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, access=access, limits=limits)
        self._step_s = step_s
        self._queries = dict(queries or {})
        self._service_label = service_label
        self._all_services = all_services
        self.limits = limits
        promql.check_label(service_label)
        promql.check_custom(self._queries)

    async def collect(self, request: Request) -> Collected:
        """Metrics and alerts over the scope's windows. A query that fails becomes a gap, the others
        stand."""
        spans = merged((*request.scope.baseline, request.scope.incident))
        missing: list[Missing] = []
        alerts = PrometheusSelection(PromQuery("alerts", None, ALERTS))
        async with self._http.open() as session:
            names = await self._known_names(session, request.scope, spans, missing)
            available = await self._available(session, names, spans)
            place = place_of(request.alert)
            queries, gpus = await asyncio.gather(
                self._chosen(session, available, request.scope, place, spans),
                self._gpus(session, names, request, spans),
            )
            missing += gpus.missing
            if not (queries or gpus.queries):
                missing.append(Missing("metrics", "default queries", _NOTHING_KNOWN))
            asked = [PrometheusSelection(one, cut=one.cut) for one in (*queries, *gpus.queries)]
            every = [*asked, alerts] if "ALERTS" in names else asked
            await self._ask_all(session, every, request.scope, spans)
            # Whoever has nothing in the alert's place may run in another one.
            elsewhere = self._elsewhere(available, asked, request.scope, place)
            await self._ask_all(session, elsewhere, request.scope, spans)
            asked += elsewhere
            metrics, rows = metrics_table(asked, request.scope.services, self.limits.max_rows)
            known = metrics["service"].drop_nulls().unique().to_list()
            calls = (await self._calls(session, names, request, known, spans)).collected()
        items, gaps = self._items(asked, rows, spans)
        for service in _without(request.scope.services, metrics):
            gaps.append(Missing("metrics", service, _UNKNOWN_SERVICE, unknown=True))
        monitors = self._monitors(alerts, spans)
        if alerts.failed:
            gaps.append(Missing("monitors", ALERTS, alerts.failed))
        elif "ALERTS" in names:
            items.append(self._item("monitors", alerts, monitors.height, spans))
        tables = {"metrics": metrics, "monitors": monitors, **calls.tables}
        gaps += calls.missing
        return Collected(tables, (*items, *calls.items), (*missing, *gaps))

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        """Whom the alert's service calls, by the metrics that name both sides."""
        windows = [scope.incident]
        lately = scope.model_copy(update={"baseline": (), "baseline_spans": ()})
        async with self._http.open() as session:
            names = await self._names(session, windows)
            request = Request(alert, lately, Path())
            calls = await self._calls(session, names, request, scope.services, windows)
        own = {
            callee
            for caller, callee, *_ in calls.rows.get("topology", ())
            if caller == alert.service
        }
        return tuple(sorted(own))

    async def _calls(
        self,
        session: HttpSession,
        names: frozenset[str],
        request: Request,
        services: Sequence[str],
        spans: Sequence[Window],
    ) -> CollectionBuilder:
        """Who calls whom, where metrics name both sides."""

        async def ask(text: str, window: Window) -> Iterable[Mapping[str, str]]:
            return [one.metric for one in await self._instant(session, text, window.end)]

        async def labels_of(metric: str) -> Sequence[str]:
            return await self._labels(session, metric, spans)

        place = place_of(request.alert)
        links = partial(self._link, spans=spans)
        return await service_calls(names, request.scope, place, services, ask, labels_of, links)

    async def _known_names(
        self,
        session: HttpSession,
        scope: Scope,
        spans: Sequence[Window],
        missing: list[Missing],
    ) -> frozenset[str]:
        """The metrics that exist. Without them the configured queries can still be asked."""
        try:
            return await self._names(session, spans)
        except ConnectorError as error:
            if not (self._queries or scope.queries_of(self.name)):
                raise
            reason = f"only configured queries were asked: {error}"
            missing.append(Missing("metrics", "names of metrics", reason))
            return frozenset()

    def _monitors(self, alerts: PrometheusSelection, spans: Sequence[Window]) -> pl.DataFrame:
        links: dict[str, str] = {}
        for series in alerts.series:
            name = series.metric.get("alertname")
            if name and name not in links:
                expression = f'ALERTS{{alertname="{promql.quoted(name)}"}}'
                links[name] = self._link(expression, spans)
        return monitors_table(alerts, spans[-1].end.timestamp(), self._service_label, links)

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The expression of the rule that sent the alert, by its name. Raises ConnectorError."""
        name = alert.labels.get(NAME_LABEL)
        if not name:
            return None
        async with self._http.open() as session:
            answer = await session.get(RULES, list(rule_params(name)), type=PrometheusRules)
        return query_of_rule(answer, alert)

    async def check(self) -> Check:
        """Reachable and allowed? Names the version, and warns where others could write through the
        same address."""
        try:
            async with self._http.open() as session:
                await session.get("/api/v1/query", [("query", "vector(1)")], type=_StatusAnswer)
                build_info = await self._texts(session, "/api/v1/status/buildinfo")
                flags = await self._texts(session, "/api/v1/status/flags")
                now = datetime.now(UTC)
                seen = await self.overview(session, Window(start=now - LATELY, end=now))
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        version = build_info.get("version", "of unknown version")
        line = (
            f"Prometheus {version} at {self._http.base_url}: metrics "
            f"and alerts can be read; {seen.words()}; only GET is sent"
        )
        opened = [flag for flag in WRITING_FLAGS if flags.get(flag) == "true"]
        if opened:
            line += (
                f"; warning: the server runs with --{' and --'.join(opened)}, "
                "so others can write to it"
            )
        return Check(self.name, bool(seen.is_useful or self._queries), line)

    async def overview(self, session: HttpSession, window: Window) -> PrometheusOverview:
        """Which services have which signals in that time. Raises ConnectorError."""
        names = await self._names(session, [window])
        available = await self._available(session, names, [window])
        scope = Scope(incident=window)
        asked: list[tuple[_Available, PromQuery]] = []
        for one in available:
            query = self._default(one, scope, (), {})
            if query is not None and one.template.signal in SIGNALS:
                asked.append((one, query))
        answers = await asyncio.gather(
            *(self._instant(session, query.promql, window.end) for _, query in asked)
        )
        services: dict[str, set[str]] = {signal: set() for signal in SIGNALS}
        for (_, query), found in zip(asked, answers, strict=True):
            for series in found:
                services[query.signal] |= {series.metric.get(query.by[0], "")} - {""}
        intervals = {one.template.metric: one.every_s for one, _ in asked if one.every_s}
        days = None
        if asked:
            days = await self._reach(session, asked[0][0].template.metric, window.end)
        of_jobs = any(one.template.subject == "job" for one in available)
        training = of_jobs or any(names.intersection(one.metrics) for one in GPU_METRICS)
        return PrometheusOverview(services, tuple(intervals.values()), training, days)

    async def _reach(self, session: HttpSession, metric: str, now: datetime) -> int | None:
        for days in REACHES_DAYS:
            if await self._instant(session, f"count({metric})", now - timedelta(days=days)):
                return days
        return None

    async def _instant(
        self, session: HttpSession, query: str, at: datetime
    ) -> Sequence[InstantSeries]:
        params = [("query", query), ("time", f"{at.timestamp():.3f}")]
        answer = await session.get("/api/v1/query", params, type=InstantAnswer)
        return answer.data.result

    async def _texts(self, session: HttpSession, path: str) -> dict[str, str]:
        """A status page; empty where the server has none (Thanos, Mimir) or does not show it."""
        try:
            return (await session.get(path, type=_TextsAnswer)).data
        except ConnectorError:
            return {}

    async def _names(self, session: HttpSession, spans: Sequence[Window]) -> frozenset[str]:
        answer = await session.get(
            "/api/v1/label/__name__/values", _between(spans), type=_NamesAnswer
        )
        return frozenset(answer.data)

    async def _available(
        self, session: HttpSession, names: frozenset[str], spans: Sequence[Window]
    ) -> list[_Available]:
        """The default queries whose metric exists, with what is known of the metric."""
        templates = [
            one
            for one in promql.DEFAULTS
            if one.metric in names and one.signal not in self._queries
        ]
        metrics = list(dict.fromkeys(one.metric for one in templates))
        found = await asyncio.gather(*(self._labels(session, metric, spans) for metric in metrics))
        labels = dict(zip(metrics, found, strict=True))
        intervals = await self._intervals(session, labels, spans[-1])
        return [_Available(one, labels[one.metric], intervals[one.metric]) for one in templates]

    async def _chosen(
        self,
        session: HttpSession,
        available: Iterable[_Available],
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[PromQuery]:
        """The configured queries and the default ones, in order of preference."""
        # Each default query for all services, and for those in scope alone.
        wide: list[PromQuery] = []
        narrow: list[PromQuery] = []
        for one in available:
            for_all = self._default(one, scope, (), place)
            in_scope = self._default(one, scope, scope.services, place)
            if for_all is not None and in_scope is not None:
                wide.append(for_all)
                narrow.append(in_scope)
        by = list(dict.fromkeys(one.by[0] for one in narrow if one.narrow))
        are_few = await asyncio.gather(*(self._few(session, label, spans) for label in by))
        few = {label for label, is_few in zip(by, are_few, strict=True) if is_few}
        chosen = []
        for for_all, in_scope in zip(wide, narrow, strict=True):
            chosen.append(for_all if in_scope.by[0] in few else in_scope)
        return [*self._customs(scope), *chosen]

    def _elsewhere(
        self,
        available: Iterable[_Available],
        asked: Sequence[PrometheusSelection],
        scope: Scope,
        place: Mapping[str, str],
    ) -> list[PrometheusSelection]:
        """The default queries once more, in all places, for services that brought nothing in that
        of the alert; none where none of them was asked in that place alone."""
        bounded = [one for one in available if place_labels(place, one.labels)]
        if not bounded:
            return []
        there: set[str] = set()
        for one in asked:
            for label in one.query.by:
                there |= {series.metric.get(label, "") for series in one.series}
        left = sorted(set(scope.services) - there)
        if not left:
            return []
        queries = (self._default(one, scope, left, {}) for one in bounded)
        return [PrometheusSelection(one) for one in queries if one is not None]

    def _customs(self, scope: Scope) -> list[PromQuery]:
        """The queries of the settings, then those that runbooks add."""
        queries: list[PromQuery] = []
        for signal, text in self._queries.items():
            queries += self._custom(signal, text, scope)
        for added in scope.queries_of(self.name):
            for query in self._custom(added.signal, added.query, scope):
                queries.append(replace(query, asked_by=added.by))
        return queries

    async def _gpus(
        self, session: HttpSession, names: frozenset[str], request: Request, spans: Sequence[Window]
    ) -> GpuQueries:
        """The queries about GPUs, fewer where the configuration has its own of the same signal."""

        async def ask(text: str, window: Window, points: int) -> Sequence[PrometheusSeries]:
            every = max(1.0, window.seconds / points)
            params = [("query", text), *_between([window]), ("step", f"{every:g}")]
            return (await session.get(CALL, params, type=RangeAnswer)).data.result

        async def labels_of(metrics: Sequence[str]) -> Sequence[str]:
            params = [*(("match[]", metric) for metric in metrics), *_between(spans)]
            return (await session.get("/api/v1/labels", params, type=_NamesAnswer)).data

        found = await gpu_queries(request, names, ask, labels_of)
        queries = [one for one in found.queries if one.signal not in self._queries]
        return GpuQueries(tuple(queries), found.missing)

    async def _few(self, session: HttpSession, label: str, spans: Sequence[Window]) -> bool:
        """Whether the services are few enough to ask for all of them."""
        try:
            values = await session.get(
                f"/api/v1/label/{label}/values", _between(spans), type=_NamesAnswer
            )
        except FaultlineError:
            return False
        return len(values.data) <= self._all_services

    def _custom(self, signal: str, text: str, scope: Scope) -> list[PromQuery]:
        # An empty text turns a default query off.
        if not text:
            return []
        return promql.build_custom(signal, text, self._service_label, scope.services, scope.job)

    def _default(
        self, one: _Available, scope: Scope, services: Sequence[str], place: Mapping[str, str]
    ) -> PromQuery | None:
        every_s = max(self._step_s, one.every_s or 0.0)
        range_s = (FEWEST_SCRAPES if every_s >= LONG_INTERVAL_S else RANGE_SCRAPES) * every_s
        if one.every_s is None:
            range_s = max(UNKNOWN_RANGE_S, range_s)
        query = promql.build(
            one.template,
            one.labels,
            self._service_label,
            services,
            scope.job,
            range_s,
            place_labels(place, one.labels),
        )
        return replace(query, every_s=one.every_s) if query is not None else None

    async def _intervals(
        self, session: HttpSession, labels: Mapping[str, Iterable[str]], span: Window
    ) -> dict[str, float | None]:
        """How often each metric is scraped; None where that cannot be told."""
        found = await asyncio.gather(
            *(self._interval(session, metric, known, span) for metric, known in labels.items())
        )
        return dict(zip(labels, found, strict=True))

    async def _interval(
        self, session: HttpSession, metric: str, labels: Iterable[str], span: Window
    ) -> float | None:
        by = promql.subject_labels("service", frozenset(labels), self._service_label)
        period = period_s(span)
        query = counting_query(metric, by, period)
        try:
            params = counting_params(query, span, period)
            answer = await session.get(CALL, params, type=RangeAnswer)
        except FaultlineError:
            return None
        return slowest_interval(answer.data.result, period)

    async def _labels(
        self, session: HttpSession, metric: str, spans: Sequence[Window]
    ) -> list[str]:
        try:
            answer = await session.get(
                "/api/v1/labels", [("match[]", metric), *_between(spans)], type=_NamesAnswer
            )
        except FaultlineError:
            return [self._service_label]
        return answer.data

    async def _ask_all(
        self,
        session: HttpSession,
        asked: Iterable[PrometheusSelection],
        scope: Scope,
        spans: Sequence[Window],
    ) -> None:
        # Of GPU metrics each window has a limit of points of its own, as they have many series.
        windows = (*scope.baseline, scope.incident)
        await asyncio.gather(
            *(self._ask(session, one, windows if one.query.points else spans) for one in asked)
        )

    async def _ask(
        self, session: HttpSession, asked: PrometheusSelection, spans: Sequence[Window]
    ) -> None:
        """Fill in what the query brings over all spans, or why it brought nothing."""
        for span in spans:
            wanted_s = max(self._step_s, asked.query.every_s or 0.0)
            if asked.query.points:
                wanted_s = max(wanted_s, span.seconds / asked.query.points)
            asked.step_s = step(span, wanted_s)
            params = [
                ("query", asked.query.promql),
                ("start", f"{span.start.timestamp():.3f}"),
                ("end", f"{span.end.timestamp():.3f}"),
                ("step", f"{asked.step_s:g}"),
            ]
            try:
                answer = await session.get(CALL, params, type=RangeAnswer)
            except FaultlineError as error:
                asked.failed = str(error)
                return
            asked.series += answer.data.result
            if answer.warnings:
                asked.cut = f"the server says: {'; '.join(answer.warnings)[:160]}"

    def _items(
        self,
        asked: Sequence[PrometheusSelection],
        rows: Mapping[int, pl.DataFrame],
        spans: Sequence[Window],
    ) -> tuple[list[Item], list[Missing]]:
        brought = {one.query.signal for order, one in enumerate(asked) if order in rows}
        items, gaps = [], []
        for order, one in enumerate(asked):
            if one.failed:
                gaps.append(Missing("metrics", one.query.promql, one.failed))
            own = rows.get(order)
            if own is not None:
                items.append(self._item("metrics", one, own.height, spans).holding(own))
                continue
            # Another query brought the signal, or the exporters lack it, as most lack some.
            is_expected = one.query.signal in brought or one.query.of is not None
            if not one.failed and not is_expected:
                reason = "no series in these windows for the services in scope"
                gaps.append(Missing("metrics", one.query.promql, reason))
        return items, gaps

    def _item(
        self, kind: EvidenceKind, asked: PrometheusSelection, rows: int, spans: Sequence[Window]
    ) -> Item:
        window = Window(start=spans[0].start, end=spans[-1].end)
        link = self._link(asked.query.promql, spans)
        details = {"asked_by": asked.query.asked_by} if asked.query.asked_by else {}
        return Item(
            kind,
            asked.query.promql,
            window=window,
            link=link,
            rows=rows,
            cut=asked.cut,
            details=details,
        )

    def _link(self, expression: str, spans: Sequence[Window]) -> str:
        """The page on which a human sees the same graph (Prometheus 3 redirects it to its /query
        page)."""
        seconds = math.ceil((spans[-1].end - spans[0].start).total_seconds())
        asked = {
            "g0.expr": expression,
            "g0.tab": "0",
            "g0.range_input": f"{max(1, seconds)}s",
            "g0.end_input": spans[-1].end.strftime("%Y-%m-%d %H:%M:%S"),
        }
        return f"{self._http.base_url}/graph?{urlencode(asked)}"


def _without(services: Sequence[str], metrics: pl.DataFrame) -> list[str]:
    """The services that have no metrics, where others have."""
    if not metrics.height:
        return []
    return sorted(set(services) - set(metrics["service"].drop_nulls().to_list()))


_UNKNOWN_SERVICE = (
    "no series names this service; see prometheus.service_label, "
    "and aliases in the service catalogue"
)
_NOTHING_KNOWN = (
    "none of the metrics asked by default exists there; name yours under prometheus.queries"
)


def step(span: Window, wanted_s: float) -> float:
    """The wanted step in seconds, longer where the span would otherwise have more points than
    Prometheus answers."""
    return max(wanted_s, math.ceil(span.seconds * 1000 / (MAX_POINTS - 1)) / 1000, 0.001)


def _between(spans: Sequence[Window]) -> list[tuple[str, str]]:
    return [
        ("start", f"{spans[0].start.timestamp():.3f}"),
        ("end", f"{spans[-1].end.timestamp():.3f}"),
    ]

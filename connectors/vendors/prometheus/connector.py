"""Prometheus: metrics by service and the alerts that were active, over the HTTP API's read calls.

Speaks to Prometheus 2.24 and later and to what answers like it (Thanos, Mimir, VictoriaMetrics).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from faultline.analysis.alert_signal.conditions import is_complete
from faultline.analysis.case.alert_place import namespace_of, place_of
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.queries.alert_evaluation import (
    MOST_RAW_SERIES,
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
    matrix_series,
)
from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.rows.log_windows import merged
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.prometheus import PrometheusSettings, promql
from faultline.connectors.vendors.prometheus.batch_jobs import BatchJob, read_jobs
from faultline.connectors.vendors.prometheus.bounded_answers import answer_of
from faultline.connectors.vendors.prometheus.custom_queries import check_custom
from faultline.connectors.vendors.prometheus.evidence_items import EvidenceItems, state_table
from faultline.connectors.vendors.prometheus.exporter_facts import (
    fact_rows,
    in_trouble,
    owner_names,
)
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric, built_in
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer, ExporterQueries
from faultline.connectors.vendors.prometheus.gpus import GpuQueries, gpu_queries
from faultline.connectors.vendors.prometheus.history import data_since
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.long_standing import dated
from faultline.connectors.vendors.prometheus.mean_latencies import mean_queries
from faultline.connectors.vendors.prometheus.node_names import name_nodes
from faultline.connectors.vendors.prometheus.part_places import place_parts
from faultline.connectors.vendors.prometheus.part_queries import part_queries
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, PromQuery
from faultline.connectors.vendors.prometheus.query_choice import ALL_SERVICES, QueryChoice
from faultline.connectors.vendors.prometheus.range_queries import ask_all
from faultline.connectors.vendors.prometheus.release_changes import read_releases
from faultline.connectors.vendors.prometheus.rules import NAME_LABEL, query_of_rule
from faultline.connectors.vendors.prometheus.running_services import running_services
from faultline.connectors.vendors.prometheus.series import (
    PrometheusSelection,
    PrometheusSeries,
    keep_alerts,
    keep_jobs,
    keep_namespace,
    metrics_table,
    monitors_table,
    subject_of,
)
from faultline.connectors.vendors.prometheus.service_addresses import address_book
from faultline.connectors.vendors.prometheus.service_calls import (
    CallAnswer,
    CallFigures,
    about_callees,
    ask_calls,
    ask_figures,
    call_rows,
)
from faultline.connectors.vendors.prometheus.service_survey import survey
from faultline.connectors.vendors.prometheus.store_users import UserCatalogue, add_store_users
from faultline.connectors.vendors.prometheus.templates import JOB_NAME, SCRAPE_JOBS
from faultline.connectors.vendors.prometheus.workload_changes import LOOKBACK, WorkloadChanges

SHARE_OF_TIME = 0.6
"""Of the time for one investigation, what exporters may take: services come first."""
LATELY = timedelta(minutes=30)
"""How long ago `check` looks for metrics."""
ALERTS = 'ALERTS{alertstate=~"pending|firing"}'
WRITING_FLAGS = ("web.enable-admin-api", "web.enable-lifecycle")
"""Flags of the server that open calls which change it."""
LIMITS = Limits(requests_per_s=20, concurrency=6)


def build(
    prometheus_settings: PrometheusSettings, settings: SharedSettings
) -> PrometheusConnector | None:
    """The configured connector, or None without a URL."""
    if prometheus_settings.url is None:
        return None
    return PrometheusConnector(
        prometheus_settings.url,
        access_of(prometheus_settings, "prometheus"),
        step_s=prometheus_settings.step_s,
        queries=prometheus_settings.queries,
        service_label=prometheus_settings.service_label,
        exporter_metrics=prometheus_settings.metrics,
        aliases={
            alias.casefold(): name
            for name, entry in settings.services.items()
            for alias in entry.aliases
        },
        limits=prometheus_settings.limits(LIMITS),
    )


class PrometheusConnector:
    """Metrics, active alerts, and facts about what runs below services. `queries` adds to the
    default queries, or replaces those of the same signal; `exporter_metrics` adds to what is known
    of exporters."""

    name = "prometheus"
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "states", "topology", "changes")
    follows = ("service",)
    query_language = "PromQL"
    query_kinds: tuple[EvidenceKind, ...] = ("metrics",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        step_s: float = 15.0,
        queries: Mapping[str, str] | None = None,
        service_label: str = "service",
        all_services: int = ALL_SERVICES,
        exporter_metrics: Sequence[ExporterMetric] = (),
        aliases: Mapping[str, str] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, access=access, limits=limits)
        self._choice = QueryChoice(step_s, dict(queries or {}), service_label, all_services)
        # The operator's own come first: of two for one signal the first that has data counts.
        entries = (*exporter_metrics, *built_in())
        self._exporters = ExporterQueries(
            entries,
            self._choice,
            frozenset(self._choice.queries),
            within_s=SHARE_OF_TIME * limits.deadline_s,
        )
        self._aliases = aliases or {}
        self.limits = limits
        promql.check_label(service_label)
        check_custom(self._choice.queries)

    async def collect(self, request: Request) -> Collected:
        """Metrics and alerts over the scope's windows. A query that fails becomes a gap, the others
        stand."""
        if request.round > 1:
            return await self._follow(request)
        scope = request.scope
        spans = merged((*scope.baseline, scope.incident))
        missing: list[Missing] = []
        made = EvidenceItems(self._http.base_url, spans)
        alerts = PrometheusSelection(PromQuery("alerts", None, ALERTS))
        async with self._http.open() as session:
            api = PrometheusApi(session)
            names = await self._metric_names(api, scope, spans, missing)
            answers, (calls, figures) = await asyncio.gather(
                self._query_metrics(api, names, request, spans, alerts),
                self._query_calls(api, names, request, spans),
            )
            services = {*scope.services, *_named_by_requests(answers.selections)}
            # It gives nodes their names, which the rows of metrics carry too.
            states = await self._states(api, names, answers.beneath, scope, spans, services)
            selections = [
                *answers.selections,
                *(
                    answer.selection
                    for answer in answers.beneath
                    if answer.metric.series and not answer.beyond_only
                ),
            ]
            named_services = {*_named_by_themselves(selections), *scope.services}
            book, (changes, jobs) = await asyncio.gather(
                address_book(
                    api, names, request.alert, named_services, calls, scope.incident, self._aliases
                ),
                self._changes(api, names, request, {*services, *named_services}, spans),
            )
        known_calls = call_rows(calls, book, made.link)
        store_users = UserCatalogue.of({*services, *named_services}, jobs)
        states += add_store_users(answers.beneath, store_users, scope.incident, known_calls, made)
        topology = known_calls.collected()
        selections += about_callees(figures, book)
        metrics, rows = metrics_table(selections, scope.services, self.limits.max_rows)
        states += changes.states
        missing += answers.missing
        if not selections:
            missing.append(Missing("metrics", "default queries", _NO_METRICS))
        items, gaps = made.of_metrics(selections, rows)
        items += made.of_states(answers.beneath, states)
        gaps += made.failed_exporters(answers.beneath)
        for service in _without(scope.services, metrics):
            gaps.append(Missing("metrics", service, _UNKNOWN_SERVICE, unknown=True))
        keep_alerts(alerts, request.alert, self._choice.service_label)
        monitors = monitors_table(
            alerts,
            spans[-1].end.timestamp(),
            self._choice.service_label,
            made.links_of_alerts(alerts),
        )
        if alerts.failed:
            gaps.append(Missing("monitors", ALERTS, alerts.failed))
        # Alerts are asked only where the metric exists.
        elif "ALERTS" in names:
            items.append(made.item("monitors", alerts, monitors.height))
        tables = {"metrics": metrics, "monitors": monitors, "states": state_table(states)}
        return Collected(
            {**tables, **topology.tables, "changes": changes.table},
            (*items, *topology.items, *changes.evidence),
            (*missing, *gaps, *topology.missing, *changes.missing),
        )

    async def _follow(self, request: Request) -> Collected:
        """The metrics of the services in scope, and of their parts. What has no service was
        asked in the first round."""
        scope, place = request.scope, place_of(request.alert)
        namespace = namespace_of(request.alert)
        if namespace:
            place["namespace"] = namespace
        spans = merged((*scope.baseline, scope.incident))
        missing: list[Missing] = []
        async with self._http.open() as session:
            api = PrometheusApi(session)
            names = await self._metric_names(api, scope, spans, missing)
            available = await self._choice.available(api, names, spans)
            queries = (
                self._choice.default(template, scope, scope.services, place)
                for template in available
            )
            selections = [PrometheusSelection(query) for query in queries if query is not None]
            await ask_all(api, selections, scope, spans, self._choice.step_s)
            selections += await self._means(api, names, selections, scope, place, spans)
            parts = await part_queries(
                api, self._choice, available, selections, scope, place, scope.incident
            )
            in_parts = [PrometheusSelection(part) for part in parts]
            await ask_all(api, in_parts, scope, spans, self._choice.step_s)
            await place_parts(api, names, in_parts, scope.incident)
        selections += in_parts
        if namespace:
            keep_namespace(selections, namespace)
        keep_jobs(selections, _job_namespaces(request.alert))
        metrics, rows = metrics_table(selections, scope.services, self.limits.max_rows)
        items, _ = EvidenceItems(self._http.base_url, spans).of_metrics(selections, rows)
        # A lead without a signal is no gap: it may be a database, or none of this server's.
        for selection in selections:
            if selection.failed and not selection.query.is_extra:
                missing.append(Missing("metrics", selection.query.promql, selection.failed))
        return Collected({"metrics": metrics}, tuple(items), tuple(missing))

    async def _changes(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        request: Request,
        services: Collection[str],
        spans: Sequence[Window],
    ) -> tuple[WorkloadChanges, list[BatchJob]]:
        """What changed, where metrics show it, and the jobs that there are."""
        incident = request.scope.incident
        start = min(spans[0].start, incident.start - LOOKBACK)
        changes = WorkloadChanges(
            api,
            names,
            place_of(request.alert),
            services,
            Window(start=start, end=incident.end),
            spans[0].start,
            self._choice.step_s,
            EvidenceItems(self._http.base_url, spans),
        )
        await changes.read()
        jobs = await read_jobs(changes)
        await read_releases(changes, (self._choice.service_label,))
        return changes, jobs

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        """The callees of the alert's service, by the metrics that name both sides."""
        windows = [scope.incident]
        # Who is called now is enough: leave out the baselines.
        lately = scope.model_copy(update={"baseline": (), "baseline_spans": ()})
        async with self._http.open() as session:
            api = PrometheusApi(session)
            names = await api.metric_names(windows)
            answers = await ask_calls(api, names, lately, place_of(alert), windows)
            book = await address_book(
                api, names, alert, scope.services, answers, scope.incident, self._aliases
            )
        rows = call_rows(answers, book, str).rows.get("topology", ())
        return tuple(sorted({callee for caller, callee, *_ in rows if caller == alert.service}))

    async def _query_calls(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        request: Request,
        spans: Sequence[Window],
    ) -> tuple[list[CallAnswer], list[CallFigures]]:
        """Who calls whom, where metrics name both sides, and how those calls went."""
        scope, place = request.scope, place_of(request.alert)
        answers = await ask_calls(api, names, scope, place, spans)
        namespace = namespace_of(request.alert)
        if namespace:
            place["namespace"] = namespace
        figures = await ask_figures(api, self._choice, names, answers, scope, place, spans)
        if namespace:
            keep_namespace([figure.selection for figure in figures], namespace)
        return answers, figures

    async def _query_metrics(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        request: Request,
        spans: Sequence[Window],
        alerts: PrometheusSelection,
    ) -> _Answers:
        """What all queries brought; that about alerts is filled in."""
        scope, place = request.scope, place_of(request.alert)
        namespace = namespace_of(request.alert)
        if namespace:
            place["namespace"] = namespace
        # Side by side with the services, within its own share of the time.
        asking_beneath = asyncio.create_task(self._exporters.ask(api, names, scope, place, spans))
        available = await self._choice.available(api, names, spans)
        queries, gpus = await asyncio.gather(
            self._choice.chosen(api, available, scope, place, spans),
            self._gpus(api, names, request, spans),
        )
        selections = [
            PrometheusSelection(query, cut=query.cut) for query in (*queries, *gpus.queries)
        ]
        every = [*selections, alerts] if "ALERTS" in names else selections
        await ask_all(api, every, scope, spans, self._choice.step_s)
        selections += await self._means(api, names, selections, scope, place, spans)
        parts = await part_queries(
            api, self._choice, available, selections, scope, place, scope.incident
        )
        in_parts = [PrometheusSelection(part) for part in parts]
        await ask_all(api, in_parts, scope, spans, self._choice.step_s)
        await place_parts(api, names, in_parts, scope.incident)
        beneath = await asking_beneath
        # Whoever has nothing in the alert's place may run in another one.
        both = [*selections, *(answer.selection for answer in beneath)]
        left = self._choice.left_elsewhere(available, both, scope, place)
        if left:
            elsewhere = [
                PrometheusSelection(other_query)
                for other_query in self._choice.elsewhere(available, scope, left)
            ]
            await ask_all(api, elsewhere, scope, spans, self._choice.step_s)
            selections += elsewhere
            beneath += await self._exporters.ask_elsewhere(api, beneath, scope, left, spans)
        every = [*selections, *in_parts, *(answer.selection for answer in beneath), alerts]
        if namespace:
            keep_namespace(every, namespace)
        keep_jobs(every, _job_namespaces(request.alert))
        return _Answers([*selections, *in_parts], beneath, gpus.missing)

    async def _means(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        selections: Sequence[PrometheusSelection],
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[PrometheusSelection]:
        """What a mean tells where no percentile does."""
        queries = await mean_queries(api, self._choice, names, selections, scope, place, spans)
        means = [PrometheusSelection(query) for query in queries]
        await ask_all(api, means, scope, spans, self._choice.step_s)
        return means

    async def _states(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        beneath: Sequence[ExporterAnswer],
        scope: Scope,
        spans: Sequence[Window],
        services: Collection[str],
    ) -> list[StateRow]:
        troubles = in_trouble(beneath, spans[0], scope.incident)
        troubles = await dated(api, troubles, scope.incident.start)
        addresses = await name_nodes(api, names, beneath, scope.incident.end)
        nodes = {}
        for trouble in troubles:
            if trouble.answer.metric.owner == "node":
                nodes[trouble.name] = addresses.get(trouble.name, trouble.name)
        running = await running_services(
            api, names, nodes, services, self._choice.service_label, scope.incident.end
        )
        # What lies beneath is nobody's whose requests are counted, and a volume may be a store's.
        owners = {*services, *owner_names(beneath)} - {""}
        return fact_rows(troubles, owners, running)

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Values of the labels that may name a service, the configured label's first."""
        async with self._http.open() as session:
            api, service_names = PrometheusApi(session), dict[str, None]()
            # One after the other: a server that is away is asked once, not six times.
            for label in dict.fromkeys((self._choice.service_label, *promql.SERVICE_LABELS)):
                for value in await api.values_of(label, [window]):
                    service_names[promql.service_named(label, value)] = None
        return tuple(service_names)

    async def data_since(self, window: Window) -> datetime | None:
        """When the metrics of services begin, or those of anything where there are none."""
        async with self._http.open() as session:
            return await data_since(PrometheusApi(session), window)

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The expression of the rule that sent the alert, by its name. Raises ConnectorError."""
        name = alert.labels.get(NAME_LABEL)
        if not name:
            return None
        async with self._http.open() as session:
            answer = await PrometheusApi(session).rules(name)
        return query_of_rule(answer, alert)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is in PromQL, and says when it is true."""
        query = alert.query
        return query is not None and query.language == "promql" and is_complete(query, alert.links)

    async def evaluate(self, request: Request) -> Collected:
        """What the alert's own expression gives, now and over two weeks. Raises FaultlineError."""
        query, scope = request.alert.query, request.scope
        if query is None:
            return Collected()
        async with self._http.open() as session:
            api = PrometheusApi(session)

            async def ask(text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
                answer = await api.limited_range(
                    text, at.window, at.step_s, MOST_RAW_SERIES, api.remaining_s
                )
                return matrix_series(answer.data.result)

            link = EvidenceItems(self._http.base_url, (scope.incident,)).link(query.text)
            return await evaluated(query, scope, ask, link=link)

    async def answer(self, query: BoundedQuery) -> Collected:
        """The series of one query. Raises FaultlineError."""
        step_s = max(self._choice.step_s, query.window.seconds / query.points)
        async with self._http.open() as session:
            return await answer_of(
                PrometheusApi(session),
                query,
                step_s,
                (self._choice.service_label, *SERVICE_LABELS),
                EvidenceItems(self._http.base_url, (query.window,)).link,
            )

    async def check(self) -> Check:
        """Reachable and allowed? Names the version, and warns where others could write through the
        same address."""
        now = datetime.now(UTC)
        try:
            async with self._http.open() as session:
                api = PrometheusApi(session)
                # The cheapest question that needs the right to query.
                await api.instant("vector(1)", now)
                build_info = await api.status("buildinfo")
                flags = await api.status("flags")
                observed_survey = await survey(
                    api, self._choice, Window(start=now - LATELY, end=now)
                )
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        version = build_info.get("version", "of unknown version")
        line = (
            f"Prometheus {version} at {self._http.base_url}: metrics "
            f"and alerts can be read; {observed_survey.words()}; only GET is sent"
        )
        opened = [flag for flag in WRITING_FLAGS if flags.get(flag) == "true"]
        if opened:
            line += (
                f"; warning: the server runs with --{' and --'.join(opened)}, "
                "so others can write to it"
            )
        return Check(self.name, bool(observed_survey.is_useful or self._choice.queries), line)

    async def _metric_names(
        self,
        api: PrometheusApi,
        scope: Scope,
        spans: Sequence[Window],
        missing: list[Missing],
    ) -> frozenset[str]:
        """The metrics that exist. Without them the configured queries can still be asked."""
        try:
            return await api.metric_names(spans)
        except ConnectorError as error:
            if not (self._choice.queries or scope.queries_of(self.name)):
                raise
            reason = f"only configured queries were asked: {error}"
            missing.append(Missing("metrics", "names of metrics", reason))
            return frozenset()

    async def _gpus(
        self, api: PrometheusApi, names: frozenset[str], request: Request, spans: Sequence[Window]
    ) -> GpuQueries:
        """The queries about GPUs, fewer where the configuration has its own of the same signal."""

        async def ask(text: str, window: Window, points: int) -> Sequence[PrometheusSeries]:
            answer = await api.range(text, window, max(1.0, window.seconds / points))
            return answer.data.result

        async def labels_of(metrics: Sequence[str]) -> Sequence[str]:
            return await api.labels_of(metrics, spans)

        gpu_plan = await gpu_queries(request, names, ask, labels_of)
        queries = [query for query in gpu_plan.queries if query.signal not in self._choice.queries]
        return GpuQueries(tuple(queries), gpu_plan.missing)


@dataclass(frozen=True)
class _Answers:
    """What the queries of one investigation brought."""

    selections: list[PrometheusSelection]
    beneath: list[ExporterAnswer]
    missing: Sequence[Missing]


def _job_namespaces(alert: Alert) -> frozenset[str]:
    """The namespaces that the alert's labels name, those in front of its scrape job included."""
    spaces = {namespace_of(alert)}
    for label in SCRAPE_JOBS:
        spaces.add(alert.labels.get(label, "").rpartition("/")[0])
    return frozenset(spaces - {""})


def _named_by_requests(selections: Sequence[PrometheusSelection]) -> set[str]:
    """The services that take requests."""
    subjects = set()
    for selection in selections:
        if selection.query.signal == "request_rate":
            subjects |= {subject_of(series.metric, selection.query) for series in selection.series}
    return subjects - {""}


def _named_by_themselves(selections: Sequence[PrometheusSelection]) -> set[str]:
    """The services that have metrics whose label is their name: not what a proxy calls them."""
    subjects = set()
    for selection in selections:
        if selection.query.name_pattern in ("", JOB_NAME):
            subjects |= {subject_of(series.metric, selection.query) for series in selection.series}
    return subjects - {""}


def _without(services: Sequence[str], metrics: pl.DataFrame) -> list[str]:
    """The services that have no metrics, where others have."""
    if not metrics.height:
        return []
    return sorted(set(services) - set(metrics["service"].drop_nulls().to_list()))


_UNKNOWN_SERVICE = (
    "no series names this service; see prometheus.service_label, "
    "and aliases in the service catalogue"
)
_NO_METRICS = (
    "none of the metrics asked by default exists there; name yours under prometheus.queries"
)

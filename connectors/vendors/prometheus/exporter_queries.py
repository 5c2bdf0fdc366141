"""Asking what exporters measure: cheaply, whatever runs below a server.

Only metrics that exist are asked. Those of one exporter share one lookup of labels and one of the
interval and of the owners, and are asked together, each series marked by its signal. Where there
are too many owners, only those beyond a threshold come back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from faultline.analysis.case.alert_place import place_labels
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric
from faultline.connectors.vendors.prometheus.false_zeros import drop_zeros_before_gaps
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.joined_queries import (
    by_mark,
    chunks,
    marked,
    marked_series,
)
from faultline.connectors.vendors.prometheus.promql import (
    SERVICE_LABELS,
    PromQuery,
    build,
    namespace_label,
    spelt,
    subject_labels,
    written,
)
from faultline.connectors.vendors.prometheus.query_choice import QueryChoice
from faultline.connectors.vendors.prometheus.range_queries import step
from faultline.connectors.vendors.prometheus.scrape_intervals import (
    counting_query,
    counting_window,
    period_s,
    slowest_interval,
)
from faultline.connectors.vendors.prometheus.series import (
    PrometheusSelection,
    PrometheusSeries,
    subject_of,
)
from faultline.connectors.vendors.prometheus.templates import PromTemplate

MOST_OWNERS = 50
"""Nodes, databases, queues: of more only those beyond a threshold are asked."""
UNKNOWN_OWNERS = 1_000_000
USERS_OF_STORE = 10
MOST_POINTS, MOST_POINTS_OF_SERVICES = 12_000, 30_000
"""Points of one signal in one window; of more owners each has fewer. Twenty signals of a hundred
services are then half of what a connector may read."""
POINTS_BEYOND = 100
"""Points in a window of what is judged by a threshold alone: of two hours one a minute."""
REFUSED = (400, 422)
"""Prometheus answers so to a query that it cannot evaluate (HTTP API, "Format overview")."""
_EXPORTER = r"(.+?)[-_](?:exporter|metrics)"
"""Whoever scrapes `payments-db-metrics` asks about payments-db."""
_OF_SERVICES = ("service", "container")
_OF_STORES = ("database", "queue")
_NODE_LABELS = ("node", "nodename", "kubernetes_node", "instance")
_NODE_NAME = r"([^:]+):\d+"
STORE_ADDRESS = r"(?:[\w+]+://)?(?:[^@/]*@)?([a-zA-Z][\w-]*)(?:\.[\w.-]+)?(?::\d+)?(?:/.*)?"
"""`orders-db.shop.svc:5432` is orders-db; so is `redis://orders-db:6379`, a target of an exporter
that is asked about several. Nobody is named by an IP address."""


@dataclass
class ExporterAnswer:
    """One entry, and what its query brought."""

    metric: ExporterMetric
    selection: PrometheusSelection
    beyond_only: bool = False
    """Whether only what lies beyond the threshold was asked: such series have no baseline."""
    points: int = MOST_POINTS
    """How many each series may have in a window."""
    expected: int = 1
    """How many series it will have, roughly."""


@dataclass(frozen=True)
class _Exporter:
    """The entries of one exporter whose metrics exist, with what is known of them."""

    metrics: Sequence[ExporterMetric]
    labels: Sequence[str]
    every_s: float | None
    owners: int
    """How many have series."""
    by_address: bool = False
    """Whether they are named by the address that is scraped."""


@dataclass(frozen=True)
class ExporterQueries:
    """What is asked of exporters, in order of preference; `choice` is what the settings say."""

    metrics: Sequence[ExporterMetric]
    choice: QueryChoice
    unasked: Collection[str] = field(default_factory=frozenset)
    """Signals for which the settings have their own queries."""
    within_s: float = 12.0
    """How long all of it may take."""

    async def ask(
        self,
        api: PrometheusApi,
        names: Collection[str],
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[ExporterAnswer]:
        """What all exporters brought, in the order of the entries. A query that fails says so."""
        answers: list[ExporterAnswer] = []
        groups = self._groups(names)
        try:
            # What lies beneath must not cost the services' own metrics their time.
            async with asyncio.timeout(self.within_s):
                for exporter in await self._exporters(api, groups, spans):
                    answers += self._answers(exporter, scope, place, spans)
                await asyncio.gather(*(batch.ask(api, spans) for batch in self._together(answers)))
        except TimeoutError:
            answers = answers or [_unasked(metric) for group in groups for metric in group]
            for answer in answers:
                if not answer.selection.step_s and not answer.selection.failed:
                    answer.selection.failed = f"no answer within {self.within_s:g} s"
        order = {id(metric): number for number, metric in enumerate(self.metrics)}
        return sorted(answers, key=lambda answer: order[id(answer.metric)])

    def _together(self, answers: Iterable[ExporterAnswer]) -> Iterator[_Together]:
        """The queries that can be asked as one: those that have the same step."""
        by_step: dict[tuple[float, int], list[ExporterAnswer]] = {}
        for answer in answers:
            every_s = max(self.choice.step_s, answer.selection.query.every_s or 0.0)
            by_step.setdefault((every_s, answer.points), []).append(answer)
        for (every_s, _), step_answers in by_step.items():
            texts = [
                (beyond_text(answer) if answer.beyond_only else answer.selection.query.promql)
                for answer in step_answers
            ]
            for chunk in chunks(texts, [step_answer.expected for step_answer in step_answers]):
                yield _Together(
                    [step_answers[n] for n in chunk], [texts[n] for n in chunk], every_s
                )

    async def ask_elsewhere(
        self,
        api: PrometheusApi,
        before: Sequence[ExporterAnswer],
        scope: Scope,
        services: Sequence[str],
        spans: Sequence[Window],
    ) -> list[ExporterAnswer]:
        """The same of these services, in all places."""
        metrics = [answer.metric for answer in before if answer.metric.owner in _OF_SERVICES]
        names = {name for metric in metrics for name in metric.metrics}
        narrow = replace(self, metrics=metrics, choice=replace(self.choice, all_services=0))
        left = scope.model_copy(update={"services": tuple(services)})
        return await narrow.ask(api, names, left, {}, spans)

    def _groups(self, names: Collection[str]) -> list[list[ExporterMetric]]:
        groups: dict[str, list[ExporterMetric]] = {}
        for metric in self.metrics:
            if metric.signal not in self.unasked and all(name in names for name in metric.metrics):
                groups.setdefault(metric.exporter, []).append(metric)
        # A series stands for its exporter when owners are counted.
        return [
            sorted(group, key=lambda exporter_metric: not exporter_metric.series)
            for group in groups.values()
        ]

    async def _exporters(
        self,
        api: PrometheusApi,
        groups: Sequence[Sequence[ExporterMetric]],
        spans: Sequence[Window],
    ) -> list[_Exporter]:
        labels = await asyncio.gather(*(self._labels(api, group, spans) for group in groups))
        period = period_s(spans[-1])
        counting = []
        for metrics, label in zip(groups, labels, strict=True):
            first = self._template(metrics[0])
            by = [*subject_labels(first, spelt(label), self.choice.service_label)]
            if by == ["job"] and metrics[0].owner in _OF_STORES and "instance" in label:
                by.append("instance")
            counting.append(counting_query(first.metric, [written(name) for name in by], period))
        counted = await marked_series(api, counting, counting_window(spans[-1], period), period)
        exporters = []
        for metrics, label, series in zip(groups, labels, counted, strict=True):
            every_s = slowest_interval(series or (), period)
            # Of how many is not known, not all are asked.
            owners = len(series) if series is not None else UNKNOWN_OWNERS
            by_address = _tells_more(metrics[0].exporter, series or ())
            exporters.append(_Exporter(metrics, label, every_s, owners, by_address))
        return exporters

    async def _labels(
        self, api: PrometheusApi, metrics: Sequence[ExporterMetric], spans: Sequence[Window]
    ) -> list[str]:
        used = list(dict.fromkeys(name for metric in metrics for name in metric.metrics))
        try:
            return await api.labels_of(used, spans)
        except FaultlineError:
            return [self.choice.service_label, "instance"]

    def _answers(
        self,
        exporter: _Exporter,
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> Iterator[ExporterAnswer]:
        for metric in exporter.metrics:
            of_services = metric.owner in _OF_SERVICES
            most = self.choice.all_services if of_services else MOST_OWNERS
            has_too_many = exporter.owners > most
            services = scope.services if of_services and has_too_many else ()
            users = metric.user_labels(exporter.labels)
            if metric.users:
                # Not every version of an exporter says who the users are.
                beyond_only, is_asked = False, bool(users) and not has_too_many
            else:
                beyond_only = not metric.series or (has_too_many and not of_services)
                is_asked = not beyond_only or metric.fact is not None
            if not is_asked:
                continue
            owners = len(services) or exporter.owners
            points = _points(owners, of_services=of_services, beyond_only=beyond_only)
            query = self._query(
                metric, exporter, services, place, users, spans[-1].seconds / points
            )
            if query is not None:
                query = replace(query, every_s=exporter.every_s, is_extra=True)
                expected = 1 if beyond_only else owners * (USERS_OF_STORE if users else 1)
                yield ExporterAnswer(
                    metric, PrometheusSelection(query), beyond_only, points, expected
                )

    def _query(
        self,
        metric: ExporterMetric,
        exporter: _Exporter,
        services: Sequence[str],
        place: Mapping[str, str],
        users: Sequence[str],
        step_s: float,
    ) -> PromQuery | None:
        # No event may fall between two steps.
        range_s = max(self.choice.range_s(exporter.every_s), step_s)
        template, namespace = self._template(metric, by_address=exporter.by_address), ""
        if metric.owner in _OF_SERVICES and "namespace" in place:
            namespace = namespace_label(template, exporter.labels, self.choice.service_label)
        return build(
            template,
            exporter.labels,
            self.choice.service_label,
            services,
            None,
            range_s,
            place_labels(place, exporter.labels),
            users,
            namespace=namespace,
        )

    def _template(self, metric: ExporterMetric, *, by_address: bool = False) -> PromTemplate:
        named_by, pattern = metric.named_by, metric.name_pattern
        if by_address:
            named_by, pattern = ("instance",), STORE_ADDRESS
        if not named_by:
            named_by = self._usual_labels(metric)
        if not pattern:
            pattern = {"node": _NODE_NAME, "database": _EXPORTER, "queue": _EXPORTER}.get(
                metric.owner, ""
            )
        subject = "service" if metric.owner in _OF_SERVICES and not metric.named_by else "owner"
        return PromTemplate(
            metric.signal,
            metric.unit,
            metric.metrics[0],
            metric.query,
            subject="container" if metric.owner == "container" else subject,
            named_by=named_by,
            name_pattern=pattern,
        )

    def _usual_labels(self, metric: ExporterMetric) -> tuple[str, ...]:
        if metric.owner == "node":
            return _NODE_LABELS
        if metric.owner == "volume":
            return ("persistentvolumeclaim",)
        if metric.owner == "host":
            return ("target", "instance")
        if metric.owner in _OF_SERVICES:
            return ()
        # The container is the exporter's.
        usual = [label for label in SERVICE_LABELS if label != "container"]
        return (self.choice.service_label, *usual, "instance")


def _tells_more(exporter: str, series: Iterable[PrometheusSeries]) -> bool:
    """Whether the addresses that are scraped name stores, and the jobs do not: a job may scrape all
    stores of a kind, and be called after the kind."""
    addresses: dict[str, list[str]] = {}
    for counted in series:
        if "instance" not in counted.metric:
            return False
        match = re.fullmatch(STORE_ADDRESS, counted.metric["instance"])
        if match is None or _is_generic(match[1], exporter):
            return False
        addresses.setdefault(counted.metric.get("job", ""), []).append(match[1])
    names = [name for job_names in addresses.values() for name in job_names]
    if len(set(names)) < len(names):
        return False
    is_shared = any(len(job_names) > 1 for job_names in addresses.values())
    return is_shared or any(_is_generic(job, exporter) for job in addresses)


def _is_generic(name: str, exporter: str) -> bool:
    """Whether the name is only that of the technology, or of its exporter."""
    name = name.rpartition("/")[2].lower()
    technology = re.split(r"[_ (]", exporter.lower())[0]
    return name == "localhost" or bool(
        re.fullmatch(rf"(prom\w*-)?{technology}\w*([-_](exporter|metrics|server|db))*", name)
    )


def _unasked(metric: ExporterMetric) -> ExporterAnswer:
    query = PromQuery(metric.signal, metric.unit, metric.query, is_extra=True)
    return ExporterAnswer(metric, PrometheusSelection(query))


def _points(owners: int, *, of_services: bool, beyond_only: bool) -> int:
    """How many points each series has in a window at most."""
    if beyond_only:
        return POINTS_BEYOND
    most = MOST_POINTS_OF_SERVICES if of_services else MOST_POINTS
    return max(POINTS_BEYOND, most // max(1, owners))


def beyond_text(answer: ExporterAnswer) -> str:
    """The query for what is beyond the threshold."""
    sign = ">" if answer.metric.worse == "up" else "<"
    return f"({answer.selection.query.promql}) {sign} {answer.metric.beyond:g}"


@dataclass(frozen=True)
class _Together:
    """Queries that are asked as one; where the server refuses that, each by itself."""

    answers: Sequence[ExporterAnswer]
    texts: Sequence[str]
    every_s: float

    async def ask(self, api: PrometheusApi, spans: Sequence[Window]) -> None:
        """Fill in what each brought, or why it brought nothing."""
        points = self.answers[0].points
        prometheus_series: list[list[PrometheusSeries]] = [[] for _ in self.answers]
        every_s = self.every_s
        try:
            for span in spans:
                every_s = step(span, max(self.every_s, span.seconds / points))
                answer = await api.range(marked(self.texts), span, every_s)
                for number, series in enumerate(
                    by_mark(answer.data.result, len(prometheus_series))
                ):
                    drop_zeros_before_gaps(self.texts[number], series, every_s)
                    prometheus_series[number] += series
        except FaultlineError as error:
            await self._refused(api, spans, error)
            return
        # Only what is there of all windows counts: one without its baseline would seem new.
        for exporter_answer, answer_series in zip(self.answers, prometheus_series, strict=True):
            exporter_answer.selection.step_s = every_s
            # A sum over series that lack the label is nobody's.
            exporter_answer.selection.series = [
                series
                for series in answer_series
                if subject_of(series.metric, exporter_answer.selection.query)
            ]

    async def _refused(
        self, api: PrometheusApi, spans: Sequence[Window], error: FaultlineError
    ) -> None:
        # A server that is down or slow is not asked once more for each.
        if len(self.answers) > 1 and getattr(error, "status", None) in REFUSED:
            for answer, text in zip(self.answers, self.texts, strict=True):
                await _Together([answer], [text], self.every_s).ask(api, spans)
            return
        for answer in self.answers:
            answer.selection.failed = str(error)

"""Asking what exporters measure: cheaply, whatever runs below a server.

Only metrics that exist are asked. Those of one exporter share one lookup of labels and one of the
interval and of the owners, and are asked together, each series marked by its signal. Where there
are too many owners, only those beyond a threshold come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.errors import FaultlineError
from analysis.vocabulary import Scope, Window
from connectors.alert_place import place_labels
from connectors.prometheus.exporter_metrics import ExporterMetric
from connectors.prometheus.http_api import PrometheusApi
from connectors.prometheus.promql import (
    SERVICE_LABELS,
    build,
    spelt,
    subject_labels,
    written,
)
from connectors.prometheus.query_choice import QueryChoice
from connectors.prometheus.range_queries import step
from connectors.prometheus.scrape_intervals import (
    counting_query,
    counting_window,
    period_s,
    slowest_interval,
)
from connectors.prometheus.series import PrometheusSelection, PrometheusSeries
from connectors.prometheus.templates import PromTemplate

MARK = "faultline_signal"
"""The label by which series of one answer are told apart."""
MOST_OWNERS = 50
"""Nodes, databases, queues: of more only those beyond a threshold are asked."""
MOST_POINTS = 60_000
"""Points of one exporter's series in one window; of more owners each has fewer."""
LONGEST_QUERY = 2500
"""Characters of one query; escaped in an address they may be three times as many, and proxies
refuse addresses beyond 8 KiB."""
REFUSED = (400, 422)
"""Prometheus answers so to a query that it cannot evaluate (HTTP API, "Format overview")."""
_EXPORTER = r"(.+?)[-_](?:exporter|metrics)"
"""Whoever scrapes `payments-db-metrics` asks about payments-db."""
_OF_SERVICES = ("service", "container")
_NODE_LABELS = ("node", "nodename", "kubernetes_node", "instance")
_NODE_NAME = r"([^:]+):\d+"


@dataclass
class ExporterAnswer:
    """One entry, and what its query brought."""

    metric: ExporterMetric
    asked: PrometheusSelection
    beyond_only: bool = False
    """Whether only what lies beyond the threshold was asked: such series have no baseline."""


@dataclass(frozen=True)
class _Exporter:
    """The entries of one exporter whose metrics exist, with what is known of them."""

    metrics: Sequence[ExporterMetric]
    labels: Sequence[str]
    every_s: float | None
    owners: int
    """How many have series."""


@dataclass(frozen=True)
class ExporterQueries:
    """What is asked of exporters, in order of preference; `choice` is what the settings say."""

    metrics: Sequence[ExporterMetric]
    choice: QueryChoice
    unasked: Collection[str] = field(default_factory=frozenset)
    """Signals for which the settings have queries of their own."""

    async def ask(
        self,
        api: PrometheusApi,
        names: Collection[str],
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[ExporterAnswer]:
        """What all exporters brought, in the order of the entries. A query that fails says so."""
        groups = self._groups(names)
        known = await asyncio.gather(*(self._exporter(api, one, spans) for one in groups))
        asked = await asyncio.gather(
            *(self._ask_exporter(api, one, scope, place, spans) for one in known)
        )
        order = {id(one): number for number, one in enumerate(self.metrics)}
        found = [answer for answers in asked for answer in answers]
        return sorted(found, key=lambda one: order[id(one.metric)])

    async def ask_elsewhere(
        self,
        api: PrometheusApi,
        before: Sequence[ExporterAnswer],
        scope: Scope,
        services: Sequence[str],
        spans: Sequence[Window],
    ) -> list[ExporterAnswer]:
        """The same of these services, in all places."""
        metrics = [one.metric for one in before if one.metric.owner in _OF_SERVICES]
        names = {name for one in metrics for name in one.metrics}
        narrow = replace(self, metrics=metrics, choice=replace(self.choice, all_services=0))
        left = scope.model_copy(update={"services": tuple(services)})
        return await narrow.ask(api, names, left, {}, spans)

    def _groups(self, names: Collection[str]) -> list[list[ExporterMetric]]:
        groups: dict[str, list[ExporterMetric]] = {}
        for one in self.metrics:
            if one.signal not in self.unasked and all(name in names for name in one.metrics):
                groups.setdefault(one.exporter, []).append(one)
        # A series stands for its exporter when owners are counted.
        return [sorted(own, key=lambda one: not one.series) for own in groups.values()]

    async def _exporter(
        self, api: PrometheusApi, metrics: Sequence[ExporterMetric], spans: Sequence[Window]
    ) -> _Exporter:
        used = list(dict.fromkeys(name for one in metrics for name in one.metrics))
        try:
            labels = await api.labels_of(used, spans)
        except FaultlineError:
            return _Exporter(metrics, [self.choice.service_label, "instance"], None, 0)
        first = metrics[0]
        by = subject_labels(self._template(first), spelt(labels), self.choice.service_label)
        period = period_s(spans[-1])
        query = counting_query(first.metrics[0], [written(label) for label in by], period)
        try:
            answer = await api.range(query, counting_window(spans[-1], period), period)
        except FaultlineError:
            return _Exporter(metrics, labels, None, 0)
        series = answer.data.result
        return _Exporter(metrics, labels, slowest_interval(series, period), len(series))

    async def _ask_exporter(
        self,
        api: PrometheusApi,
        exporter: _Exporter,
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[ExporterAnswer]:
        answers = list(self._answers(exporter, scope, place))
        texts = [_asked_text(one) for one in answers]
        points = MOST_POINTS // max(1, exporter.owners * len(answers))
        await asyncio.gather(
            *(
                _ask_together(
                    api,
                    [answers[n] for n in chunk],
                    [texts[n] for n in chunk],
                    spans,
                    self._step_s(exporter),
                    points,
                )
                for chunk in _chunks(texts)
            )
        )
        return answers

    def _step_s(self, exporter: _Exporter) -> float:
        return max(self.choice.step_s, exporter.every_s or 0.0)

    def _answers(
        self, exporter: _Exporter, scope: Scope, place: Mapping[str, str]
    ) -> Iterator[ExporterAnswer]:
        for one in exporter.metrics:
            of_services = one.owner in _OF_SERVICES
            most = self.choice.all_services if of_services else MOST_OWNERS
            services = scope.services if of_services and exporter.owners > most else ()
            beyond_only = not one.series or (not of_services and exporter.owners > most)
            if beyond_only and one.fact is None:
                continue
            query = build(
                self._template(one),
                exporter.labels,
                self.choice.service_label,
                services,
                None,
                self.choice.range_s(exporter.every_s),
                place_labels(place, exporter.labels),
            )
            if query is not None:
                query = replace(query, every_s=exporter.every_s, is_extra=True)
                yield ExporterAnswer(one, PrometheusSelection(query), beyond_only)

    def _template(self, one: ExporterMetric) -> PromTemplate:
        named_by, pattern = one.named_by, one.name_pattern
        if not named_by:
            named_by = self._usual_labels(one)
        if not pattern:
            pattern = {"node": _NODE_NAME, "database": _EXPORTER, "queue": _EXPORTER}.get(
                one.owner, ""
            )
        subject = "service" if one.owner in _OF_SERVICES and not one.named_by else "owner"
        return PromTemplate(
            one.signal,
            one.unit,
            one.metrics[0],
            one.query,
            subject="container" if one.owner == "container" else subject,
            named_by=named_by,
            name_pattern=pattern,
        )

    def _usual_labels(self, one: ExporterMetric) -> tuple[str, ...]:
        if one.owner == "node":
            return _NODE_LABELS
        if one.owner == "volume":
            return ("persistentvolumeclaim",)
        if one.owner == "host":
            return ("target", "instance")
        if one.owner in _OF_SERVICES:
            return ()
        # The container is the exporter's.
        usual = [label for label in SERVICE_LABELS if label != "container"]
        return (self.choice.service_label, *usual, "instance")


def _asked_text(answer: ExporterAnswer) -> str:
    """The query, where only what is beyond the threshold is wanted with it."""
    text = answer.asked.query.promql
    if not answer.beyond_only:
        return text
    sign = ">" if answer.metric.worse == "up" else "<"
    return f"({text}) {sign} {answer.metric.beyond:g}"


def _chunks(texts: Sequence[str]) -> Iterator[list[int]]:
    """Places of texts that are asked together."""
    chunk: list[int] = []
    length = 0
    for number, text in enumerate(texts):
        if chunk and length + len(text) > LONGEST_QUERY:
            yield chunk
            chunk, length = [], 0
        chunk.append(number)
        length += len(text)
    if chunk:
        yield chunk


async def _ask_together(
    api: PrometheusApi,
    answers: Sequence[ExporterAnswer],
    texts: Sequence[str],
    spans: Sequence[Window],
    step_s: float,
    points: int,
) -> None:
    """One query for all; where the server refuses it, one for each."""
    marked = []
    for number, text in enumerate(texts):
        marked.append(f'label_replace({text}, "{MARK}", "{number}", "", "")')
    try:
        found = await _series(api, " or ".join(marked), spans, step_s, points, answers)
    except FaultlineError as error:
        # A server that is down or slow is not asked once more for each.
        if len(answers) > 1 and getattr(error, "status", None) in REFUSED:
            for one, text in zip(answers, texts, strict=True):
                await _ask_together(api, [one], [text], spans, step_s, points)
            return
        for one in answers:
            one.asked.failed = str(error)
        return
    for series in found:
        number = int(series.metric.pop(MARK))
        answers[number].asked.series.append(series)


async def _series(
    api: PrometheusApi,
    text: str,
    spans: Sequence[Window],
    step_s: float,
    points: int,
    answers: Iterable[ExporterAnswer],
) -> list[PrometheusSeries]:
    found: list[PrometheusSeries] = []
    for span in spans:
        every_s = step(span, max(step_s, span.seconds / max(1, points)))
        answer = await api.range(text, span, every_s)
        found += answer.data.result
        for one in answers:
            one.asked.step_s = every_s
    return found

"""Which queries are asked of a server: the configured ones, and the default ones whose metric it
has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from faultline.analysis.case.alert_place import place_labels
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.vendors.prometheus import promql
from faultline.connectors.vendors.prometheus.custom_queries import Substitutions, build_custom
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import PromQuery
from faultline.connectors.vendors.prometheus.scrape_intervals import (
    counting_query,
    counting_window,
    period_s,
    slowest_interval,
)
from faultline.connectors.vendors.prometheus.series import PrometheusSelection, subject_of
from faultline.connectors.vendors.prometheus.templates import PromTemplate, existing

RANGE_SCRAPES = 4
"""Scrapes in the range of `rate()`, as many as Grafana's $__rate_interval has."""
LONG_INTERVAL_S = 60.0
FEWEST_SCRAPES = 3
"""Where is scraped that seldom: one may be missing, and a longer range would blur when it began."""
UNKNOWN_RANGE_S = 60.0
"""Its shortest range where nothing tells how often is scraped: four scrapes at the usual 15 s."""
ALL_SERVICES = 100
"""Up to that many services all are asked, for the cause may lie in one that nobody named; beyond,
those in scope."""


@dataclass(frozen=True)
class AvailableTemplate:
    """A default query whose metric exists."""

    template: PromTemplate
    labels: Sequence[str]
    """Those of its metric."""
    every_s: float | None
    """How often its metric is scraped, if known."""


@dataclass(frozen=True)
class QueryChoice:
    """What the settings say of queries. `queries` adds to the default ones, or replaces those of
    the same signal."""

    step_s: float = 15.0
    queries: Mapping[str, str] = field(default_factory=dict)
    service_label: str = "service"
    all_services: int = ALL_SERVICES

    async def available(
        self,
        api: PrometheusApi,
        names: frozenset[str],
        spans: Sequence[Window],
        templates: Iterable[PromTemplate] = DEFAULTS,
    ) -> list[AvailableTemplate]:
        """The default queries whose metric exists, with what is known of the metric."""
        templates = [
            template
            for template in existing(templates, names)
            if template.signal not in self.queries
        ]
        # Reversed, so that of each family the first template stays.
        templates_by_family = {_family(template): template for template in reversed(templates)}
        label_lists = await asyncio.gather(
            *(self._labels(api, template, spans) for template in templates_by_family.values())
        )
        labels = dict(zip(templates_by_family, label_lists, strict=True))
        intervals = await self._intervals(api, templates_by_family, labels, spans[-1])
        available = []
        for template in templates:
            family = _family(template)
            available.append(AvailableTemplate(template, labels[family], intervals[family]))
        return available

    async def chosen(
        self,
        api: PrometheusApi,
        available: Iterable[AvailableTemplate],
        scope: Scope,
        place: Mapping[str, str],
        spans: Sequence[Window],
    ) -> list[PromQuery]:
        """The configured queries and the default ones, in order of preference."""
        # Each default query for all services, and for those in scope alone.
        wide: list[PromQuery] = []
        narrow: list[PromQuery] = []
        for template in available:
            for_all = self.default(template, scope, (), place)
            in_scope = self.default(template, scope, scope.services, place)
            if for_all is not None and in_scope is not None:
                wide.append(for_all)
                narrow.append(in_scope)
        # Services are counted once for each label, not for each query.
        by = list(dict.fromkeys(prom_query.by[0] for prom_query in narrow if prom_query.narrow))
        are_few = await asyncio.gather(*(self._few(api, label, spans) for label in by))
        few = {label for label, is_few in zip(by, are_few, strict=True) if is_few}
        chosen = []
        for for_all, in_scope in zip(wide, narrow, strict=True):
            chosen.append(for_all if in_scope.by[0] in few else in_scope)
        return [*self._customs(scope, place), *chosen]

    def left_elsewhere(
        self,
        available: Iterable[AvailableTemplate],
        selections: Sequence[PrometheusSelection],
        scope: Scope,
        place: Mapping[str, str],
    ) -> list[str]:
        """The services that brought nothing in the alert's place; none where none of them was asked
        in that place alone."""
        if not any(place_labels(place, template.labels) for template in available):
            return []
        there: set[str] = set()
        for selection in selections:
            there |= {subject_of(series.metric, selection.query) for series in selection.series}
        return sorted(set(scope.services) - there)

    def elsewhere(
        self, available: Iterable[AvailableTemplate], scope: Scope, services: Sequence[str]
    ) -> list[PromQuery]:
        """The default queries for these services in all places."""
        queries = (self.default(template, scope, services, {}) for template in available)
        return [query for query in queries if query is not None]

    def default(
        self,
        available: AvailableTemplate,
        scope: Scope,
        services: Sequence[str],
        place: Mapping[str, str],
        split_by: Sequence[str] = (),
    ) -> PromQuery | None:
        """A default query for these services, or for all where none are given."""
        namespace = ""
        if "namespace" in place:
            namespace = promql.namespace_label(
                available.template, available.labels, self.service_label
            )
        query = promql.build(
            available.template,
            available.labels,
            self.service_label,
            services,
            scope.job,
            self.range_s(available.every_s),
            place_labels(place, available.labels),
            split_by,
            namespace=namespace,
        )
        return replace(query, every_s=available.every_s) if query is not None else None

    def range_s(self, interval_s: float | None) -> float:
        """The range of `rate()` where is scraped that often."""
        every_s = max(self.step_s, interval_s or 0.0)
        range_s = (FEWEST_SCRAPES if every_s >= LONG_INTERVAL_S else RANGE_SCRAPES) * every_s
        return range_s if interval_s is not None else max(UNKNOWN_RANGE_S, range_s)

    def _customs(self, scope: Scope, place: Mapping[str, str]) -> list[PromQuery]:
        """The queries of the settings, then those that runbooks add."""
        substitutions = Substitutions(scope.services, scope.job, place)
        queries: list[PromQuery] = []
        for signal, text in self.queries.items():
            queries += self._custom(signal, text, substitutions)
        for added in scope.queries_of("prometheus"):
            for query in self._custom(added.signal, added.query, substitutions):
                queries.append(replace(query, requested_by=added.by))
        return queries

    def _custom(self, signal: str, text: str, substitutions: Substitutions) -> list[PromQuery]:
        # An empty text turns a default query off.
        if not text:
            return []
        return build_custom(signal, text, self.service_label, substitutions)

    async def _few(self, api: PrometheusApi, label: str, spans: Sequence[Window]) -> bool:
        """Whether the services are few enough to ask for all of them."""
        try:
            return len(await api.values_of(label, spans)) <= self.all_services
        # Unknown counts as many: a query over all services may cost the server too much.
        except FaultlineError:
            return False

    async def _labels(
        self, api: PrometheusApi, template: PromTemplate, spans: Sequence[Window]
    ) -> list[str]:
        metric = template.stored_as or template.metric
        try:
            return await api.labels_of([promql.selector(metric)], spans)
        # Without an answer, assume the label of the settings.
        except FaultlineError:
            return [self.service_label]

    async def _intervals(
        self,
        api: PrometheusApi,
        templates: Mapping[str, PromTemplate],
        labels: Mapping[str, Iterable[str]],
        span: Window,
    ) -> dict[str, float | None]:
        """How often each family is scraped. None if unknown."""
        intervals = await asyncio.gather(
            *(
                self._interval(api, template, labels[family], span)
                for family, template in templates.items()
            )
        )
        return dict(zip(templates, intervals, strict=True))

    async def _interval(
        self, api: PrometheusApi, template: PromTemplate, labels: Iterable[str], span: Window
    ) -> float | None:
        by = promql.subject_labels(template, promql.spelt(labels), self.service_label)
        period = period_s(span)
        metric = promql.selector(template.stored_as or template.metric)
        query = counting_query(metric, [promql.written(label) for label in by], period)
        try:
            answer = await api.range(query, counting_window(span, period), period)
        except FaultlineError:
            return None
        return slowest_interval(answer.data.result, period)


def _family(template: PromTemplate) -> str:
    """The metrics of one instrument carry the same labels and are scraped together."""
    metric = template.stored_as or template.metric
    return re.sub(r"_(bucket|count)$", "", metric)

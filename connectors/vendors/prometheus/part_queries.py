"""Queries that split a service's errors and latency into its parts: versions, clusters, pods.

A server of one service in twelve that fails is hidden in the sum of all. Only services in scope are
split, and only by labels that their metrics carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.signals import PART_LABELS
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.vendors.prometheus import promql
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import PromQuery, spelt
from faultline.connectors.vendors.prometheus.query_choice import AvailableTemplate, QueryChoice
from faultline.connectors.vendors.prometheus.series import PrometheusSelection, subject_of

SIGNALS = ("error_ratio", "latency_p99")
MOST_SERVICES = 5
"""The alert's own come first in a scope."""
MOST_PARTS = 60
"""Of all these services together; where there are more, that label splits nothing."""
LATELY = timedelta(minutes=10)


async def part_queries(
    api: PrometheusApi,
    choice: QueryChoice,
    available: Sequence[AvailableTemplate],
    selections: Sequence[PrometheusSelection],
    scope: Scope,
    place: Mapping[str, str],
    span: Window,
) -> list[PromQuery]:
    """The queries for the first services in scope, by each label that has several values there.

    `selections` are the answers about whole services: what brought a signal there is what is split.
    """
    services = tuple(scope.services[:MOST_SERVICES])
    split = []
    for template in _telling(available, selections, services):
        for kind, label in part_labels(template.labels).items():
            # A place of the alert's is compared with the others of its kind.
            within = {name: value for name, value in place.items() if name != kind}
            query = choice.default(template, scope, services, within, split_by=(label,))
            if query is not None:
                split.append(query)
    counts = await asyncio.gather(*(_parts(api, query, span) for query in split))
    return [
        part_query
        for part_query, count in zip(split, counts, strict=True)
        if 1 < count <= MOST_PARTS
    ]


def part_labels(labels: Sequence[str]) -> dict[str, str]:
    """By kind of part, the label that tells it."""
    label_spellings = spelt(labels)
    labels_by_kind = {}
    for kind, names in PART_LABELS.items():
        label = next((label_spellings[name] for name in names if name in label_spellings), None)
        if label is not None:
            labels_by_kind[kind] = label
    if "pod" in labels_by_kind:
        # Each pod is scraped by itself.
        labels_by_kind.pop("instance", None)
    return labels_by_kind


def _telling(
    available: Sequence[AvailableTemplate],
    selections: Sequence[PrometheusSelection],
    services: Sequence[str],
) -> list[AvailableTemplate]:
    """For each signal and service the first template that brought it: services may be instrumented
    in different ways."""
    subjects_of: dict[str, set[str]] = {}
    for selection in selections:
        subjects = {subject_of(series.metric, selection.query) for series in selection.series}
        subjects_of.setdefault(selection.query.promql, set()).update(
            subjects.intersection(services)
        )
    templates: list[AvailableTemplate] = []
    covered: set[tuple[str, str]] = set()
    for template in available:
        signal = template.template.signal
        if signal not in SIGNALS:
            continue
        metric = promql.selector(template.template.stored_as or template.template.metric)
        by_template = {
            (signal, subject)
            for text, subjects in subjects_of.items()
            if metric in text
            for subject in subjects
        }
        if by_template - covered:
            templates.append(template)
            covered |= by_template
    return templates


async def _parts(api: PrometheusApi, query: PromQuery, span: Window) -> int:
    """How many parts there were lately in the incident; none if unknown."""
    # The latest samples may not have arrived yet, as with remote write.
    latest = Window(start=max(span.start, span.end - LATELY), end=span.end)
    try:
        answer = await api.range(query.promql, latest, LATELY.total_seconds() / 5)
    except FaultlineError:
        return 0
    return len(answer.data.result)

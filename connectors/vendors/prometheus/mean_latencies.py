"""Mean latencies of services that have no percentiles.

A summary without quantiles has a sum and a count alone. Where an agent that does not know native
histograms scrapes one, it keeps the bucket `+Inf` alone, of which `histogram_quantile` makes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import PromQuery
from faultline.connectors.vendors.prometheus.query_choice import QueryChoice
from faultline.connectors.vendors.prometheus.request_metrics import SOURCES, mean_latency
from faultline.connectors.vendors.prometheus.series import PrometheusSelection, subject_of


async def mean_queries(
    api: PrometheusApi,
    choice: QueryChoice,
    names: frozenset[str],
    selections: Sequence[PrometheusSelection],
    scope: Scope,
    place: Mapping[str, str],
    spans: Sequence[Window],
) -> list[PromQuery]:
    """The queries for those whose requests are counted and whose latency no answer told."""
    counted = _subjects(selections, ("request_rate",))
    untimed = counted - _subjects(selections, ("latency_p50", "latency_p99"))
    if not untimed:
        return []
    templates = [mean_latency(source) for source in SOURCES if source.histogram]
    available = await choice.available(api, names, spans, templates)
    queries = (choice.default(each, scope, sorted(untimed), place) for each in available)
    return [query for query in queries if query is not None]


def _subjects(
    selections: Sequence[PrometheusSelection], signals: Collection[str]
) -> frozenset[str]:
    """Those of which any sample of these signals is a number."""
    subjects = set()
    for selection in selections:
        if selection.query.signal not in signals:
            continue
        for series in selection.series:
            if any(math.isfinite(float(text)) for _, text in series.values):
                subjects.add(subject_of(series.metric, selection.query))
    return frozenset(subjects - {""})

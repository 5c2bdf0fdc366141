"""The answer of Prometheus to a query that a model wrote, as rows of the table `metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.query_bounds import check_query
from faultline.connectors.shared.queries.querying import LONGEST_SIGNAL, query_answer
from faultline.connectors.shared.rows.collection_builder import attributes
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.series import RangeAnswer

VENDOR = "prometheus"


async def answer_of(
    api: PrometheusApi,
    query: BoundedQuery,
    step_s: float,
    service_labels: Sequence[str],
    link: Callable[[str], str],
) -> Collected:
    """What a query brings, in steps of that many seconds. Raises FaultlineError."""
    check_query("PromQL", VENDOR, query.text)
    answer = await api.limited_range(
        query.text, query.window, step_s, query.rows + 1, api.remaining_s
    )
    return await asyncio.to_thread(_collected, answer, query, service_labels, link(query.text))


def _collected(
    answer: RangeAnswer, query: BoundedQuery, service_labels: Sequence[str], link: str
) -> Collected:
    series = answer.data.result
    rows: list[tuple[Any, ...]] = []
    for metric_series in series[: query.rows]:
        service = next(
            (metric_series.metric[n] for n in service_labels if metric_series.metric.get(n)),
            query.service,
        )
        signal = metric_series.metric.get("__name__") or short(query.text, LONGEST_SIGNAL)
        labels = attributes({k: v for k, v in metric_series.metric.items() if k != "__name__"})
        for at, text in metric_series.values[: query.points + 1]:
            try:
                value = float(text)
            except ValueError:
                continue
            rows.append((round(at * 1000) * 1_000_000, service, signal, value, None, labels))
    left_out = len(series) - query.rows
    cut = f"the first {query.rows} series" if left_out > 0 else None
    if answer.warnings:
        phrase = f"the server says: {short('; '.join(answer.warnings), 160)}"
        cut = f"{cut}; {phrase}" if cut else phrase
    return query_answer("metrics", rows, query, link, cut)

"""Since when a Prometheus has samples, asked in at most four small queries."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.overview import SIGNALS
from faultline.connectors.vendors.prometheus.promql import selector
from faultline.connectors.vendors.prometheus.templates import existing

MOST_METRICS = 6
"""Of each server a few metrics are enough: they are scraped together."""
COARSE, FINE = 60, 30
"""Steps of the two range queries."""
EVERY_TARGET = "up"
"""What Prometheus writes of each target (https://prometheus.io/docs/concepts/jobs_instances/)."""
SETTLED = timedelta(minutes=6)
"""A sample answers queries for five minutes (--query.lookback-delta): what is there a bit after the
start was there then."""


async def data_since(api: PrometheusApi, window: Window) -> datetime | None:
    """When the first sample in the window was taken, or its start where there were some before.
    None where there is none. Raises FaultlineError."""
    query = _counting(await api.metric_names([window]))
    if query is None:
        return None
    # On all but the youngest systems this is the only question.
    if await api.instant(query, min(window.start + SETTLED, window.end)):
        return window.start
    coarse_s = _step_s(window.seconds, COARSE)
    first = await _first(api, query, window.end, coarse_s, COARSE)
    if first is None:
        return None
    return await _first(api, query, first, _step_s(coarse_s, FINE), FINE) or first


def _step_s(seconds: float, steps: int) -> int:
    return max(1, math.ceil(seconds / steps))


async def _first(
    api: PrometheusApi, query: str, end: datetime, step_s: int, steps: int
) -> datetime | None:
    """The first of the steps up to the end at which there is anything."""
    window = Window(start=end - timedelta(seconds=steps * step_s), end=end)
    answer = await api.range(query, window, step_s)
    times = [float(at) for series in answer.data.result for at, _ in series.values[:1]]
    return datetime.fromtimestamp(min(times), UTC) if times else None


def _counting(names: Collection[str]) -> str | None:
    """How many series there are of the metrics of requests, or of others where there are none of
    those."""
    metrics: dict[str, None] = {}
    for template in existing(DEFAULTS, names):
        if template.signal in SIGNALS:
            metrics[template.stored_as or template.metric] = None
    if not metrics:
        metrics = dict.fromkeys([EVERY_TARGET] if EVERY_TARGET in names else sorted(names))
    counted = [f"count({selector(metric)})" for metric in list(metrics)[:MOST_METRICS]]
    return " or ".join(counted) or None

"""How often Prometheus has taken samples of a metric, learned from the samples themselves.

A range of `rate()` shorter than two scrapes gives nothing, and a step shorter than one repeats each
value. Neither the configuration nor the targets are asked: what remote write or OTLP brought has
none, and Thanos and Mimir show none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

LONGEST_PERIOD_S = 599.0
"""A second less than ten minutes: up to version 2 a range holds the samples at both of its ends,
and would hold one too many of those taken on the minute."""
PERIODS = 3
"""Samples are counted in that many periods at the end of the windows, and the fullest one counts:
a restart or a gap empties only its own."""
LONGEST_INTERVAL_S = 300.0
"""Prometheus takes what is older than five minutes for gone (its --query.lookback-delta)."""


def period_s(span: Window) -> float:
    """The length of one period."""
    return max(1.0, min(LONGEST_PERIOD_S, span.seconds // PERIODS - 1))


def counting_query(metric: str, by: Sequence[str], period: float) -> str:
    """Samples of the metric in a period: of each service's fullest series, as one that has just
    been started holds few."""
    return f"max by ({', '.join(by)}) (count_over_time({metric}[{period:.0f}s]))"


def counting_window(span: Window, period: float) -> Window:
    """The last periods; their ends are the steps of a range query."""
    return Window(start=span.end - timedelta(seconds=period * (PERIODS - 1)), end=span.end)


def slowest_interval(series: Iterable[PrometheusSeries], period: float) -> float | None:
    """The interval of the service that is scraped least often; None where nothing was counted."""
    slowest: float | None = None
    for prometheus_series in series:
        try:
            most = max((float(count) for _, count in prometheus_series.values), default=0.0)
        except ValueError:
            raise ConnectorError(
                "prometheus", "/api/v1/query_range", "a number of samples is not a number"
            ) from None
        if not 2 <= most < math.inf:
            continue
        interval = min(LONGEST_INTERVAL_S, float(round(period / most)))
        slowest = max(slowest or 0.0, interval)
    return slowest

"""Rates that a server makes up.

VictoriaMetrics takes the sample before a range into account (MetricsQL, "rate"), also where the
range itself holds none: where a counter pauses, its last rates are 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from faultline.connectors.vendors.prometheus.series import PrometheusSeries

MOST = 2
"""At each gap. It looks back for little more than one scrape (getMaxPrevInterval in its
app/vmselect/promql/rollup.go), and a step is at least one scrape."""
GAP_STEPS = 1.5
_Point = tuple[float, str]


def drop_zeros_before_gaps(promql: str, series: Iterable[PrometheusSeries], step_s: float) -> None:
    """Of what a query with a rate brought, the zeros that stand between other values and a gap."""
    if "rate(" not in promql:
        return
    for prometheus_series in series:
        values = prometheus_series.values
        if len(values) < 2:
            has_gaps = False
        else:
            steps = (values[-1][0] - values[0][0]) / step_s
            has_gaps = steps > len(values) - 0.5
        if has_gaps:
            points: list[_Point] = []
            for point, following in pairwise(prometheus_series.values):
                points.append(point)
                if following[0] - point[0] > GAP_STEPS * step_s:
                    zeros = 0
                    for _, text in reversed(points[-MOST - 1 :]):
                        if not _is_zero(text):
                            break
                        zeros += 1
                    # More of them are real, and so are those that follow nothing else.
                    if 0 < zeros <= MOST and zeros < len(points):
                        del points[-zeros:]
            prometheus_series.values = [*points, prometheus_series.values[-1]]


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        # Whoever reads the value says what is wrong with it.
        return False

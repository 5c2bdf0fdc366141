"""Asking queries over the windows, in steps that the server answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.vendors.prometheus.false_zeros import drop_zeros_before_gaps
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.series import PrometheusSelection

MAX_POINTS = 11_000
"""Points per series above which Prometheus refuses a range query (web/api/v1/api.go,
query_range)."""


async def ask_all(
    api: PrometheusApi,
    selections: Iterable[PrometheusSelection],
    scope: Scope,
    spans: Sequence[Window],
    step_s: float,
) -> None:
    """Fill in what each query brings over all spans, or why it brought nothing."""
    # For GPU metrics each window has its own limit of points, because they have many series.
    windows = (*scope.baseline, scope.incident)
    await asyncio.gather(
        *(
            _ask(api, selection, windows if selection.query.points else spans, step_s)
            for selection in selections
        )
    )


async def _ask(
    api: PrometheusApi, selection: PrometheusSelection, spans: Sequence[Window], step_s: float
) -> None:
    for span in spans:
        preferred_s = max(step_s, selection.query.every_s or 0.0)
        if selection.query.points:
            preferred_s = max(preferred_s, span.seconds / selection.query.points)
        selection.step_s = step(span, preferred_s)
        try:
            answer = await api.range(selection.query.promql, span, selection.step_s)
        except FaultlineError as error:
            selection.failed = str(error)
            return
        drop_zeros_before_gaps(selection.query.promql, answer.data.result, selection.step_s)
        selection.series += answer.data.result
        if answer.warnings:
            selection.cut = f"the server says: {'; '.join(answer.warnings)[:160]}"


def step(span: Window, preferred_s: float) -> float:
    """The wanted step in seconds, longer where the span would otherwise have more points than
    Prometheus answers."""
    return max(preferred_s, math.ceil(span.seconds * 1000 / (MAX_POINTS - 1)) / 1000, 0.001)

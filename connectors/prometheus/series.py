"""What Prometheus answers to a range query, and its mapping to the tables `metrics` and
`monitors`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from analysis.case.tables import METRICS, MONITORS, empty
from analysis.errors import ConnectorError
from connectors.base import require
from connectors.gpu_metrics import named
from connectors.prometheus.promql import SERVICE_LABELS, PromQuery

CALL = "/api/v1/query_range"
LEAST_ROWS = 1000
"""Rows that each query may bring, however many queries share the connector's limit."""
RESOLVED_AFTER_STEPS = 2
"""An alert without samples for so many steps at the end of the window is over."""


class PrometheusSeries(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class PrometheusMatrix(msgspec.Struct):
    result: list[PrometheusSeries]


class RangeAnswer(msgspec.Struct):
    data: PrometheusMatrix
    warnings: list[str] = []


@dataclass
class PrometheusSelection:
    """One query and what came of it."""

    query: PromQuery
    series: list[PrometheusSeries] = field(default_factory=list)
    step_s: float = 0.0
    cut: str | None = None
    failed: str | None = None


def metrics_table(
    asked: Sequence[PrometheusSelection], services: Sequence[str], max_rows: int
) -> tuple[pl.DataFrame, dict[int, int]]:
    """The metrics table, and how many rows of it each query brought, by the query's place in
    `asked`.

    Of two queries for one signal of one service, the first that has any rows wins.
    """
    room = max(LEAST_ROWS, max_rows // max(1, len(asked)))
    frames = [
        _rows(one, room).with_columns(order=pl.lit(order))
        for order, one in enumerate(asked)
        if one.series
    ]
    if not frames:
        return empty("metrics"), {}
    table = pl.concat(frames)
    if services:
        of_others = pl.col("narrow") & pl.col("service").is_in(list(services)).not_()
        table = table.filter(of_others.not_().fill_null(True))
    table = table.filter(pl.col("order") == pl.col("order").min().over("service", "signal"))
    counts = {int(order): int(rows) for order, rows in table.group_by("order").len().iter_rows()}
    return table.select(list(METRICS.columns)), counts


def monitors_table(
    alerts: PrometheusSelection, until: float, service_label: str, links: Mapping[str, str]
) -> pl.DataFrame:
    """One row per alert, in its latest state; `since` is where that state began. `links` by alert
    name."""
    rows = []
    for series in _latest_states(alerts.series):
        since, last = _last_run([t for t, _ in series.values], alerts.step_s)
        over = last + RESOLVED_AFTER_STEPS * alerts.step_s < until
        name = series.metric.get("alertname", "")
        state = "resolved" if over else series.metric.get("alertstate", "firing")
        service = next(
            (series.metric[k] for k in (service_label, *SERVICE_LABELS) if k in series.metric), None
        )
        rows.append((name, service, state, _nanoseconds(last if over else since), links.get(name)))
    raw = pl.DataFrame(rows, schema={**MONITORS.columns, "since": pl.Int64()}, orient="row")
    return raw.with_columns(pl.col("since").cast(MONITORS.columns["since"])).unique(
        maintain_order=True
    )


def _latest_states(series: Sequence[PrometheusSeries]) -> list[PrometheusSeries]:
    """Of one alert's series (one per state and window asked) the one seen last; firing where two
    end together."""
    latest: dict[frozenset[tuple[str, str]], PrometheusSeries] = {}
    for one in series:
        if one.values:
            alert = frozenset((k, v) for k, v in one.metric.items() if k != "alertstate")
            latest[alert] = max(latest.get(alert, one), one, key=_last_seen)
    return list(latest.values())


def _last_seen(series: PrometheusSeries) -> tuple[float, bool]:
    return series.values[-1][0], series.metric.get("alertstate") == "firing"


def _rows(asked: PrometheusSelection, room: int) -> pl.DataFrame:
    """The query's samples as rows; a sample that is not finite becomes a missing value."""
    total = sum(len(s.values) for s in asked.series)
    every = max(1, math.ceil(total / room))
    if every > 1:
        asked.cut = f"one sample of {every} kept: {total:,} are more than {room:,}"
    query, frames, not_finite = asked.query, [], 0
    for series in asked.series:
        kept = series.values[::every]
        values = [_finite(text, query) for _, text in kept]
        not_finite += values.count(None)
        own = query.by and all(label in series.metric for label in query.by)
        rest = _labels(series.metric, query)
        whose = _subject(series.metric, query.by) if own else query.only
        frames.append(
            pl.DataFrame(
                {"time": [_nanoseconds(t) for t, _ in kept], "value": values}, schema=_SAMPLE
            ).with_columns(
                pl.col("time").cast(METRICS.columns["time"]),
                service=pl.lit(whose or (rest.get("host") if query.of else None), dtype=pl.String),
                narrow=pl.lit(bool(own and query.narrow)),
                signal=pl.lit(query.signal),
                unit=pl.lit(query.unit, dtype=pl.String),
                labels=pl.lit(
                    msgspec.json.encode(rest, order="sorted").decode() if rest else None,
                    dtype=pl.String,
                ),
            )
        )
    if not_finite and asked.cut is None:
        asked.cut = f"{not_finite:,} of {total:,} samples were not finite numbers"
    return pl.concat(frames)


_SAMPLE = {"time": pl.Int64(), "value": pl.Float64()}


def _finite(text: str, query: PromQuery) -> float | None:
    try:
        value = float(text)
    except ValueError:
        raise ConnectorError(
            "prometheus", CALL, f"a sample of {query.signal} is not a number"
        ) from None
    return value if math.isfinite(value) else None


def _subject(metric: Mapping[str, str], by: Sequence[str]) -> str:
    return "/".join(metric[label] for label in by)


def _labels(metric: Mapping[str, str], query: PromQuery) -> dict[str, str]:
    """The labels beside those that name the service."""
    if query.of:
        return named(metric, network=query.of == "host")
    return {k: v for k, v in metric.items() if k not in query.by and k != "__name__"}


def _nanoseconds(seconds: float) -> int:
    require(
        math.isfinite(seconds) and abs(seconds) < 9e9, "prometheus", CALL, "a time is out of range"
    )
    return round(seconds * 1000) * 1_000_000


def _last_run(times: Sequence[float], step_s: float) -> tuple[float, float]:
    start = times[-1]
    for earlier, later in zip(reversed(times[:-1]), reversed(times[1:]), strict=True):
        if later - earlier > 1.5 * step_s:
            break
        start = earlier
    return start, times[-1]

"""What Prometheus answers to a range query, and its mapping to the tables `metrics` and
`monitors`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from faultline.analysis.case.alert_place import lies_elsewhere, namespace_of, place_of
from faultline.analysis.case.tables import METRICS, MONITORS, empty
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.place_names import namespace_in
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import require
from faultline.connectors.shared.training.gpu_metrics import named
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, PromQuery, service_named
from faultline.connectors.vendors.prometheus.templates import SCRAPE_JOBS

CALL = "/api/v1/query_range"
LEAST_ROWS = 1000
"""Rows that each query may bring, however many queries share the connector's limit."""
RESOLVED_AFTER_STEPS = 2
"""An alert without samples for that many steps at the end of the window is over."""


class PrometheusSeries(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    untelling: str = ""
    """The label that all series of its subject have alike."""


class PrometheusMatrix(msgspec.Struct):
    result: list[PrometheusSeries]


class RangeAnswer(msgspec.Struct):
    data: PrometheusMatrix
    warnings: list[str] = []


class InstantSeries(msgspec.Struct):
    """A series of an instant query."""

    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")

    @property
    def number(self) -> float:
        """Its value."""
        return float(self.value[1])


class InstantVector(msgspec.Struct):
    result: list[InstantSeries]


class InstantAnswer(msgspec.Struct):
    data: InstantVector


@dataclass
class PrometheusSelection:
    """One query and its result."""

    query: PromQuery
    series: list[PrometheusSeries] = field(default_factory=list)
    step_s: float = 0.0
    cut: str | None = None
    failed: str | None = None


def keep_namespace(selections: Iterable[PrometheusSelection], namespace: str) -> None:
    """Of services of one name in several namespaces, keep the series of this one; of those that it
    lacks all, told apart by their label."""
    for selection in selections:
        label = selection.query.namespace_label
        if not label:
            continue
        namespaces: dict[str, set[str]] = {}
        for series in selection.series:
            subject = subject_of(series.metric, selection.query)
            namespaces.setdefault(subject, set()).add(series.metric.get(label, ""))
        remaining = []
        for series in selection.series:
            there = namespaces[subject_of(series.metric, selection.query)]
            if namespace in there and series.metric.get(label, "") != namespace:
                continue
            if namespace in there or len(there) == 1:
                series.untelling = label
            remaining.append(series)
        selection.series = remaining


def keep_jobs(selections: Iterable[PrometheusSelection], namespaces: Collection[str]) -> None:
    """Of scrape jobs `namespace/name` of one name, keep those of these namespaces; where none is of
    them, all, told apart by the namespace."""
    by_job = [
        selection
        for selection in selections
        if selection.query.by[:1] and selection.query.by[0] in SCRAPE_JOBS
    ]
    spaces: dict[str, set[str]] = {}
    for selection in by_job:
        for series in selection.series:
            subject = subject_of(series.metric, selection.query)
            spaces.setdefault(subject, set()).add(_job_namespace(series, selection.query))
    for selection in by_job:
        remaining = []
        for series in selection.series:
            there = spaces[subject_of(series.metric, selection.query)]
            space = _job_namespace(series, selection.query)
            if len(there) > 1:
                if there.intersection(namespaces) and space not in namespaces:
                    continue
                if not there.intersection(namespaces):
                    series.metric.setdefault("namespace", space)
            remaining.append(series)
        selection.series = remaining


def keep_alerts(alerts: PrometheusSelection, alert: Alert, service_label: str) -> None:
    """Keep what fires in the alert's place: not in another environment, cluster or region, and of
    services of one name in several namespaces those of the alert's."""
    place, namespace = place_of(alert), namespace_of(alert)
    remaining = [series for series in alerts.series if not lies_elsewhere(series.metric, place)]
    in_namespace: dict[str | None, set[str]] = {alert.service: {namespace}}
    for series in remaining:
        service = _service_of(series.metric, service_label)
        in_namespace.setdefault(service, set()).add(namespace_in(series.metric))
    alerts.series = []
    for series in remaining:
        there = namespace_in(series.metric)
        has_own = namespace in in_namespace[_service_of(series.metric, service_label)]
        if not (namespace and there and has_own and there != namespace):
            alerts.series.append(series)


def _job_namespace(series: PrometheusSeries, query: PromQuery) -> str:
    return series.metric.get(query.by[0], "").rpartition("/")[0]


def metrics_table(
    selections: Sequence[PrometheusSelection], services: Sequence[str], max_rows: int
) -> tuple[pl.DataFrame, dict[int, pl.DataFrame]]:
    """The metrics table, and the rows of it that each query brought, by the query's place in
    `selections`.

    Of two queries for one signal of one service, the first that has any rows wins; its parts are
    kept beside it.
    """
    with_series = sum(bool(selection.series) for selection in selections)
    room = max(LEAST_ROWS, max_rows // max(1, with_series))
    frames = []
    for order, selection in enumerate(selections):
        if selection.series:
            split = pl.lit(selection.query.split_by)
            frames.append(_rows(selection, room).with_columns(order=pl.lit(order), split=split))
    if not frames:
        return empty("metrics"), {}
    table = pl.concat(frames)
    if services:
        is_foreign = pl.col("narrow") & pl.col("service").is_in(list(services)).not_()
        # Rows without a service are nobody's, and stay.
        table = table.filter(is_foreign.not_().fill_null(True))
    first = pl.col("order").min().over("service", "signal", "split")
    table = table.filter(pl.col("order") == first)
    rows_by_order = {}
    for (order,), rows in table.group_by("order"):
        rows_by_order[int(order)] = rows
    return table.select(list(METRICS.columns)), rows_by_order


def monitors_table(
    alerts: PrometheusSelection, until: float, service_label: str, links: Mapping[str, str]
) -> pl.DataFrame:
    """One row per alert, in its latest state; `since` is where that state began. `links` by alert
    name."""
    rows = []
    # Of one alert's series (one per state and window asked) the one seen last; firing where two end
    # together.
    latest: dict[frozenset[tuple[str, str]], PrometheusSeries] = {}
    for prometheus_series in alerts.series:
        if not prometheus_series.values:
            continue
        labels = prometheus_series.metric.items()
        # Pending and firing are two series of one alert.
        alert = frozenset((name, value) for name, value in labels if name != "alertstate")
        latest[alert] = max(latest.get(alert, prometheus_series), prometheus_series, key=_last_seen)
    for series in list(latest.values()):
        times = [at for at, _ in series.values]
        start = times[-1]
        for earlier, later in zip(reversed(times[:-1]), reversed(times[1:]), strict=True):
            # More than one step, with room for rounding: the alert was over in between.
            if later - earlier > 1.5 * alerts.step_s:
                break
            start = earlier
        since, last = (start, times[-1])
        name = series.metric.get("alertname", "")
        state = series.metric.get("alertstate", "firing")
        if last + RESOLVED_AFTER_STEPS * alerts.step_s < until:
            state, since = "resolved", last
        service = _service_of(series.metric, service_label)
        rows.append((name, service, state, _nanoseconds(since), links.get(name)))
    raw = pl.DataFrame(rows, schema={**MONITORS.columns, "since": pl.Int64()}, orient="row")
    table = raw.with_columns(pl.col("since").cast(MONITORS.columns["since"]))
    return table.unique(maintain_order=True)


def _service_of(metric: Mapping[str, str], service_label: str) -> str | None:
    for label in (service_label, *SERVICE_LABELS):
        if label in metric:
            return service_named(label, metric[label])
    return None


def _last_seen(series: PrometheusSeries) -> tuple[float, bool]:
    return series.values[-1][0], series.metric.get("alertstate") == "firing"


def _rows(selection: PrometheusSelection, room: int) -> pl.DataFrame:
    """The query's samples as rows; a sample that is not finite becomes a missing value."""
    total = sum(len(s.values) for s in selection.series)
    every = max(1, math.ceil(total / room))
    if every > 1:
        selection.cut = f"one sample of {every} kept: {total:,} are more than {room:,}"
    columns: dict[str, list[object]] = {name: [] for name in _PER_SERIES}
    for series in selection.series:
        if series.values:
            _add_series(columns, series, selection.query, every)
    # One list for each series, so that its labels are encoded once and not for each sample.
    rows = pl.DataFrame(columns, schema=_PER_SERIES).explode("time", "value")
    not_finite = rows["value"].null_count()
    if not_finite and selection.cut is None:
        selection.cut = f"{not_finite:,} of {total:,} samples were not finite numbers"
    return rows.with_columns(
        pl.col("time").cast(METRICS.columns["time"]),
        signal=pl.lit(selection.query.signal),
        unit=pl.lit(selection.query.unit, dtype=pl.String),
    )


_PER_SERIES = {
    "time": pl.List(pl.Int64()),
    "value": pl.List(pl.Float64()),
    "service": pl.String(),
    "narrow": pl.Boolean(),
    "labels": pl.String(),
}


def _add_series(
    columns: Mapping[str, list[object]], series: PrometheusSeries, query: PromQuery, every: int
) -> None:
    """One sample of `every` of a series, with what is the same for all of them."""
    samples = series.values[::every]
    has_subject = bool(query.by) and all(label in series.metric for label in query.by)
    whose = subject_of(series.metric, query) if has_subject else query.only
    labels = _labels(series.metric, query)
    labels.pop(series.untelling, None)
    if not whose and query.of:
        whose = labels.get("host")
    columns["time"].append([_nanoseconds(at) for at, _ in samples])
    columns["value"].append([_finite(text, query) for _, text in samples])
    columns["service"].append(whose or None)
    columns["narrow"].append(has_subject and query.narrow)
    encoded = msgspec.json.encode(labels, order="sorted").decode() if labels else None
    columns["labels"].append(encoded)


def _finite(text: str, query: PromQuery) -> float | None:
    try:
        value = float(text)
    except ValueError:
        raise ConnectorError(
            "prometheus", CALL, f"a sample of {query.signal} is not a number"
        ) from None
    return value if math.isfinite(value) else None


def subject_of(metric: Mapping[str, str], query: PromQuery) -> str:
    """The name that a series is about, empty where it has none."""
    name = "/".join(metric.get(label, "") for label in query.by)
    match = re.fullmatch(query.name_pattern, name) if query.name_pattern else None
    if match is None:
        return name
    return next((group for group in match.groups() if group), name)


def _labels(metric: Mapping[str, str], query: PromQuery) -> dict[str, str]:
    """The labels beside those that name the service."""
    if query.of:
        return named(metric, network=query.of == "host")
    left_out = {"__name__", *query.by}
    return {label: value for label, value in metric.items() if label not in left_out}


def _nanoseconds(seconds: float) -> int:
    require(
        math.isfinite(seconds) and abs(seconds) < 9e9, "prometheus", CALL, "a time is out of range"
    )
    return round(seconds * 1000) * 1_000_000

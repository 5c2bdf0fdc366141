"""What Cloud Monitoring measures of services by itself, as rows of the table `metrics`.

`timeSeries.list` of the Monitoring API v3. Names of metrics, labels and resources:
docs.cloud.google.com/monitoring/api/metrics_gcp (Cloud Run, Cloud Load Balancing, Cloud SQL) and
metrics_kubernetes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import attributes, time_of
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, FAILING, LINES, CountGrid
from faultline.connectors.shared.rows.service_names import ServiceNames

PERIOD_S = 60
"""Google's own metrics have a point a minute."""
MOST_POINTS = 20_000
CLASS = "metric.labels.response_code_class"
SEVERITY = "metric.labels.severity"
FAILED = ("5xx", "500")
"""Cloud Run's class of failed responses, and the load balancer's."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class GoogleResource:
    """A monitored resource: the label that names the service, and those that say where it is."""

    type: str
    named_by: str
    places: Mapping[str, str]
    """Our name of a place by the resource's label."""
    of_project: bool = False
    """Whether the name stands after the project's (`shop-prod:checkout-db`)."""


RUN = GoogleResource("cloud_run_revision", "service_name", {"location": "region"})
CONTAINER = GoogleResource(
    "k8s_container", "container_name", {"cluster_name": "cluster", "location": "location"}
)
BALANCER = GoogleResource("https_lb_rule", "backend_target_name", {})
DATABASE = GoogleResource("cloudsql_database", "database_id", {"region": "region"}, True)


@dataclass(frozen=True)
class GoogleMetric:
    """One metric, and how its series become one for each service and place."""

    type: str
    of: GoogleResource
    signal: str
    unit: str
    align: str
    reduce: str
    by: str = ""
    """One more label that series are kept apart by."""
    only: str = ""
    """One more condition."""

    def params(
        self, project: str, names: Sequence[str], window: Window, period_s: int = PERIOD_S
    ) -> list[tuple[str, str]]:
        """Of `timeSeries.list`."""
        theirs = [f"{project}:{name}" for name in names] if self.of.of_project else names
        places = [f"resource.labels.{place}" for place in (self.of.named_by, *self.of.places)]
        grouped = [("aggregation.groupByFields", place) for place in (*places, self.by) if place]
        return [
            ("filter", self.filter(theirs)),
            ("interval.startTime", utc(window.start)),
            ("interval.endTime", utc(window.end)),
            ("aggregation.alignmentPeriod", f"{period_s}s"),
            ("aggregation.perSeriesAligner", self.align),
            ("aggregation.crossSeriesReducer", self.reduce),
            *grouped,
            ("view", "FULL"),
            ("pageSize", str(MOST_POINTS)),
        ]

    def filter(self, names: Sequence[str]) -> str:
        """Which series (docs.cloud.google.com/monitoring/api/v3/filters)."""
        either = ", ".join(literal(name) for name in names)
        text = f'metric.type="{self.type}" AND resource.type="{self.of.type}"'
        text += f" AND resource.labels.{self.of.named_by}=one_of({either})"
        return f"{text} AND {self.only}" if self.only else text


def _latency(metric: str, of: GoogleResource) -> Iterator[GoogleMetric]:
    for quantile in ("50", "99"):
        reduce = f"REDUCE_PERCENTILE_{quantile}"
        yield GoogleMetric(metric, of, f"latency_p{quantile}", "ms", "ALIGN_DELTA", reduce)


def _share(metric: str, of: GoogleResource, signal: str, only: str = "") -> GoogleMetric:
    return GoogleMetric(metric, of, signal, "ratio", "ALIGN_MEAN", "REDUCE_MAX", only=only)


_RUN, _SQL, _KUBE = "run.googleapis.com", "cloudsql.googleapis.com/database", "kubernetes.io"
_HTTPS = "loadbalancing.googleapis.com/https"
REQUESTS = "request_rate"
_RATE = (REQUESTS, "1/s", "ALIGN_RATE", "REDUCE_SUM", CLASS)
_DELTA_P99 = ("ratio", "ALIGN_DELTA", "REDUCE_PERCENTILE_99")
METRICS = (
    GoogleMetric(f"{_RUN}/request_count", RUN, *_RATE),
    *_latency(f"{_RUN}/request_latencies", RUN),
    GoogleMetric(f"{_RUN}/container/cpu/utilizations", RUN, "cpu_utilization", *_DELTA_P99),
    GoogleMetric(f"{_RUN}/container/memory/utilizations", RUN, "memory_utilization", *_DELTA_P99),
    GoogleMetric(
        f"{_RUN}/container/instance_count", RUN, "instances", "count", "ALIGN_MEAN", "REDUCE_SUM"
    ),
    GoogleMetric(f"{_HTTPS}/backend_request_count", BALANCER, *_RATE),
    *_latency(f"{_HTTPS}/backend_latencies", BALANCER),
    _share(f"{_KUBE}/container/cpu/limit_utilization", CONTAINER, "cpu_utilization"),
    _share(
        f"{_KUBE}/container/memory/limit_utilization",
        CONTAINER,
        "memory_utilization",
        'metric.labels.memory_type="non-evictable"',
    ),
    GoogleMetric(
        f"{_KUBE}/container/restart_count",
        CONTAINER,
        "restarts",
        "count",
        "ALIGN_DELTA",
        "REDUCE_SUM",
    ),
    _share(f"{_SQL}/cpu/utilization", DATABASE, "cpu_utilization"),
    _share(f"{_SQL}/memory/utilization", DATABASE, "memory_utilization"),
    _share(f"{_SQL}/disk/utilization", DATABASE, "disk_utilization"),
    GoogleMetric(
        f"{_SQL}/network/connections", DATABASE, "connections", "count", "ALIGN_MEAN", "REDUCE_SUM"
    ),
    GoogleMetric(
        f"{_SQL}/postgresql/num_backends",
        DATABASE,
        "connections",
        "count",
        "ALIGN_MEAN",
        "REDUCE_SUM",
    ),
)
"""Golden signals of Cloud Run and load balancers, and what containers and databases run out of."""
_COUNTED = ("ALIGN_DELTA", "REDUCE_SUM", SEVERITY)
COUNTS = tuple(
    GoogleMetric("logging.googleapis.com/log_entry_count", of, LINES, "1/min", *_COUNTED)
    for of in (RUN, CONTAINER)
)
"""How many lines were logged: counted by Logging itself, so that none has to be read."""


class _Labelled(msgspec.Struct):
    type: str = ""
    labels: dict[str, str] = {}


class _Interval(msgspec.Struct):
    endTime: str
    startTime: str | None = None


class GoogleValue(msgspec.Struct):
    """A number of one of two types."""

    doubleValue: float | None = None
    int64Value: str | None = None

    @property
    def number(self) -> float | None:
        """None for what is no finite number."""
        # Google's JSON holds 64-bit numbers as text.
        double_value = self.int64Value if self.doubleValue is None else self.doubleValue
        try:
            number = float(str(double_value)[:40])
        except ValueError:
            return None
        return number if math.isfinite(number) else None


class _GooglePoint(msgspec.Struct):
    interval: _Interval
    value: GoogleValue


class GoogleSeries(msgspec.Struct):
    resource: _Labelled = msgspec.field(default_factory=_Labelled)
    metric: _Labelled = msgspec.field(default_factory=_Labelled)
    points: list[_GooglePoint] = []


class SeriesAnswer(msgspec.Struct):
    """What `timeSeries.list` answers."""

    timeSeries: list[GoogleSeries] = []
    nextPageToken: str = ""
    executionErrors: list[Any] = []

    @property
    def cut(self) -> str | None:
        """Why it is not all that is there."""
        # An answer with errors may still hold some of the series.
        if self.executionErrors:
            return "Google could not read all of the series"
        return f"the first {MOST_POINTS:,} points" if self.nextPageToken else None


def metric_rows(
    metric: GoogleMetric, series: Iterable[GoogleSeries], names: ServiceNames
) -> list[Row]:
    """Rows of the table `metrics`. Of requests the rate and, where there were any, the share that
    failed."""
    if metric.signal == REQUESTS:
        return _request_rows(metric, series, names)
    rows: list[Row] = []
    for google_series in series:
        service, labels = _whose(metric.of, google_series, names)
        for at, value in series_points(google_series):
            rows.append((at, service, metric.signal, value, metric.unit, labels))
    return rows


def _request_rows(
    metric: GoogleMetric, series: Iterable[GoogleSeries], names: ServiceNames
) -> list[Row]:
    every: dict[tuple[int, str, str | None], float] = defaultdict(float)
    failed: dict[tuple[int, str, str | None], float] = defaultdict(float)
    for google_series in series:
        service, labels = _whose(metric.of, google_series, names)
        is_failed = google_series.metric.labels.get("response_code_class") in FAILED
        for at, value in series_points(google_series):
            every[at, service, labels] += value
            failed[at, service, labels] += value if is_failed else 0.0
    rows: list[Row] = []
    for (at, service, labels), rate in every.items():
        rows.append((at, service, REQUESTS, rate, metric.unit, labels))
        if rate > 0:
            ratio = failed[at, service, labels] / rate
            rows.append((at, service, "error_ratio", ratio, "ratio", labels))
    return rows


def line_count_rows(
    series: Iterable[GoogleSeries], grid: CountGrid, names: ServiceNames, of: GoogleResource
) -> list[Row]:
    """Lines per minute of each service: of other severities and of errors. None counted is 0."""
    counted: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for google_series in series:
        service, _ = _whose(of, google_series, names)
        # A service with lines and no errors has zero errors, not an unknown number.
        for signal in (LINES, ERROR_LINES):
            counted.setdefault((service, signal), [])
        is_error = google_series.metric.labels.get("severity", "").lower() in FAILING
        steps = counted[service, ERROR_LINES if is_error else LINES]
        for at, value in series_points(google_series):
            steps.append(((at // 1_000_000_000 - grid.start_s) // grid.step_s, value))
    rows: list[Row] = []
    for (service, signal), steps in counted.items():
        rows += grid.rows(signal, service, steps)
    return rows


def _whose(of: GoogleResource, series: GoogleSeries, names: ServiceNames) -> tuple[str, str | None]:
    """The service, and where it is. A load balancer's series carry a label that keeps them
    apart from the service's own."""
    resource_labels = series.resource.labels
    raw_name = resource_labels.get(of.named_by, "")
    service = names.ours(raw_name.partition(":")[2] if of.of_project else raw_name)
    labels = {ours: resource_labels.get(theirs) for theirs, ours in of.places.items()}
    if of is BALANCER:
        labels["measured_by"] = "load balancer"
    return service[:200], attributes(labels)


def series_points(series: GoogleSeries) -> Iterator[tuple[int, float]]:
    """The moment at which each period begins, in ns, and its value."""
    for point in series.points:
        ends = time_of(point.interval.endTime)
        begins = time_of(point.interval.startTime) or ends
        number = point.value.number
        if ends is None or begins is None or number is None:
            continue
        # Points of gauges begin when they end.
        yield begins if begins < ends else ends - PERIOD_S * 1_000_000_000, number


def literal(text: str) -> str:
    """A string in a filter, as the languages of Monitoring, Logging and Trace have it."""
    printable = "".join(c if c.isprintable() else " " for c in text[:200])
    # Backslashes first, or those before the quotes would be doubled.
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def utc(at: Any) -> str:
    """RFC 3339, to the microsecond."""
    return str(at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def explorer_link(
    console: str, project: str, params: Sequence[tuple[str, str]], window: Window
) -> str:
    """The metric in the console's Metrics Explorer, by the state that its own links hold."""
    param_values = dict(params)
    grouped = [value for name, value in params if name == "aggregation.groupByFields"]
    aggregation = {
        "alignmentPeriod": param_values["aggregation.alignmentPeriod"],
        "perSeriesAligner": param_values["aggregation.perSeriesAligner"],
        "crossSeriesReducer": param_values["aggregation.crossSeriesReducer"],
        "groupByFields": grouped,
    }
    chosen = {"filter": param_values["filter"], "aggregation": aggregation}
    chart = {"dataSets": [{"timeSeriesFilter": chosen, "plotType": "LINE", "targetAxis": "Y1"}]}
    state = quote(msgspec.json.encode({"xyChart": chart}).decode(), safe="")
    times = f"startTime={utc(window.start)}&endTime={utc(window.end)}"
    return f"{console}/monitoring/metrics-explorer;{times}?project={project}&pageState={state}"

"""Rows of the case's tables from what Splunk Observability Cloud answers.

Shapes: its API reference, as collected in api-evangelist/splunk-observability (retrieve metric time
series, metrics metadata, incidents and alerts, retrieve events V2). Names of metrics and
dimensions: help.splunk.com, "Learn about Monitoring MetricSets in Splunk APM".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import EARLIEST_NS, ns_of
from faultline.connectors.shared.rows.log_windows import Row
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

MS = 1_000_000
REQUESTS = "service.request.count"
P50, P99 = "service.request.duration.ns.median", "service.request.duration.ns.p99"
LATENCY = {P50: "latency_p50", P99: "latency_p99"}
SERVICE, ENVIRONMENT, ERROR = "sf_service", "sf_environment", "sf_error"
SERVICE_DIMENSIONS = (SERVICE, "service.name", "service")
"""Dimensions by which an alert or an event names a service."""


class TimeSeries(msgspec.Struct):
    """What a series is of."""

    id: str
    metric: str = ""
    dimensions: dict[str, Any] = {}


class SeriesPage(msgspec.Struct):
    results: list[TimeSeries]
    isPartialCount: bool = False
    count: int = 0


class Points(msgspec.Struct):
    """By series, pairs of ms since 1970 and a value."""

    data: dict[str, list[list[float | None]]]


class Input(msgspec.Struct):
    dimensions: dict[str, Any] = {}


class AlertEvent(msgspec.Struct):
    anomalyState: str = ""
    detectorName: str = ""
    timestamp: int | None = None
    inputs: list[Input] | dict[str, Input] = []


class Alert(msgspec.Struct):
    """An incident: what a detector found wrong, until it is over."""

    incidentId: str = ""
    active: bool = False
    detectLabel: str = ""
    events: list[AlertEvent] = []


class CustomEvent(msgspec.Struct):
    id: str = ""
    sf_eventType: str = ""
    timestamp: int | None = None
    metadata: dict[str, Any] = {}
    properties: dict[str, Any] = {}


def metric_rows(
    series: Iterable[TimeSeries], points: Points, names: ServiceNames, step_s: int
) -> list[Row]:
    """Rate, share of errors and latency of services.

    A counter's value is the sum of its slot. Several series of one service (methods, kinds of
    spans, environments) are added; of latencies the highest counts, p50 without failed requests.
    """
    count: dict[tuple[str, int], float] = {}
    failed: dict[tuple[str, int], float] = {}
    took: dict[str, dict[tuple[str, int], float]] = {metric: {} for metric in LATENCY}
    for time_series in series:
        name = time_series.dimensions.get(SERVICE)
        if not isinstance(name, str) or time_series.dimensions.get("sf_dimensionalized") == "true":
            continue
        service, fails = names.ours(name), time_series.dimensions.get(ERROR) == "true"
        for at, value in _values(points.data.get(time_series.id, ())):
            key = (service, at)
            if time_series.metric == REQUESTS:
                count[key] = count.get(key, 0.0) + value
                # Also where none failed, so that every count has its share.
                failed[key] = failed.get(key, 0.0) + (value if fails else 0.0)
            elif time_series.metric == P99 or (time_series.metric == P50 and not fails):
                highest = took[time_series.metric]
                highest[key] = max(highest.get(key, 0.0), value)
    rows: list[Row] = []
    for (service, at), requests in sorted(count.items()):
        rows.append((at, service, "request_rate", requests / step_s, "1/s", None))
        if requests > 0:
            share = min(1.0, failed[service, at] / requests)
            rows.append((at, service, "error_ratio", share, "ratio", None))
    for metric, signal in LATENCY.items():
        for (service, at), ns in sorted(took[metric].items()):
            # APM measures in ns.
            rows.append((at, service, signal, ns / MS, "ms", None))
    return rows


def alert_rows(alerts: Iterable[Alert], names: ServiceNames) -> Iterator[Row]:
    """Rows of the table `monitors`: when each began, and when it was over."""
    for alert in alerts:
        dated = [event for event in alert.events if ns_of(event.timestamp, MS) is not None]
        if not dated:
            continue
        title = next((event.detectorName for event in dated if event.detectorName), "")
        # A rule may be called like its detector: do not say it twice.
        label = alert.detectLabel if alert.detectLabel not in (title, "") else ""
        monitor = ": ".join(filter(None, (short(title, 120), short(label, 120)))) or "detector"
        service = _service_of(_dimensions(dated), names)
        for event in dated:
            state = "firing" if event.anomalyState == "ANOMALOUS" else "resolved"
            yield monitor, service, state, ns_of(event.timestamp, MS), None


def change_rows(
    events: Iterable[CustomEvent], names: ServiceNames, types: Sequence[str]
) -> Iterator[Row]:
    """Rows of the table `changes`, of the events whose type says that they are one."""
    folded_types = {change_type.casefold() for change_type in types}
    for event in events:
        at = ns_of(event.timestamp, MS)
        words = re.findall(r"[a-z]+", event.sf_eventType.casefold())
        matching_words = [word for word in words if word in folded_types]
        if at is None or at < EARLIEST_NS or not matching_words:
            continue
        properties = {**event.metadata, **event.properties}
        version = properties.get("version") or properties.get("service.version") or ""
        text = properties.get("description") or properties.get("message") or event.sf_eventType
        title = " ".join(filter(None, (short(str(text), 240), short(str(version), 60))))
        kind = KINDS.get(matching_words[0], "deploy")
        service = _service_of([properties], names)
        yield at, service, kind, short(event.id, 100), title, None, None, None, None


KINDS = {
    "config": "config",
    "configuration": "config",
    "flag": "flag",
    "scale": "scale",
    "scaling": "scale",
    "migration": "migration",
}
"""What a word of an event's type means; any other is a deploy."""


def _values(points: Iterable[Sequence[float | None]]) -> Iterator[tuple[int, float]]:
    for point in points:
        # No time lies that far, and int() refuses infinity.
        if len(point) < 2 or point[0] is None or point[1] is None or abs(point[0]) > 1e15:
            continue
        at, value = ns_of(int(point[0]), MS), point[1]
        if at is not None and at >= EARLIEST_NS and math.isfinite(value) and value >= 0:
            yield at, value


def _dimensions(events: Iterable[AlertEvent]) -> Iterator[Mapping[str, Any]]:
    for event in events:
        inputs = event.inputs.values() if isinstance(event.inputs, dict) else event.inputs
        for alert_input in inputs:
            yield alert_input.dimensions


def _service_of(places: Iterable[Mapping[str, Any]], names: ServiceNames) -> str | None:
    for place in places:
        for key in SERVICE_DIMENSIONS:
            value = place.get(key)
            if isinstance(value, str) and value:
                return names.ours(short(value, 200))
    return None

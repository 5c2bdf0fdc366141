"""Rows of the case's tables from what the Environment API v2 answers.

Shapes: docs.dynatrace.com, "Metrics API - GET metric data points", "Problems API v2", "Events API
v2", "Monitored entities API", and the connector definition that Dynatrace published
(microsoft/PowerPlatformConnectors, certified-connectors/Dynatrace).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import EARLIEST_NS, ns_of
from faultline.connectors.shared.rows.log_windows import Row
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

MS = 1_000_000
SPLIT = ':splitBy("dt.entity.service")'
REQUESTS, FAILED, P50, P99 = (
    f"builtin:service.requestCount.total{SPLIT}:sum",
    f"builtin:service.errors.total.count{SPLIT}:sum",
    f"builtin:service.response.time{SPLIT}:percentile(50)",
    f"builtin:service.response.time{SPLIT}:percentile(99)",
)
"""Of every service; response times are in µs."""
LATENCY = {P50: "latency_p50", P99: "latency_p99"}


class EntityKey(msgspec.Struct, frozen=True):
    id: str = ""
    type: str = ""


class EntityStub(msgspec.Struct, frozen=True):
    entityId: EntityKey = EntityKey()
    name: str | None = None


class Service(msgspec.Struct):
    """A monitored entity."""

    entityId: str
    displayName: str = ""


class Page(msgspec.Struct):
    """What each list says of itself."""

    nextPageKey: str | None = None


class Services(Page, kw_only=True):
    entities: list[Service]


class Series(msgspec.Struct):
    dimensionMap: dict[str, str | None] = {}
    timestamps: list[int] = []
    values: list[float | None] = []


class MetricSeries(msgspec.Struct):
    metricId: str
    data: list[Series] = []


class MetricData(msgspec.Struct):
    result: list[MetricSeries]


class Problem(msgspec.Struct):
    problemId: str
    displayId: str = ""
    title: str = ""
    severityLevel: str = ""
    status: str = ""
    startTime: int | None = None
    endTime: int | None = None
    affectedEntities: list[EntityStub] = []
    rootCauseEntity: EntityStub | None = None


class Problems(Page, kw_only=True):
    problems: list[Problem]


class Property(msgspec.Struct):
    key: str = ""
    value: Any = None


class Event(msgspec.Struct):
    eventId: str
    eventType: str = ""
    title: str | None = None
    startTime: int | None = None
    entityId: EntityStub | None = None
    properties: list[Property] = []


class Events(Page, kw_only=True):
    events: list[Event]


def metric_rows(metric_data: MetricData, services: Mapping[str, str], step_s: int) -> list[Row]:
    """Rate, share of errors and latency of services by their ids. A time that Dynatrace gives is
    the end of its slot; rows have its beginning."""
    by_metric: dict[str, dict[tuple[str, int], float]] = {}
    for metric in metric_data.result:
        points = by_metric.setdefault(metric.metricId, {})
        for series in metric.data:
            service = services.get(series.dimensionMap.get("dt.entity.service") or "")
            if service is None:
                continue
            for at, value in zip(series.timestamps, series.values, strict=False):
                time = ns_of(at, MS)
                if value is not None and value >= 0 and time is not None and time > EARLIEST_NS:
                    points[service, time - step_s * 1_000_000_000] = value
    rows: list[Row] = []
    failed = by_metric.get(FAILED, {})
    for (service, at), count in by_metric.get(REQUESTS, {}).items():
        rows.append((at, service, "request_rate", count / step_s, "1/s", None))
        if count > 0 and FAILED in by_metric:
            # A slot without failures has no value.
            share = min(1.0, failed.get((service, at), 0.0) / count)
            rows.append((at, service, "error_ratio", share, "ratio", None))
    for name, signal in LATENCY.items():
        for (service, at), took_us in by_metric.get(name, {}).items():
            rows.append((at, service, signal, took_us / 1000, "ms", None))
    return rows


def problem_rows(problems: Iterable[Problem], names: ServiceNames, base: str) -> Iterator[Row]:
    """Rows of the table `monitors`, one for each service that a problem affects, and one for its
    root cause."""
    for problem in problems:
        state = "firing" if problem.status == "OPEN" else "resolved"
        at = ns_of(problem.startTime if state == "firing" else problem.endTime, MS)
        title = " ".join(filter(None, (short(problem.displayId, 40), short(problem.title, 200))))
        if at is None or not title:
            continue
        root_cause = [problem.rootCauseEntity] if problem.rootCauseEntity is not None else []
        affected = {name_of(entity, names) for entity in (*problem.affectedEntities, *root_cause)}
        # One whose entities have no names is still a problem.
        for service in (affected - {None}) or {None}:
            yield title, service, state, at, problem_link(base, problem.problemId)


def change_rows(events: Iterable[Event], names: ServiceNames) -> Iterator[Row]:
    """Rows of the table `changes`."""
    for event in events:
        at = ns_of(event.startTime, MS)
        if at is None or at < EARLIEST_NS:
            continue
        values_by_key = {
            prop.key: str(prop.value)[:1000] for prop in event.properties if prop.value
        }
        kind = "deploy" if event.eventType == "CUSTOM_DEPLOYMENT" else "config"
        version = (
            values_by_key.get("dt.event.deployment.version")
            or values_by_key.get("deploymentVersion")
            or ""
        )
        title = " ".join(filter(None, (short(event.title or kind, 240), short(version, 60))))
        service = name_of(event.entityId, names) if event.entityId else None
        yield at, service, kind, short(event.eventId, 100), title, None, None, None, None


def name_of(entity: EntityStub, names: ServiceNames) -> str | None:
    """Our name of a service, or of whatever else it is."""
    return names.ours(short(entity.name or "", 200)) or None


def problem_link(base: str, problem: str) -> str:
    """A problem's own page."""
    # Foreign id: keep only what cannot change the address.
    plain = "".join(char for char in problem[:100] if char.isalnum() or char in "-_")
    return f"{base}/#problems/problemdetails;pid={plain}"

"""Honeycomb's query for golden signals, and rows of the case's tables from its answers.

Shapes: the specification in irvingpop/honeycomb-api-python (Honeycomb's own, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds, ns_of, time_of
from faultline.connectors.shared.rows.log_windows import CountGrid, Row
from faultline.connectors.shared.vendor_text import short

ERROR, DURATION, KIND = "error", "duration_ms", "span.kind"
"""Columns of spans that OpenTelemetry sends (docs.honeycomb.io, "Map OpenTelemetry data")."""
P50, P99 = f"P50({DURATION})", f"P99({DURATION})"


class Dataset(msgspec.Struct):
    name: str = ""
    slug: str = ""


class _Slugged(msgspec.Struct):
    slug: str = ""


class KeyAnswer(msgspec.Struct):
    """What a key may do."""

    team: _Slugged = msgspec.field(default_factory=_Slugged)
    environment: _Slugged = msgspec.field(default_factory=_Slugged)
    api_key_access: dict[str, Any] = {}


class Marker(msgspec.Struct):
    id: str = ""
    start_time: int | None = None
    message: str | None = None
    type: str | None = None
    url: str | None = None


class _Group(msgspec.Struct):
    time: str = ""
    data: dict[str, Any] = {}


class _Data(msgspec.Struct):
    series: list[_Group] = []
    total_by_aggregate_series: list[_Group] = []


class _Links(msgspec.Struct):
    query_url: str = ""


class QueryResult(msgspec.Struct):
    """A query's result, once it is complete."""

    complete: bool = False
    data: _Data | None = None
    links: _Links = msgspec.field(default_factory=_Links)

    @property
    def link(self) -> str | None:
        """The result in Honeycomb."""
        url = self.links.query_url
        return url if url.startswith("https://") and url.isprintable() else None


def golden_query(grid: CountGrid) -> Mapping[str, Any]:
    """Spans that a service serves, in steps, those that failed apart."""
    return {
        "calculations": [
            {"op": "COUNT"},
            {"op": "P50", "column": DURATION},
            {"op": "P99", "column": DURATION},
        ],
        "breakdowns": [ERROR],
        "filters": [{"column": KIND, "op": "=", "value": "server"}],
        "start_time": grid.start_s,
        "end_time": grid.start_s + grid.steps * grid.step_s,
        "granularity": grid.step_s,
    }


def golden_rows(query_result: QueryResult, service: str, grid: CountGrid) -> list[Row]:
    """Rate, share of errors and latency, by the moment at which a step begins."""
    data = query_result.data or _Data()
    failed: dict[int, float] = {}
    for series in data.series:
        at, count = time_of(series.time), _number(series.data.get("COUNT"))
        # Senders write the column as a boolean or as text.
        if at is not None and count is not None and series.data.get(ERROR) in (True, "true"):
            failed[at] = failed.get(at, 0.0) + count
    rows: list[Row] = []
    # Percentiles of groups cannot be joined, so take those over all spans.
    for total_by_aggregate_series in data.total_by_aggregate_series:
        at, count = (
            time_of(total_by_aggregate_series.time),
            _number(total_by_aggregate_series.data.get("COUNT")),
        )
        if at is None or count is None:
            continue
        rows.append((at, service, "request_rate", count / grid.step_s, "1/s", None))
        if not count:
            continue
        ratio = min(1.0, failed.get(at, 0.0) / count)
        rows.append((at, service, "error_ratio", ratio, "ratio", None))
        for name, signal in ((P50, "latency_p50"), (P99, "latency_p99")):
            value = _number(total_by_aggregate_series.data.get(name))
            if value is not None:
                rows.append((at, service, signal, value, "ms", None))
    return rows


def marker_rows(
    markers: Iterable[Marker], service: str | None, window: Window, deploy_types: frozenset[str]
) -> list[Row]:
    """Rows of the table `changes`, of the markers that lie in the window."""
    rows: list[Row] = []
    for marker in markers:
        at = ns_of(marker.start_time, 1_000_000_000)
        if at is None or not nanoseconds(window.start) <= at < nanoseconds(window.end):
            continue
        type_ = marker.type or ""
        kind = "deploy" if type_.casefold() in deploy_types or not type_ else "config"
        title = short(marker.message or type_ or "marker", 300)
        # Foreign text: nothing but https becomes a link.
        url = marker.url if marker.url and marker.url.startswith("https://") else None
        link = short(url, 500) if url else None
        identity = short(marker.id, 60) or f"marker@{at}"
        rows.append((at, service, kind, identity, title, None, link, None, None))
    return rows


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) and number >= 0 else None

"""Rows of the case's tables from what Azure Monitor's queries answer: metrics, spans, logs and
changes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from faultline.analysis.case.tables import CHANGES, LOGS, METRICS, SPANS
from faultline.connectors.shared.rows.collection_builder import ChangeRow, LogRow, rows_table
from faultline.connectors.shared.vendor_text import short

Row = Mapping[str, Any]
Named = Callable[[str], str]
"""Our name of a role."""

SEVERITIES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""SeverityLevel 0 to 4 (Application Insights data model, "Trace")."""
LONG, LINE = 2_000, 160
SECONDS_PER_ROW = 60
"""The queries count by minute."""
_FAILED = (False, 0, "False")
"""Log Analytics answers a bool, Application Insights the text."""
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")
_DEPLOYS = re.compile(
    r"/(?:deployments|containerapps|revisions|slotsswap|sourcecontrols|publish"
    r"|extensions/msdeploy|deploymentscripts)/"
    r"|/(?:containerapps|deployments)$",
    re.I,
)
_SCALES = re.compile(
    r"/(?:autoscalesettings|serverfarms|agentpools|virtualmachinescalesets|scale)(?:/|$)", re.I
)


def time_of(value: Any) -> datetime | None:
    """A time in UTC from Azure's ISO 8601, which has up to seven digits of a second; None for
    anything else."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        at = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", value))
    except ValueError:
        return None
    if not 2000 <= at.year < 2100:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def request_metrics(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Rate, share of errors, and latency by minute."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        at = time_of(row.get("moment"))
        service = named(_text(row.get("role")))
        count = _number(row.get("requests"))
        if at is None or not service or count is None:
            continue
        out.append((at, service, "request_rate", count / SECONDS_PER_ROW, "1/s", None))
        failed = _number(row.get("failed"))
        if count > 0 and failed is not None:
            out.append((at, service, "error_ratio", failed / count, "ratio", None))
        for quantile in ("p50", "p99"):
            latency = _number(row.get(quantile))
            if latency is not None:
                out.append((at, service, f"latency_{quantile}", latency, "ms", None))
    return _metrics(out)


def dependency_metrics(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Share of errors and latency of a service's calls, by target."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        at = time_of(row.get("moment"))
        service = named(_text(row.get("role")))
        count = _number(row.get("calls"))
        if at is None or not service or not count:
            continue
        labels = json.dumps({"target": short(_text(row.get("target")), 120)})
        failed = _number(row.get("failed"))
        if failed is not None:
            out.append((at, service, "dependency_error_ratio", failed / count, "ratio", labels))
        latency = _number(row.get("p99"))
        if latency is not None:
            out.append((at, service, "dependency_latency_p99", latency, "ms", labels))
    return _metrics(out)


def spans_table(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Requests and dependencies as spans."""
    out: dict[tuple[str, str], tuple[Any, ...]] = {}
    for row in rows:
        at = time_of(row.get("moment"))
        duration_ms = _number(row.get("duration"))
        trace, span = _text(row.get("trace")), _text(row.get("id"))
        if at is None or duration_ms is None or not trace or not span:
            continue
        # The parent's id; a request whose parent is its operation is a root.
        parent = _text(row.get("parent"))
        out[trace, span] = (
            trace,
            span,
            (parent if parent and parent not in (trace, span) else None),
            named(_text(row.get("role"))) or "unknown",
            short(_text(row.get("name")), LINE) or "?",
            at,
            duration_ms * 1_000,
            "ERROR" if row.get("success") in _FAILED else "OK",
            _span_attributes(row),
        )
    return pl.DataFrame(list(out.values()), schema=SPANS.columns, orient="row")


def _span_attributes(row: Row) -> str:
    texts = {}
    for name in ("span_kind", "code", "target"):
        text = _text(row.get(name))
        if text:
            texts[name] = short(text, LINE)
    return json.dumps(texts)


def logs_table(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Lines of logs and exceptions."""
    out = []
    for row in rows:
        at = time_of(row.get("moment"))
        message = _text(row.get("message"))[:LONG]
        if at is None or not message:
            continue
        service = named(_text(row.get("role"))) or None
        trace = _text(row.get("trace")) or None
        severity = row.get("severity")
        level: str | None
        # Log tables hold the level as a word, telemetry holds a number.
        if isinstance(severity, str):
            level = short(severity, 20).upper() or None
        elif not isinstance(severity, int) or isinstance(severity, bool):
            level = None
        else:
            level = SEVERITIES[severity] if 0 <= severity < len(SEVERITIES) else None
        out.append(LogRow(at, service, message, level, trace, None))
    return pl.DataFrame(out, schema=LOGS.columns, orient="row")


def changes_table(
    rows: Sequence[Row], service_of: Callable[[str], str | None], link: str | None
) -> pl.DataFrame:
    """Writes of the activity log. `service_of` knows whose a resource is."""
    out: dict[ChangeRow, None] = {}
    for row in rows:
        at = time_of(row.get("moment"))
        operation = _text(row.get("operation"))
        if at is None or not operation:
            continue
        resource = _text(row.get("resource"))
        # The end of an id names the resource; what comes before is its subscription and group.
        name = short(resource.split("/providers/")[-1], 100)
        title = f"{operation.lower()} on {name}"
        identity = short(_text(row.get("correlation")), 60) or f"{operation.lower()} {name}"
        author = short(_text(row.get("caller")), 80) or None
        kind = kind_of(operation)
        service = service_of(resource)
        out[ChangeRow(at, service, kind, identity, short(title, LINE), author, link)] = None
    return rows_table(out, CHANGES.columns)


def kind_of(operation: str) -> str:
    """The kind of change, from an operation's name (Azure resource provider operations)."""
    if _DEPLOYS.search(operation):
        return "deploy"
    return "scale" if _SCALES.search(operation) else "config"


def _metrics(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=METRICS.columns, orient="row")


def _number(value: Any) -> float | None:
    """A finite number that is not negative; KQL's NaN comes as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # A whole number of any size would overflow a float.
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

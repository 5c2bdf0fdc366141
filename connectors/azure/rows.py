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

from analysis.case.tables import CHANGES, LOGS, METRICS, SPANS
from connectors.vendor_text import short

Row = Mapping[str, Any]
Named = Callable[[str], str]
"""Our name of a role."""

SEVERITIES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""SeverityLevel 0 to 4 (Application Insights data model, "Trace")."""
LONG, LINE = 2_000, 160
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
        at, service, count = (
            time_of(row.get("moment")),
            named(_text(row.get("role"))),
            _number(row.get("requests")),
        )
        if at is None or not service or count is None:
            continue
        out.append((at, service, "request_rate", count / 60, "1/s", None))
        if count > 0 and (failed := _number(row.get("failed"))) is not None:
            out.append((at, service, "error_ratio", failed / count, "ratio", None))
        for column, signal in (("p50", "latency_p50"), ("p99", "latency_p99")):
            if (value := _number(row.get(column))) is not None:
                out.append((at, service, signal, value, "ms", None))
    return _metrics(out)


def dependency_metrics(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Share of errors and latency of a service's calls, by target."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        at, service, count = (
            time_of(row.get("moment")),
            named(_text(row.get("role"))),
            _number(row.get("calls")),
        )
        if at is None or not service or not count:
            continue
        labels = json.dumps({"target": short(_text(row.get("target")), 120)})
        if (failed := _number(row.get("failed"))) is not None:
            out.append((at, service, "dependency_error_ratio", failed / count, "ratio", labels))
        if (value := _number(row.get("p99"))) is not None:
            out.append((at, service, "dependency_latency_p99", value, "ms", labels))
    return _metrics(out)


def spans_table(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Requests and dependencies as spans; a request whose parent is its operation is a root."""
    out: dict[tuple[str, str], tuple[Any, ...]] = {}
    for row in rows:
        at, duration = time_of(row.get("moment")), _number(row.get("duration"))
        trace, span, parent = (_text(row.get(k)) for k in ("trace", "id", "parent"))
        if at is None or duration is None or not trace or not span:
            continue
        said = {
            k: short(v, LINE) for k in ("span_kind", "code", "target") if (v := _text(row.get(k)))
        }
        out[trace, span] = (
            trace,
            span,
            parent if parent and parent not in (trace, span) else None,
            named(_text(row.get("role"))) or "unknown",
            short(_text(row.get("name")), LINE) or "?",
            at,
            duration * 1_000,
            "ERROR" if row.get("success") in (False, 0, "False") else "OK",
            json.dumps(said),
        )
    return pl.DataFrame(list(out.values()), schema=SPANS.columns, orient="row")


def logs_table(rows: Sequence[Row], named: Named) -> pl.DataFrame:
    """Lines of logs and exceptions."""
    out = []
    for row in rows:
        at, message = time_of(row.get("moment")), _text(row.get("message"))[:LONG]
        if at is not None and message:
            trace = _text(row.get("trace")) or None
            out.append(
                (
                    at,
                    named(_text(row.get("role"))) or None,
                    message,
                    _level(row.get("severity")),
                    trace,
                    None,
                )
            )
    return pl.DataFrame(out, schema=LOGS.columns, orient="row")


def changes_table(
    rows: Sequence[Row], service_of: Callable[[str], str | None], link: str | None
) -> pl.DataFrame:
    """Writes of the activity log. `service_of` knows whose a resource is."""
    out = []
    for row in rows:
        at, operation, resource = (
            time_of(row.get("moment")),
            _text(row.get("operation")),
            _text(row.get("resource")),
        )
        if at is None or not operation:
            continue
        name = short(resource.split("/providers/")[-1], 100)
        title = short(f"{operation.lower()} on {name}", LINE)
        by = short(_text(row.get("caller")), 80) or None
        change = short(_text(row.get("correlation")), 60) or f"{operation.lower()} {name}"
        out.append(
            (at, service_of(resource), kind_of(operation), change, title, by, link, None, None)
        )
    return pl.DataFrame(list(dict.fromkeys(out)), schema=CHANGES.columns, orient="row")


def kind_of(operation: str) -> str:
    """The kind of change, from an operation's name (Azure resource provider operations)."""
    if _DEPLOYS.search(operation):
        return "deploy"
    return "scale" if _SCALES.search(operation) else "config"


def _metrics(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=METRICS.columns, orient="row")


def _level(severity: Any) -> str | None:
    if (
        isinstance(severity, int)
        and not isinstance(severity, bool)
        and 0 <= severity < len(SEVERITIES)
    ):
        return SEVERITIES[severity]
    return short(severity, 20).upper() or None if isinstance(severity, str) else None


def _number(value: Any) -> float | None:
    """A finite number that is not negative; KQL's NaN comes as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

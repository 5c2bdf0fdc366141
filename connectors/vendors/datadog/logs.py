"""Logs of the services in scope: their errors in the incident and the baseline, a sample of all
lines, and counts.

Both windows are asked the same way, so that what differs between them is the system and not the
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import LogRow, readable
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES
from faultline.connectors.vendors.datadog.calls import ISSUES, LOG_COUNTS, LOGS
from faultline.connectors.vendors.datadog.inquiry import (
    DatadogEvidence,
    DatadogInquiry,
    DatadogPart,
)
from faultline.connectors.vendors.datadog.values import (
    attributes,
    inner,
    message,
    moment,
    number,
    quoted,
    rows,
    table,
    tags,
    text,
)

PAGE = 1000
"""The most that one search gives (API reference, "Search logs (POST)")."""
SAMPLE = 300
"""Lines of any status, of each window."""
BAD = "status:(error OR critical OR alert OR emergency OR warn)"
MOST_GROUPS = 25
MOST_DETAILS = 30
MOST_ISSUES = 20
ERROR_STATUSES = ("error", "critical", "alert", "emergency")
TRACE_FIELDS = ("dd.trace_id", "trace_id", "otel.trace_id", "traceId")
LINE_FIELDS = (
    "error.kind",
    "error.message",
    "logger.name",
    "http.status_code",
    "http.url_details.path",
    "version",
)
LINE_TAGS = ("pod_name", "kube_cluster_name", "availability-zone")
LONGEST_STACK = 3000
MOST_POINTS = 400
"""Points of a count over one span of time."""

_Counted = dict[tuple[str | None, str], dict[datetime, float]]
"""Lines per minute by service and signal, by time."""


class ListAnswer(msgspec.Struct):
    """A page of a search: logs, spans, events."""

    data: list[dict[str, Any]] | None = None
    meta: dict[str, Any] | None = None

    @property
    def more(self) -> bool:
        """Whether there is another page."""
        return bool(inner(self.meta or {}, "page.after"))

    @property
    def warning(self) -> str | None:
        """What Datadog says of the answer itself: a timeout, an index it does not know."""
        if (self.meta or {}).get("status") == "timeout":
            return "Datadog says that its search timed out"
        first_warning = next(
            (
                text(w.get("detail") or w.get("title"))
                for w in rows((self.meta or {}).get("warnings"))
            ),
            "",
        )
        return f"Datadog says: {first_warning}" if first_warning else None


class BucketsAnswer(msgspec.Struct):
    """An aggregation."""

    data: dict[str, Any] | None = None


async def logs(inquiry: DatadogInquiry, alerting: str | None = None) -> DatadogEvidence:
    """Lines of both windows; `alerting` is the search of the monitor that fired, where it watches
    logs."""
    windows = (*inquiry.request.scope.logs_before, inquiry.incident)
    parts = []
    for search in _searches(inquiry, alerting):
        for window in windows:
            question = partial(_lines, inquiry, search, window)
            parts.append(DatadogPart("logs", search.query, question))
    return await inquiry.gathered(parts)


@dataclass(frozen=True)
class _LogSearch:
    """A search for up to `limit` lines at each end of a window; `by` says who wants it, where that
    is not the settings."""

    query: str
    limit: int
    by: str | None = None


def _searches(inquiry: DatadogInquiry, alerting: str | None) -> Iterator[_LogSearch]:
    if alerting:
        yield _LogSearch(alerting, PAGE)
    if not inquiry.services:
        return
    yield _LogSearch(f"{inquiry.search} {BAD}", PAGE)
    yield _LogSearch(inquiry.search, SAMPLE)
    words = inquiry.request.scope.log_words
    if words is not None:
        any_word = " OR ".join(quoted(word) for word in words.words)
        yield _LogSearch(f"{inquiry.search} ({any_word})", SAMPLE, words.by)


async def _lines(inquiry: DatadogInquiry, search: _LogSearch, window: Window) -> DatadogEvidence:
    """The first lines of a window and, where there are more, its last: an error storm must show
    when it began."""
    evidence = DatadogEvidence()
    first = await _page(inquiry, search, window, "timestamp")
    entries = list(first.data or [])
    cut = first.warning
    if first.more:
        cut = f"only the first and the last {search.limit} lines of the window"
        if first.warning:
            cut += f"; {first.warning}"
        try:
            entries += (await _page(inquiry, search, window, "-timestamp")).data or []
        except FaultlineError as error:
            cut = f"only the first {search.limit} lines of the window"
            gap = Missing("logs", f"the last lines of {search.query}", str(error))
            evidence.missing.append(gap)
    lines = readable(_line(inquiry, entry) for entry in _unique_entries(entries))
    count = evidence.add("logs", lines)
    item = Item(
        "logs",
        search.query,
        window,
        inquiry.links.logs(search.query, window),
        rows=count,
        cut=cut,
        details={"asked_by": search.by} if search.by else {},
    )
    evidence.items.append(item.holding(lines))
    return evidence


async def first_lines(
    inquiry: DatadogInquiry, query: str, most: int, window: Window
) -> tuple[list[LogRow], str | None]:
    """The first lines of a search, and why they are not all. Raises ConnectorError."""
    page = await _page(inquiry, _LogSearch(query, most), window, "timestamp")
    notes = [f"the first {most} lines"] if page.more else []
    notes += [page.warning] if page.warning else []
    return readable(_line(inquiry, entry) for entry in page.data or []), "; ".join(notes) or None


def _unique_entries(entries: Iterable[dict[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The entries without repeated ids: the first and the last page of a window may overlap."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for number_of_entry, entry in enumerate(entries):
        by_id[text(entry.get("id")) or str(number_of_entry)] = entry
    return by_id.values()


async def _page(
    inquiry: DatadogInquiry, search: _LogSearch, window: Window, order: str
) -> ListAnswer:
    body = {
        "filter": _filter(search.query, window),
        "sort": order,
        "page": {"limit": search.limit},
    }
    return await inquiry.ask(LOGS, ListAnswer, body=body)


def _filter(query: str, window: Window) -> dict[str, str]:
    return {"query": query, "_from": iso(window.start), "to": iso(window.end)}


def _line(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> LogRow | None:
    outer = table(entry.get("attributes"))
    # The outer attributes are Datadog's, the inner ones are the sender's.
    fields = table(outer.get("attributes"))
    at = moment(outer.get("timestamp"))
    if at is None:
        return None
    line_tags = tags(outer.get("tags"))
    messages: dict[str, Any] = {name: text(inner(fields, name)) for name in LINE_FIELDS}
    # `message` keeps line breaks, which `text` would join.
    messages["error.stack"] = message(inner(fields, "error.stack"))[:LONGEST_STACK]
    messages["id"] = text(entry.get("id"), 80)
    messages["host"] = text(outer.get("host"))
    messages["version"] = messages["version"] or line_tags.get("version")
    messages |= {name: line_tags.get(name) for name in LINE_TAGS}
    return LogRow(
        time=at,
        service=inquiry.names.ours(text(outer.get("service")) or line_tags.get("service")),
        message=message(outer.get("message")) or message(inner(fields, "error.message")),
        level=text(outer.get("status"), 20).lower() or None,
        trace_id=_trace_id(fields),
        attributes=attributes(messages),
    )


def _trace_id(fields: Mapping[str, Any]) -> str | None:
    for name in TRACE_FIELDS:
        trace_id = text(inner(fields, name), 40)
        if trace_id:
            return trace_id
    return None


async def counts(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Lines per minute by service and status as metrics, and the kinds of error by window as
    details."""
    if not inquiry.services:
        return DatadogEvidence()
    search = inquiry.search
    parts = [
        DatadogPart("metrics", f"count of {search}", partial(_by_status, inquiry, span))
        for span in inquiry.spans_of_time
    ]
    kinds = DatadogPart("logs", f"kinds of error of {search}", partial(_kinds, inquiry))
    return await inquiry.gathered([*parts, kinds])


async def _by_status(inquiry: DatadogInquiry, span: Window) -> DatadogEvidence:
    minutes = max(1, round(span.seconds / 60 / MOST_POINTS))
    body = {
        "filter": _filter(inquiry.search, span),
        "compute": [{"aggregation": "count", "type": "timeseries", "interval": f"{minutes}m"}],
        "group_by": [{"facet": "service", "limit": MOST_GROUPS}, {"facet": "status", "limit": 10}],
    }
    answer = await inquiry.ask(LOG_COUNTS, BucketsAnswer, body=body)
    evidence = DatadogEvidence()
    # A row of the metrics table for each series and moment: nothing counted is 0, not unknown.
    counted = _counted(inquiry, answer, minutes)
    moments: set[datetime] = set()
    for points in counted.values():
        moments.update(points)
    rows: list[tuple[Any, ...]] = []
    for (service, signal), points in counted.items():
        for at in sorted(moments):
            rows.append((at, service, signal, points.get(at, 0.0), "1/min", None))
    count = evidence.add("metrics", rows)
    link = inquiry.links.logs(inquiry.search, span)
    query = f"count by service, status of {inquiry.search}"
    evidence.items.append(Item("metrics", query, span, link, rows=count).holding(rows))
    return evidence


def _counted(inquiry: DatadogInquiry, answer: BucketsAnswer, minutes: int) -> _Counted:
    """Lines per minute of each service: of all statuses but errors, and of errors."""
    counted: _Counted = {}
    for bucket in _buckets(answer):
        by = table(bucket.get("by"))
        service = inquiry.names.ours(text(by.get("service")))
        status = text(by.get("status")).lower()
        series = counted.setdefault(
            (service, ERROR_LINES if status in ERROR_STATUSES else LINES), {}
        )
        for point in rows(table(bucket.get("computes")).get("c0")):
            at = moment(point.get("time"))
            value = number(point.get("value"))
            if at is not None and value is not None:
                # Several statuses share a series, so their counts add up.
                series[at] = series.get(at, 0.0) + value / minutes
    return {series: points for series, points in counted.items() if points}


def _buckets(answer: BucketsAnswer) -> list[Mapping[str, Any]]:
    return rows((answer.data or {}).get("buckets"))


async def _kinds(inquiry: DatadogInquiry) -> DatadogEvidence:
    """How often each kind of error was logged in the incident and in the baseline."""
    query = f"{inquiry.search} status:(error OR critical OR alert OR emergency)"
    windows = {"incident": inquiry.incident}
    if inquiry.baselines:
        # One window is enough to tell which kinds of error are new.
        windows["baseline"] = inquiry.baselines[0]
    totals = await asyncio.gather(*(_totals(inquiry, query, window) for window in windows.values()))
    counts_by_kind: dict[str, list[str]] = {}
    for name, counted in zip(windows, totals, strict=True):
        for kind, count in counted.items():
            counts_by_kind.setdefault(kind, []).append(f"{count:g} in the {name}")
    details = {
        kind: "; ".join(parts) for kind, parts in list(counts_by_kind.items())[:MOST_DETAILS]
    }
    phrase = f"count by service, @error.kind of {query}"
    link = inquiry.links.logs(query, inquiry.incident)
    return DatadogEvidence([Item("logs", phrase, inquiry.incident, link, details=details)])


async def _totals(inquiry: DatadogInquiry, query: str, window: Window) -> dict[str, float]:
    body = {
        "filter": _filter(query, window),
        "compute": [{"aggregation": "count", "type": "total"}],
        "group_by": [
            {"facet": "service", "limit": 10},
            {"facet": "@error.kind", "limit": MOST_GROUPS},
        ],
    }
    answer = await inquiry.ask(LOG_COUNTS, BucketsAnswer, body=body)
    totals: dict[str, float] = {}
    for bucket in _buckets(answer)[:MOST_DETAILS]:
        by = table(bucket.get("by"))
        count = number(table(bucket.get("computes")).get("c0"))
        kind = f"{text(by.get('service'), 80)} {text(by.get('@error.kind'), 120)}".strip()
        if count is not None and kind:
            totals[kind] = count
    return totals


class IssuesAnswer(msgspec.Struct):
    """A search of error tracking."""

    data: list[dict[str, Any]] | None = None
    included: list[dict[str, Any]] | None = None


async def issues(inquiry: DatadogInquiry, track: str) -> DatadogEvidence:
    """Issues of the incident in one track ("trace" or "logs"); one first seen in it is also a line
    of the log then."""
    query = inquiry.search
    window = inquiry.incident
    issue_search = {
        "query": query,
        "_from": epoch_ms(window.start),
        "to": epoch_ms(window.end),
        "track": track,
        "order_by": "TOTAL_COUNT",
    }
    body = {"data": {"type": "search_request", "attributes": issue_search}}
    answer = await inquiry.ask(ISSUES, IssuesAnswer, body=body, include=["issue"])
    # The results refer to issues by id; `included` holds the issues themselves.
    tables = {
        text(record.get("id"), 80): table(record.get("attributes"))
        for record in answer.included or []
    }
    results = answer.data or []
    details: dict[str, str] = {}
    lines: list[LogRow] = []
    for result in results[:MOST_ISSUES]:
        issue_id = text(result.get("id"), 80)
        issue = tables.get(issue_id, {})
        count = number(table(result.get("attributes")).get("total_count"))
        details[f"issue {issue_id}"] = _issue_line(issue, count or 0)
        first = moment(issue.get("first_seen"))
        if first is not None and window.start <= first < window.end:
            lines.append(_first_line(inquiry, issue_id, issue, first))
    evidence = DatadogEvidence()
    left_out = len(results) - MOST_ISSUES
    item = Item(
        "logs",
        f"error tracking, track {track}: {query}",
        window,
        inquiry.links.issues(query, window),
        rows=evidence.add("logs", lines),
        cut=f"{left_out} more left out" if left_out > 0 else None,
        details=details,
    )
    evidence.items.append(item.holding(lines))
    return evidence


def _issue_line(issue: Mapping[str, Any], count: float) -> str:
    first = moment(issue.get("first_seen"))
    function = text(issue.get("function_name"), 120)
    file = text(issue.get("file_path"), 200)
    where = " in ".join(part for part in (function, file) if part)
    since = f", first seen {iso(first)}" if first else ""
    return f"{_issue_title(issue)} ({where}), {count:g} times{since}"


def _issue_title(issue: Mapping[str, Any]) -> str:
    title = f"{text(issue.get('error_type'), 120)}: {text(issue.get('error_message'))}"
    return title.strip(": ")


def _first_line(
    inquiry: DatadogInquiry, issue_id: str, issue: Mapping[str, Any], first: datetime
) -> LogRow:
    """The issue as the line that was logged when it was first seen."""
    issue_fields = {
        "issue": issue_id,
        "function": text(issue.get("function_name")),
        "file": text(issue.get("file_path")),
        "version": text(issue.get("first_seen_version")),
        "link": inquiry.links.issue(issue_id),
    }
    service = inquiry.names.ours(text(issue.get("service")))
    return LogRow(first, service, _issue_title(issue), "error", None, attributes(issue_fields))


def iso(at: datetime) -> str:
    """A time as the search APIs take it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_ms(at: datetime) -> int:
    """A time as the v2 APIs that take numbers take it."""
    return round(at.timestamp() * 1000)

"""Logs of the services in scope: their errors in the incident and the baseline, a sample of all
lines, and counts.

Both windows are asked the same way, so that what differs between them is the system and not the
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from analysis.errors import FaultlineError
from analysis.vocabulary import Window
from connectors.base import Item, Missing
from connectors.datadog.calls import ISSUES, LOG_COUNTS, LOGS
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry, DatadogPart
from connectors.datadog.values import (
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
LINES, ERROR_LINES = "log_lines_per_min", "error_log_lines_per_min"
"""Signals of counted lines; a minute in which others were counted and these not has 0."""
ERROR_STATUSES = ("error", "critical", "alert", "emergency")
TRACE_FIELDS = ("dd.trace_id", "trace_id", "otel.trace_id", "traceId")
KEPT = (
    "error.kind",
    "error.message",
    "logger.name",
    "http.status_code",
    "http.url_details.path",
    "version",
)
LONGEST_STACK = 3000


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
        said = next(
            (
                text(w.get("detail") or w.get("title"))
                for w in rows((self.meta or {}).get("warnings"))
            ),
            "",
        )
        return f"Datadog says: {said}" if said else None


class BucketsAnswer(msgspec.Struct):
    """An aggregation."""

    data: dict[str, Any] | None = None


async def logs(inquiry: DatadogInquiry, alerting: str | None = None) -> DatadogEvidence:
    """Lines of both windows; `alerting` is the search of the monitor that fired, where it watches
    logs."""
    asked = [
        (query, limit)
        for query, limit in ((alerting, PAGE), (f"{inquiry.search} {BAD}", PAGE))
        if query
    ]
    asked.append((inquiry.search, SAMPLE))
    if not inquiry.services:
        asked = asked[: 1 if alerting else 0]
    questions: list[tuple[str, int, str | None]] = [(query, limit, None) for query, limit in asked]
    words = inquiry.request.scope.log_words
    if words is not None and inquiry.services:
        said = " OR ".join(quoted(word) for word in words.words)
        questions.append((f"{inquiry.search} ({said})", SAMPLE, words.by))
    windows = (*inquiry.request.scope.logs_before, inquiry.incident)
    return await inquiry.gathered(
        DatadogPart("logs", query, partial(_lines, inquiry, query, limit, window, by))
        for query, limit, by in questions
        for window in windows
    )


async def _lines(
    inquiry: DatadogInquiry, query: str, limit: int, window: Window, by: str | None
) -> DatadogEvidence:
    """The first lines of a window and, where there are more, its last: an error storm must show
    when it began."""
    first = await _page(inquiry, query, limit, window, "timestamp")
    pages, cut, brought = [first], first.warning, DatadogEvidence()
    if first.more:
        cut = f"only the first and the last {limit} lines of the window" + (
            f"; {cut}" if cut else ""
        )
        try:
            pages.append(await _page(inquiry, query, limit, window, "-timestamp"))
        except FaultlineError as error:
            cut = f"only the first {limit} lines of the window"
            brought.missing.append(Missing("logs", f"the last lines of {query}", str(error)))
    every = [one for page in pages for one in page.data or []]
    found = {text(one.get("id")) or str(number): one for number, one in enumerate(every)}
    lines = [row for one in found.values() if (row := _line(inquiry, one)) is not None]
    link, details = inquiry.links.logs(query, window), {"asked_by": by} if by else {}
    count = brought.add("logs", lines)
    brought.items.append(Item("logs", query, window, link, rows=count, cut=cut, details=details))
    return brought


async def _page(
    inquiry: DatadogInquiry, query: str, limit: int, window: Window, order: str
) -> ListAnswer:
    body = {
        "filter": {"query": query, "_from": iso(window.start), "to": iso(window.end)},
        "sort": order,
        "page": {"limit": limit},
    }
    return await inquiry.ask(LOGS, ListAnswer, body=body)


def _line(inquiry: DatadogInquiry, one: Mapping[str, Any]) -> tuple[Any, ...] | None:
    outer = table(one.get("attributes"))
    own, at = table(outer.get("attributes")), moment(outer.get("timestamp"))
    if at is None:
        return None
    said = message(outer.get("message")) or message(inner(own, "error.message"))
    trace = next((found for name in TRACE_FIELDS if (found := text(inner(own, name), 40))), None)
    kept: dict[str, Any] = {name: text(inner(own, name)) for name in KEPT}
    kept["error.stack"] = message(inner(own, "error.stack"))[:LONGEST_STACK]
    known = tags(outer.get("tags"))
    kept |= {
        "id": text(one.get("id"), 80),
        "host": text(outer.get("host")),
        "version": kept["version"] or known.get("version"),
    }
    kept |= {
        name: known.get(name) for name in ("pod_name", "kube_cluster_name", "availability-zone")
    }
    service = inquiry.names.ours(text(outer.get("service")) or known.get("service"))
    return at, service, said, text(outer.get("status"), 20).lower() or None, trace, attributes(kept)


async def counts(inquiry: DatadogInquiry) -> DatadogEvidence:
    """Lines per minute by service and status as metrics, and the kinds of error by window as
    details."""
    if not inquiry.services:
        return DatadogEvidence()
    search = inquiry.search
    parts = [
        DatadogPart("metrics", f"count of {search}", partial(_by_status, inquiry, w))
        for w in inquiry.spans_of_time
    ]
    return await inquiry.gathered(
        [*parts, DatadogPart("logs", f"kinds of error of {search}", partial(_kinds, inquiry))]
    )


async def _by_status(inquiry: DatadogInquiry, span: Window) -> DatadogEvidence:
    minutes = max(1, round(span.seconds / 60 / 400))
    body = {
        "filter": {"query": inquiry.search, "_from": iso(span.start), "to": iso(span.end)},
        "compute": [{"aggregation": "count", "type": "timeseries", "interval": f"{minutes}m"}],
        "group_by": [{"facet": "service", "limit": MOST_GROUPS}, {"facet": "status", "limit": 10}],
    }
    answer = await inquiry.ask(LOG_COUNTS, BucketsAnswer, body=body)
    lines: dict[tuple[str | None, str, Any], float] = {}
    for bucket in rows((answer.data or {}).get("buckets")):
        by = table(bucket.get("by"))
        service, status = (
            inquiry.names.ours(text(by.get("service"))),
            text(by.get("status")).lower(),
        )
        signal = ERROR_LINES if status in ERROR_STATUSES else LINES
        for point in rows(table(bucket.get("computes")).get("c0")):
            at, value = moment(point.get("time")), number(point.get("value"))
            if at is not None and value is not None:
                key = (service, signal, at)
                lines[key] = lines.get(key, 0.0) + value / minutes
    found = DatadogEvidence()
    moments = sorted({at for _, _, at in lines})
    series = dict.fromkeys((service, signal) for service, signal, _ in lines)
    made = [
        (at, *one, lines.get((*one, at), 0.0), "1/min", None) for one in series for at in moments
    ]
    link = inquiry.links.logs(inquiry.search, span)
    said = f"count by service, status of {inquiry.search}"
    found.items.append(Item("metrics", said, span, link, rows=found.add("metrics", made)))
    return found


async def _kinds(inquiry: DatadogInquiry) -> DatadogEvidence:
    """How often each kind of error was logged in the incident and in the baseline."""
    query = f"{inquiry.search} status:(error OR critical OR alert OR emergency)"
    windows = dict(
        zip(("incident", "baseline"), (inquiry.incident, *inquiry.baselines[:1]), strict=False)
    )
    answers = await asyncio.gather(
        *(_totals(inquiry, query, window) for window in windows.values())
    )
    details: dict[str, str] = {}
    for which, counted in zip(windows, answers, strict=True):
        for kind, count in counted.items():
            details[kind] = "; ".join(
                filter(None, (details.get(kind), f"{count:g} in the {which}"))
            )
    said = f"count by service, @error.kind of {query}"
    link = inquiry.links.logs(query, inquiry.incident)
    return DatadogEvidence(
        [
            Item(
                "logs",
                said,
                inquiry.incident,
                link,
                details=dict(list(details.items())[:MOST_DETAILS]),
            )
        ]
    )


async def _totals(inquiry: DatadogInquiry, query: str, window: Window) -> dict[str, float]:
    body = {
        "filter": {"query": query, "_from": iso(window.start), "to": iso(window.end)},
        "compute": [{"aggregation": "count", "type": "total"}],
        "group_by": [
            {"facet": "service", "limit": 10},
            {"facet": "@error.kind", "limit": MOST_GROUPS},
        ],
    }
    answer = await inquiry.ask(LOG_COUNTS, BucketsAnswer, body=body)
    found = {}
    for bucket in rows((answer.data or {}).get("buckets"))[:MOST_DETAILS]:
        by, count = table(bucket.get("by")), number(table(bucket.get("computes")).get("c0"))
        kind = f"{text(by.get('service'), 80)} {text(by.get('@error.kind'), 120)}".strip()
        if count is not None and kind:
            found[kind] = count
    return found


class IssuesAnswer(msgspec.Struct):
    """A search of error tracking."""

    data: list[dict[str, Any]] | None = None
    included: list[dict[str, Any]] | None = None


async def issues(inquiry: DatadogInquiry, track: str) -> DatadogEvidence:
    """Issues of the incident in one track ("trace" or "logs"); one first seen in it is also a line
    of the log then."""
    query = inquiry.search
    window = inquiry.incident
    given = {
        "query": query,
        "_from": epoch_ms(window.start),
        "to": epoch_ms(window.end),
        "track": track,
    }
    body = {"data": {"type": "search_request", "attributes": {**given, "order_by": "TOTAL_COUNT"}}}
    answer = await inquiry.ask(ISSUES, IssuesAnswer, body=body, include=["issue"])
    known = {text(one.get("id"), 80): table(one.get("attributes")) for one in answer.included or []}
    details, lines = {}, []
    for result in (answer.data or [])[:MOST_ISSUES]:
        issue_id = text(result.get("id"), 80)
        issue, first = known.get(issue_id, {}), moment(known.get(issue_id, {}).get("first_seen"))
        count = number(table(result.get("attributes")).get("total_count"))
        said = f"{text(issue.get('error_type'), 120)}: {text(issue.get('error_message'))}".strip(
            ": "
        )
        where = " in ".join(
            filter(None, (text(issue.get("function_name"), 120), text(issue.get("file_path"), 200)))
        )
        since = f", first seen {iso(first)}" if first else ""
        details[f"issue {issue_id}"] = f"{said} ({where}), {count or 0:g} times{since}"
        if first is not None and window.start <= first < window.end:
            kept = {
                "issue": issue_id,
                "function": text(issue.get("function_name")),
                "file": text(issue.get("file_path")),
            }
            kept |= {
                "version": text(issue.get("first_seen_version")),
                "link": inquiry.links.issue(issue_id),
            }
            service = inquiry.names.ours(text(issue.get("service")))
            lines.append((first, service, said, "error", None, attributes(kept)))
    found = DatadogEvidence()
    cut = (
        f"{len(answer.data or []) - MOST_ISSUES} more left out"
        if len(answer.data or []) > MOST_ISSUES
        else None
    )
    link, number_of_rows = inquiry.links.issues(query, window), found.add("logs", lines)
    said = f"error tracking, track {track}: {query}"
    found.items.append(
        Item("logs", said, window, link, rows=number_of_rows, cut=cut, details=details)
    )
    return found


def iso(at: datetime) -> str:
    """A time as the search APIs take it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_ms(at: datetime) -> int:
    """A time as the v2 APIs that take numbers take it."""
    return round(at.timestamp() * 1000)

"""One incident, a bad deploy of `api` felt at `web`, with a place for foreign text in every field
that can hold any."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case, read_case
from tests.analysis.cases import at, logs, series, spans, write_case

HARMLESS = "weekly numbers of the warehouse"
FIELDS = (
    "alert.title",
    "alert.summary",
    "alert.labels",
    "alert.links",
    "alert.severity",
    "logs.message",
    "logs.new message",
    "logs.word",
    "logs.attributes",
    "logs.service",
    "spans.operation",
    "spans.attributes",
    "spans.service",
    "spans.status",
    "metrics.service",
    "metrics.signal",
    "metrics.labels",
    "metrics.unit",
    "changes.title",
    "changes.author",
    "changes.diff",
    "changes.files",
    "changes.id",
    "changes.link",
    "monitors.monitor",
    "monitors.link",
    "topology.caller",
    "topology.callee",
    "topology.source",
    "topology.learned_in",
    "gaps.reason",
    "gaps.query",
    "evidence.query",
    "evidence.details",
    "evidence.link",
    "external.call",
    "external.result",
    "thread.author",
    "thread.message",
    "earlier.title",
    "earlier.headline",
    "earlier.cause",
    "earlier.judged cause",
    "runbooks.name",
    "runbooks.owner",
    "runbooks.expected",
    "runbooks.next steps",
    "runbooks.link",
    "runbooks.text",
)
"""Every field of a case that somebody else writes, whatever connector fetched it."""

Text = Callable[[str], str]


def incident(folder: Path, text_of: Text) -> Case:
    """The case with `text_of(field)` in each field."""
    write_case(
        folder,
        alert={
            "source": "slack",
            "title": f"web latency above 1 s {text_of('alert.title')}",
            "service": "web",
            "signal": "latency_p99_ms",
            "severity": text_of("alert.severity"),
            "summary": text_of("alert.summary"),
            "labels": {"team": text_of("alert.labels"), "note": text_of("alert.labels")},
            "links": [
                {
                    "title": text_of("alert.links"),
                    "url": "https://shop.example/" + text_of("alert.links"),
                }
            ],
        },
        scope={"services": ["web", "api"]},
        evidence=_evidence(text_of),
        metrics=_metrics(text_of),
        logs=_logs(text_of),
        spans=_spans(text_of),
        changes=_changes(text_of),
        topology=[
            {"caller": "web", "callee": "api"},
            {
                "caller": f"cron {text_of('topology.caller')}",
                "callee": f"store {text_of('topology.callee')}",
                "source": text_of("topology.source"),
                "learned_in": text_of("topology.learned_in"),
            },
        ],
        monitors=[
            {
                "monitor": f"disk of cron {text_of('monitors.monitor')}",
                "service": "cron",
                "state": "ok",
                "since": at(-600),
                "link": text_of("monitors.link"),
            }
        ],
    )
    (folder / "earlier.json").write_text(json.dumps(_earlier(text_of)))
    (folder / "runbooks.json").write_text(json.dumps({"runbooks": [_runbook(text_of)]}))
    return read_case(folder)


def _evidence(text_of: Text) -> list[dict[str, Any]]:
    kinds = ("metrics", "logs", "spans", "changes", "monitors", "topology")
    asked = {"kind": "spans", "source": "vendor", "query": text_of("gaps.query")}
    said = {f"2026-03-01T12:01:00Z {text_of('thread.author')}": text_of("thread.message")}
    others = [
        {
            "id": "E9",
            "kind": "alert",
            "source": "slack",
            "query": "conversations.replies",
            "details": said,
        },
        {
            "id": "E10",
            "kind": "external",
            "source": "mcp_servers",
            "query": f"tickets {text_of('external.call')}",
            "details": {"result": text_of("external.result")},
        },
        {"id": "G1", **asked, "reason": text_of("gaps.reason")},
    ]
    return others + [
        {
            "id": f"E{n}",
            "kind": kind,
            "source": "vendor",
            "query": text_of("evidence.query"),
            "link": "https://shop.example/" + text_of("evidence.link"),
            "file": f"{kind}.jsonl",
            "details": {"body": text_of("evidence.details")},
        }
        for n, kind in enumerate(kinds, start=1)
    ]


def _earlier(text_of: Text) -> dict[str, Any]:
    """An earlier investigation of the same alert, which people judged."""
    cause = {
        "subject": "api",
        "kind": "bad_deploy",
        "troubles": ["latency"],
        "summary": text_of("earlier.cause"),
    }
    about = {
        "id": "20260201-120000-abcdef",
        "at": at(-40_000),
        "fingerprint": "same",
        "title": text_of("earlier.title"),
        "services": ["web", "api"],
        "verdict": "cause_found",
        "headline": text_of("earlier.headline"),
        "causes": [cause],
        "judged": {"right": False, "cause": text_of("earlier.judged cause")},
    }
    seen = [{"days": 30, "times": 1}]
    return {
        "asked_at": at(1),
        "seen": seen,
        "recalled": [{"why": "same_alert", "investigation": about}],
    }


def _runbook(text_of: Text) -> dict[str, Any]:
    """A runbook that applies; its links are those that the settings allow, as they are when it is
    read."""
    return {
        "name": text_of("runbooks.name"),
        "path": "web.md",
        "digest": "0123456789ab",
        "why": "it is about the service web",
        "owner": text_of("runbooks.owner"),
        "expected": [{"text": text_of("runbooks.expected"), "when": "from 02:00 to 02:30"}],
        "next_steps": [text_of("runbooks.next steps")],
        "links": [{"title": text_of("runbooks.link"), "url": "https://shop.example/dashboard"}],
        "text": text_of("runbooks.text"),
    }


def _metrics(text_of: Text) -> list[dict[str, Any]]:
    labels = {
        "labels": json.dumps({"note": text_of("metrics.labels")}),
        "unit": text_of("metrics.unit"),
    }
    rows = series("web", "latency_p99_ms", 200, 2100, onset=-2) + series(
        "api", "latency_p99_ms", 100, 1900, onset=-3
    )
    rows += series("api", "error_ratio", 0.01, 0.2, onset=-3)
    rows += series(f"cron {text_of('metrics.service')}", "latency_p99_ms", 50, 50)
    rows += series("cron", f"queue {text_of('metrics.signal')}", 7, 7)
    return [{**row, **labels} for row in rows]


def _logs(text_of: Text) -> list[dict[str, Any]]:
    attributes = json.dumps({"note": text_of("logs.attributes")})
    steady = [m / 4 for m in range(-240, 120)]
    rows = logs("api", f"listed items for {text_of('logs.message')}", steady, attributes=attributes)
    rows += logs("api", f"request {text_of('logs.word')} answered", steady)
    new = [m / 4 for m in range(-11, 100)]
    rows += logs("api", "slow query: SELECT item without index took 1800 ms", new, level="ERROR")
    rows += logs("api", f"note: {text_of('logs.new message')}", new)
    rows += logs(f"cron {text_of('logs.service')}", "tick", steady)
    return rows


def _spans(text_of: Text) -> list[dict[str, Any]]:
    rows = spans(-40, 60, 200, 100, tag="b") + spans(5, 60, 2100, 1900, tag="i")
    for row in rows:
        row["attributes"] = json.dumps({"note": text_of("spans.attributes")})
    for n, minute in enumerate((-30, 6)):
        for service, operation, status in (
            (f"cron {text_of('spans.service')}", "tick", "ok"),
            ("cron", f"job {text_of('spans.operation')}", "ok"),
            ("cron", "purge", text_of("spans.status")),
        ):
            span = {
                "trace_id": f"x{n}{service}{operation}",
                "span_id": "a",
                "parent_id": None,
                "start": at(minute),
            }
            rows.append(
                {
                    **span,
                    "service": service,
                    "operation": operation,
                    "duration_us": 900,
                    "status": status,
                }
            )
    return rows


def _changes(text_of: Text) -> list[dict[str, Any]]:
    culprit = "4f1c2d3e4b5a69788776655443322110ffeeddcc"
    return [
        {
            "time": at(-4),
            "service": "api",
            "kind": "deploy",
            "id": culprit,
            "title": "list items with their owner",
            "author": text_of("changes.author"),
            "link": "https://shop.example/" + text_of("changes.link"),
            "files": json.dumps(["api/items.py"]),
            "diff": "+    SELECT item.*, owner FROM item",
        },
        {
            "time": at(-300),
            "service": "cron",
            "kind": "deploy",
            "id": f"d-17 {text_of('changes.id')}"[:60],
            "title": text_of("changes.title"),
            "author": text_of("changes.author"),
            "link": "https://shop.example/" + text_of("changes.link"),
            "files": json.dumps([text_of("changes.files")]),
            "diff": f"+ {text_of('changes.diff')}",
        },
    ]

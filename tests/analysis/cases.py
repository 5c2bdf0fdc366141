"""Small case folders written by hand, for the analysis tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case, read_case

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""The alert; the baseline is the hour before it, the incident the half hour from it."""


def at(minutes: float) -> str:
    """A time in minutes from the alert, as text."""
    return (START + timedelta(minutes=minutes)).isoformat()


def write_case(
    folder: Path,
    *,
    alert: dict[str, Any] | None = None,
    scope: dict[str, Any] | None = None,
    evidence: Sequence[dict[str, Any]] | None = None,
    **tables: Iterable[dict[str, Any]],
) -> Case:
    """A case folder with JSON-lines tables, read back."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"source": "test", "title": "checkout is slow", "started_at": at(0), **(alert or {})}
    windows = {"incident": [at(0), at(30)], "baseline": [[at(-60), at(0)]], **(scope or {})}
    (folder / "alert.json").write_text(json.dumps(given))
    (folder / "scope.json").write_text(json.dumps(windows))
    if evidence is not None:
        (folder / "evidence.json").write_text(json.dumps(list(evidence)))
    for name, rows in tables.items():
        if text := "".join(json.dumps(row) + "\n" for row in rows):
            (folder / f"{name}.jsonl").write_text(text)
    return read_case(folder)


def series(
    service: str,
    signal: str,
    before: float,
    after: float,
    *,
    onset: float = 0,
    until: float = 30,
    noise: float = 0.02,
    step: float = 1,
) -> list[dict[str, Any]]:
    """A metric per minute that moves from `before` to `after` at `onset` and back at `until`
    (minutes)."""
    rows = []
    for i in range(int(90 / step)):
        minute = -60 + i * step
        level = after if onset <= minute < until else before
        wobble = noise * level * ((i * 7) % 5 - 2) / 2
        rows.append(
            {"time": at(minute), "service": service, "signal": signal, "value": level + wobble}
        )
    return rows


def in_unit(rows: list[dict[str, Any]], unit: str) -> list[dict[str, Any]]:
    """The rows of a metric with their unit."""
    return [{**row, "unit": unit} for row in rows]


def failing(
    share: float = 0.05, rate: float = 20.0, before: float = 0.0005
) -> list[dict[str, Any]]:
    """The share of the requests of web that fail, and how many come."""
    ratio = in_unit(series("web", "error_ratio", before, share, noise=0.001), "ratio")
    return ratio + in_unit(series("web", "request_rate", rate, rate, noise=0), "1/s")


def spans(
    minute: float,
    count: int,
    caller_ms: float,
    callee_ms: float,
    *,
    tag: str,
    status: str | None = None,
) -> list[dict[str, Any]]:
    """`count` requests web -> api, one per second, with the given durations."""
    rows = []
    for i in range(count):
        shared = {"trace_id": f"{tag}{i}", "start": at(minute + i / 60), "status": status}
        rows.append(
            {
                **shared,
                "span_id": "a",
                "parent_id": None,
                "service": "web",
                "operation": "GET /",
                "duration_us": 0,
            }
            | {"duration_us": caller_ms * 1000}
        )
        rows.append(
            {**shared, "span_id": "b", "parent_id": "a", "service": "api", "operation": "list {id}"}
            | {"duration_us": callee_ms * 1000}
        )
    return rows


def logs(
    service: str | None, message: str, minutes: Iterable[float], **columns: Any
) -> list[dict[str, Any]]:
    """One log line at each of the minutes."""
    return [{"time": at(m), "service": service, "message": message, **columns} for m in minutes]

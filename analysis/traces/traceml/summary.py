"""TraceML's final_summary.json: its own verdict, and the means of every rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.traceml.session import TRACED, TraceMLSession, TraceMLVerdict

MAX_BYTES = 32 << 20
MAX_RANKS = 20_000
COLUMNS = {
    "input": "input_wait_ms",
    "h2d": "h2d_ms",
    "forward": "forward_ms",
    "backward": "backward_ms",
    "optimizer": "optimizer_ms",
    TRACED: "traced_step_time_ms",
}
"""Phase -> the summary's name for it."""


def read_summary(path: Path) -> TraceMLSession:
    """The session of a summary. Raises EvidenceError when it is none."""
    value = _content(path)
    section = _dict(value, "step_time")
    verdict = _verdict(_dict(value, "primary_diagnosis"), section)
    if verdict is None and not section:
        raise EvidenceError(path.name, "is no summary of TraceML")
    rows = {r: m for r, m in _rows(section).items() if _number(m.get(COLUMNS[TRACED])) > 0}
    ranks = tuple(sorted(rows))
    ms = {
        phase: np.array([[_number(rows[r].get(name))] for r in ranks], dtype=np.float64)
        for phase, name in COLUMNS.items()
    }
    steps = _number(_dict(_dict(section, "global"), "window").get("steps_analyzed"))
    return TraceMLSession(
        file=str(path),
        ranks=ranks,
        ms=ms if ranks else None,
        steps=int(min(steps, 1e9)),
        verdict=verdict,
        gpu_clock=bool(ranks) and all(_number(rows[r].get("step_time_gpu_ms")) > 0 for r in ranks),
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # Read one byte too many, to notice a file that is too large.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise EvidenceError(path.name, f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise EvidenceError(path.name, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(path.name, "is no JSON") from error
    if not isinstance(value, dict):
        raise EvidenceError(path.name, "is no summary of TraceML")
    return value


def _rows(section: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """rank -> its means."""
    groups = _dict(section, "groups")
    # Groups by anything else are no ranks.
    if groups.get("by") not in (None, "global_rank"):
        return {}
    rows: dict[int, dict[str, Any]] = {}
    for name, row in _dict(groups, "rows").items():
        if (
            name.isascii()
            and name.isdigit()
            and len(name) < 8
            and isinstance(row, dict)
            and len(rows) < MAX_RANKS
        ):
            rows[int(name)] = _dict(row, "metrics")
    return rows


def _verdict(primary: dict[str, Any], section: dict[str, Any]) -> TraceMLVerdict | None:
    kind = primary.get("kind")
    if not isinstance(kind, str):
        return None
    issues = _list(section, "issues")
    issue: dict[str, Any] = next(
        (i for i in issues if isinstance(i, dict) and i.get("kind") == kind), {}
    )
    return TraceMLVerdict(
        kind=kind[:60],
        severity=str(primary.get("severity"))[:10],
        summary=str(primary.get("summary"))[:300],
        action=str(primary.get("action"))[:300],
        # `type`, not isinstance: True is no rank.
        ranks=tuple(r for r in _list(issue, "ranks")[:64] if type(r) is int and 0 <= r < 10**7),
    )


def _list(value: dict[str, Any], key: str) -> list[Any]:
    child = value.get(key)
    return child if isinstance(child, list) else []


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    child = value.get(key)
    return child if isinstance(child, dict) else {}


def _number(value: Any) -> float:
    """A number of at least 0; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0

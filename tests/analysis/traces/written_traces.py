"""Small Kineto traces written by the tests: a job of some ranks whose times are known to the
nanosecond."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case, read_case

BASE_NS = 1_790_857_026_000_000_000
STEP_US, DATA_US, FORWARD_US, REDUCE_US = 10_000.0, 500.0, 2_000.0, 1_000.0
"""One step: data, forward, backward until the all_reduce is done, optimizer."""


def event(
    name: str, ts: float, dur: float, *, cat: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    """One interval, in microseconds."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def document(
    events: list[dict[str, Any]], rank: int | None = 0, world: int = 4, host: str = "node-a"
) -> dict[str, Any]:
    """A trace document as the profiler writes it."""
    info = (
        {}
        if rank is None
        else {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world}}
    )
    return {
        "schemaVersion": 1,
        **info,
        "host_name": host,
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": events,
    }


def job(
    *,
    ranks: int = 4,
    steps: int = 8,
    late_us: Mapping[tuple[int, int], float] | None = None,
    data_us: float = DATA_US,
    late_in: str = "aten::mm",
    clock_us: Mapping[int, float] | None = None,
) -> list[list[dict[str, Any]]]:
    """Events of each rank. `late_us[rank, step]` is extra time in the rank's forward pass, for
    which all wait."""
    late, clock = late_us or {}, clock_us or {}
    traces: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    at = 1_000.0
    for step in range(steps):
        extra = [late.get((rank, step), 0.0) for rank in range(ranks)]
        arrive = [at + data_us + FORWARD_US + e + rank for rank, e in enumerate(extra)]
        done = max(arrive) + REDUCE_US
        end = max(done + 200.0, at + STEP_US)
        for rank, events in enumerate(traces):
            shift = clock.get(rank, 0.0)
            ahead = at + data_us + shift
            forward = FORWARD_US + extra[rank]
            events += [
                event(f"ProfilerStep#{step}", at + shift, end - at, cat="user_annotation"),
                event(
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                    at + shift,
                    data_us,
                    cat="user_annotation",
                ),
                event("## forward ##", ahead, forward, cat="user_annotation"),
                event(late_in, ahead, forward),
                event(
                    "## backward ##",
                    ahead + forward,
                    done - arrive[rank] + rank,
                    cat="user_annotation",
                ),
                event("Optimizer.step#SGD.step", done + shift, 100.0, cat="user_annotation"),
                event(
                    "gloo:all_reduce",
                    arrive[rank] + shift,
                    done - arrive[rank],
                    cat="user_annotation",
                    tid=2,
                    **{"Input Dims": [[64]]},
                ),
            ]
        at = end
    return traces


def write_trace(path: Path, content: dict[str, Any] | list[Any] | bytes) -> Path:
    """Write a trace; gzip where the name says so."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def case_of(
    folder: Path, traces: list[list[dict[str, Any]]], hosts: list[str] | None = None
) -> Case:
    """A case folder with one trace per rank."""
    for rank, events in enumerate(traces):
        host = hosts[rank] if hosts else "node-a"
        write_trace(
            folder / "traces" / f"rank{rank}.pt.trace.json.gz",
            document(events, rank, len(traces), host),
        )
    return empty_case(folder)


def empty_case(folder: Path) -> Case:
    """A case of a training job, with whatever lies under traces/."""
    folder.mkdir(parents=True, exist_ok=True)
    alert = {
        "source": "pagerduty",
        "title": "slow",
        "started_at": "2026-01-01T00:00:00Z",
        "labels": {"job_name": "job-1"},
    }
    (folder / "alert.json").write_text(json.dumps(alert))
    return read_case(folder)

"""Telemetry databases with TraceML's tables, written small."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

PREFIX = "_traceml_internal:"
Phases = dict[str, float]


def write_telemetry(
    path: Path,
    phases: Callable[[int, int], Phases],
    *,
    ranks: int = 4,
    steps: int = 60,
    strategy: str = "ddp",
    gpu: bool = False,
    peak: Callable[[int, int], float] | None = None,
    total: float = 80e9,
) -> Path:
    """A database; `phases(rank, step)` gives ms by TraceML's event name, `peak(rank, step)`
    allocated bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE runtime_environment (id INTEGER PRIMARY KEY, training_strategy TEXT)"
        )
        db.execute(
            "CREATE TABLE step_time_samples (id INTEGER PRIMARY KEY, rank, global_rank, step, "
            "events_json TEXT)"
        )
        db.execute(
            "CREATE TABLE step_memory_samples (id INTEGER PRIMARY KEY, rank, global_rank, step, "
            "peak_alloc_bytes, "
            "peak_reserved_bytes)"
        )
        db.execute(
            "CREATE TABLE process_samples (id INTEGER PRIMARY KEY, rank, global_rank, "
            "gpu_mem_reserved_bytes, "
            "gpu_mem_total_bytes)"
        )
        db.execute("INSERT INTO runtime_environment (training_strategy) VALUES (?)", (strategy,))
        for step in range(steps):
            for rank in range(ranks):
                row = (rank, rank, step, _events(phases(rank, step), gpu))
                db.execute(
                    "INSERT INTO step_time_samples (rank, global_rank, step, events_json) VALUES "
                    "(?,?,?,?)",
                    row,
                )
                if peak is not None:
                    held = peak(rank, step)
                    db.execute(
                        "INSERT INTO step_memory_samples (rank, global_rank, step, "
                        "peak_alloc_bytes, "
                        "peak_reserved_bytes) VALUES (?,?,?,?,?)",
                        (rank, rank, step, held, held),
                    )
        for rank in range(ranks if peak is not None else 0):
            db.execute(
                "INSERT INTO process_samples (rank, global_rank, gpu_mem_reserved_bytes, "
                "gpu_mem_total_bytes) "
                "VALUES (?,?,?,?)",
                (rank, rank, 0.0, total),
            )
    return path


def _events(phases: Phases, gpu: bool) -> str:
    return json.dumps(
        {
            PREFIX + name: {
                "cuda:0" if gpu else "cpu": {
                    "cpu_ms": ms,
                    "gpu_ms": ms if gpu else None,
                    "is_gpu": gpu,
                    "n_calls": 1,
                }
            }
            for name, ms in phases.items()
        }
    )


def usual(backward: float = 90.0, **more: float) -> Phases:
    """A step of 100 ms."""
    found = {
        "dataloader_next": 1.0,
        "forward_time": 5.0,
        "backward_time": backward,
        "optimizer_step": 2.0,
    }
    return found | {"step_time": 99.0} | more

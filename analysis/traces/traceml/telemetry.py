"""TraceML's telemetry database: SQLite, one row per rank and step. Read as a hostile file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.errors import EvidenceError
from analysis.traces.reading.hostile_sqlite import Database
from analysis.traces.traceml.session import PHASES, TRACED, Floats, RankMemory, Session

MAX_SAMPLES = 200_000
"""Rows of one table: 200 ranks of 1,000 steps; TraceML keeps a window of the last steps."""
MAX_RANKS = 20_000
MAX_CELLS = 4_000_000
"""Ranks times common steps."""
EVENTS = {
    "dataloader_next": "input",
    "h2d_time": "h2d",
    "forward_time": "forward",
    "backward_time": "backward",
    "optimizer_step": "optimizer",
    "step_time": TRACED,
}
"""TraceML's event, without its prefix "_traceml_internal:" -> phase."""
Samples = dict[int, dict[int, dict[str, float]]]


def read_telemetry(path: Path) -> Session:
    """The session of a database. Raises EvidenceError when it is no readable SQLite file, or none
    of TraceML's."""
    with Database(path) as database:
        if "step_time_samples" not in database.tables:
            raise EvidenceError(path.name, "is no telemetry of TraceML")
        rows = database.texts(
            "step_time_samples", ("global_rank", "rank", "step", "events_json"), MAX_SAMPLES + 1
        )
        samples, on_gpu = _samples(rows[:MAX_SAMPLES])
        ranks, steps, ms = _common(samples)
        return Session(
            file=str(path),
            ranks=ranks,
            ms=ms,
            steps=len(steps),
            strategy=_strategy(database),
            gpu_clock=on_gpu,
            memory=_memory(database),
            cut=len(rows) > MAX_SAMPLES,
        )


def _samples(rows: list[tuple[str, ...]]) -> tuple[Samples, bool]:
    """rank -> step -> phase -> ms, and whether the accelerator's clock timed them."""
    samples: Samples = {}
    on_gpu = bool(rows)
    for global_rank, local_rank, step, events in rows:
        rank, number = _whole(global_rank or local_rank), _whole(step)
        if rank is None or number is None or (rank not in samples and len(samples) >= MAX_RANKS):
            continue
        phases, gpu = _phases(events)
        if TRACED in phases:
            samples.setdefault(rank, {})[number] = phases
            on_gpu &= gpu
    return samples, on_gpu and bool(samples)


def _phases(events: str) -> tuple[dict[str, float], bool]:
    try:
        named = json.loads(events)
    except (ValueError, RecursionError):
        return {}, False
    phases: dict[str, float] = {}
    gpu = True
    for name, devices in named.items() if isinstance(named, dict) else ():
        phase = EVENTS.get(name.rpartition(":")[2])
        if phase is None or not isinstance(devices, dict):
            continue
        for clocks in devices.values():
            found = _clock(clocks)
            if found is not None:
                phases[phase] = phases.get(phase, 0.0) + found[0]
                gpu &= found[1] or phase == "input"
    return phases, gpu


def _clock(clocks: Any) -> tuple[float, bool] | None:
    """(ms, on the accelerator's clock) of one event."""
    if not isinstance(clocks, dict):
        return None
    gpu = _ms(clocks.get("gpu_ms")) if clocks.get("is_gpu") else None
    cpu = _ms(clocks.get("cpu_ms"))
    if gpu is not None:
        return gpu, True
    return (cpu, False) if cpu is not None else None


def _common(samples: Samples) -> tuple[tuple[int, ...], list[int], Mapping[str, Floats] | None]:
    """Ranks, steps that all have, and the table of each phase."""
    ranks = tuple(sorted(samples))
    steps = sorted(set.intersection(*(set(samples[r]) for r in ranks))) if ranks else []
    steps = steps[-max(1, MAX_CELLS // max(len(ranks), 1)) :]
    if not steps:
        return ranks, [], None
    tables = {
        phase: np.array(
            [[samples[r][s].get(phase, 0.0) for s in steps] for r in ranks], dtype=np.float64
        )
        for phase in (*PHASES, TRACED)
    }
    return ranks, steps, tables


def _strategy(database: Database) -> str:
    rows = database.texts("runtime_environment", ("training_strategy",), 1)
    return rows[0][0].strip().lower()[:40] if rows else ""


def _memory(database: Database) -> tuple[RankMemory, ...]:
    """By rank, where an accelerator's memory was measured."""
    allocated: dict[int, dict[int, float]] = {}
    reserved: dict[int, float] = {}
    total: dict[int, float] = {}
    columns = ("global_rank", "rank", "step", "peak_alloc_bytes", "peak_reserved_bytes")
    for global_rank, local_rank, step, alloc, reserve in database.texts(
        "step_memory_samples", columns, MAX_SAMPLES
    ):
        rank, number, held = _whole(global_rank or local_rank), _whole(step), _bytes(alloc)
        if rank is not None and number is not None and held:
            allocated.setdefault(rank, {})[number] = held
            reserved[rank] = max(reserved.get(rank, 0.0), _bytes(reserve))
    devices = ("global_rank", "rank", "gpu_mem_reserved_bytes", "gpu_mem_total_bytes")
    for row in database.texts("process_samples", devices, MAX_SAMPLES):
        rank, reserve, device = _whole(row[0] or row[1]), row[2], row[3]
        if rank is not None and _bytes(device):
            reserved[rank] = max(reserved.get(rank, 0.0), _bytes(reserve))
            total[rank] = max(total.get(rank, 0.0), _bytes(device))
    ranks = sorted(allocated.keys() | total.keys())[:MAX_RANKS]
    return tuple(
        RankMemory(
            rank=r,
            peak_allocated=np.array(
                [v for _, v in sorted(allocated.get(r, {}).items())], dtype=np.float64
            ),
            reserved=reserved.get(r, 0.0),
            total=total.get(r, 0.0),
        )
        for r in ranks
    )


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _ms(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def _bytes(text: str) -> float:
    """Bytes; 0 where the text is no number of bytes."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and 0 <= value < 1e18 else 0.0

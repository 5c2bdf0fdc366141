"""TraceML's telemetry database: SQLite, one row per rank and step. Read as a hostile file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.reading.hostile_sqlite import Database
from faultline.analysis.traces.traceml.session import (
    PHASES,
    TRACED,
    Floats,
    RankMemory,
    TraceMLSession,
)

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


def read_telemetry(path: Path) -> TraceMLSession:
    """The session of a database. Raises EvidenceError when it is no readable SQLite file, or none
    of TraceML's."""
    with Database(path) as database:
        if "step_time_samples" not in database.tables:
            raise EvidenceError(path.name, "is no telemetry of TraceML")
        # One row too many tells that there are more samples.
        rows = database.texts(
            "step_time_samples", ("global_rank", "rank", "step", "events_json"), MAX_SAMPLES + 1
        )
        samples, on_gpu = _samples(rows[:MAX_SAMPLES])
        ranks, steps, ms = _common(samples)
        return TraceMLSession(
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
    on_gpu = True
    for global_rank, local_rank, step, events in rows:
        # Where the database has no global rank, the local one stands for it.
        rank = _whole(global_rank or local_rank)
        number = _whole(step)
        if rank is None or number is None:
            continue
        if rank not in samples and len(samples) >= MAX_RANKS:
            continue
        phases, gpu = _phases(events)
        if TRACED in phases:
            samples.setdefault(rank, {})[number] = phases
            on_gpu = on_gpu and gpu
    return samples, on_gpu and bool(samples)


def _phases(events: str) -> tuple[dict[str, float], bool]:
    """phase -> ms of one step, and whether the accelerator's clock timed all but the input."""
    try:
        named = json.loads(events)
    except (ValueError, RecursionError):
        return {}, False
    phases: dict[str, float] = {}
    on_gpu = True
    if not isinstance(named, dict):
        return phases, on_gpu
    for name, devices in named.items():
        phase = EVENTS.get(name.rpartition(":")[2])
        if phase is None or not isinstance(devices, dict):
            continue
        for clocks in devices.values():
            clock = _clock(clocks)
            if clock is None:
                continue
            ms, by_gpu = clock
            phases[phase] = phases.get(phase, 0.0) + ms
            # Loading happens on the host: only its clock can time it.
            if phase != "input" and not by_gpu:
                on_gpu = False
    return phases, on_gpu


def _clock(clocks: Any) -> tuple[float, bool] | None:
    """(ms, on the accelerator's clock) of one event."""
    if not isinstance(clocks, dict):
        return None
    if clocks.get("is_gpu"):
        gpu_ms = _ms(clocks.get("gpu_ms"))
        if gpu_ms is not None:
            return gpu_ms, True
    cpu_ms = _ms(clocks.get("cpu_ms"))
    if cpu_ms is None:
        return None
    return cpu_ms, False


def _common(samples: Samples) -> tuple[tuple[int, ...], list[int], Mapping[str, Floats] | None]:
    """Ranks, steps that all have, and the table of each phase."""
    ranks = tuple(sorted(samples))
    if not ranks:
        return ranks, [], None
    shared = set.intersection(*(set(samples[rank]) for rank in ranks))
    # The last steps tell more of the job as it is now.
    most = max(1, MAX_CELLS // len(ranks))
    steps = sorted(shared)[-most:]
    if not steps:
        return ranks, [], None
    tables = {}
    for phase in (*PHASES, TRACED):
        table = np.zeros((len(ranks), len(steps)), dtype=np.float64)
        for row, rank in enumerate(ranks):
            by_step = samples[rank]
            table[row] = [by_step[step].get(phase, 0.0) for step in steps]
        tables[phase] = table
    return ranks, steps, tables


def _strategy(database: Database) -> str:
    rows = database.texts("runtime_environment", ("training_strategy",), 1)
    return rows[0][0].strip().lower()[:40] if rows else ""


def _memory(database: Database) -> tuple[RankMemory, ...]:
    """By rank, where an accelerator's memory was measured."""
    peaks: dict[int, dict[int, float]] = {}
    reserved: dict[int, float] = {}
    total: dict[int, float] = {}
    columns = ("global_rank", "rank", "step", "peak_alloc_bytes", "peak_reserved_bytes")
    for row in database.texts("step_memory_samples", columns, MAX_SAMPLES):
        rank, step = _whole(row[0] or row[1]), _whole(row[2])
        peak = _bytes(row[3])
        if rank is not None and step is not None and peak:
            peaks.setdefault(rank, {})[step] = peak
            reserved[rank] = max(reserved.get(rank, 0.0), _bytes(row[4]))
    devices = ("global_rank", "rank", "gpu_mem_reserved_bytes", "gpu_mem_total_bytes")
    for row in database.texts("process_samples", devices, MAX_SAMPLES):
        rank = _whole(row[0] or row[1])
        device = _bytes(row[3])
        if rank is not None and device:
            reserved[rank] = max(reserved.get(rank, 0.0), _bytes(row[2]))
            total[rank] = max(total.get(rank, 0.0), device)
    rank_memory = []
    for rank in sorted(peaks.keys() | total.keys())[:MAX_RANKS]:
        by_step = sorted(peaks.get(rank, {}).items())
        rank_memory.append(
            RankMemory(
                rank=rank,
                peak_allocated=np.array([peak for _, peak in by_step], dtype=np.float64),
                reserved=reserved.get(rank, 0.0),
                total=total.get(rank, 0.0),
            )
        )
    return tuple(rank_memory)


def _whole(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    return None


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
    if not 0 <= value < 1e18:
        return 0.0
    return value

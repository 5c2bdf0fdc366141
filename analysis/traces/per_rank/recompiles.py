"""Compiled graphs that a rank ran, and compilations inside its steps.

`Torch-Compiled Region: f/N` is the N-th compilation of frame f: N grows with every set of
assumptions (shapes, flags) that did not hold. Compilations themselves show as "... (dynamo_timed)"
ranges. At its limit TorchDynamo gives a frame up: from then on it is looked up ("TorchDynamo Cache
Lookup") and runs uncompiled.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, INTS, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

MAX_FRAMES = 64
_REGION = re.compile(
    r"^(?:##\s*)?(?:Torch-Compiled Region|CompiledFunction|Compiled Region):? ?(\d{1,9})/(\d{1,9})"
)
_COMPILING = re.compile(
    r"^(?:_compile\.compile_inner|entire_frame_compile|OutputGraph\.call_user_compiler|compile_fx"
    r"(?:_inner)?|"
    r"_compile_fx_inner|backend_compile|inductor_compile|convert_frame(?:_assert)?"
    r"|async_compile\.wait)\b.*",
)
_COMPILE_ID = re.compile(r"compile_id=(\d{1,9})/(\d{1,9})")
LOOKUP = "TorchDynamo Cache Lookup"
_COMPILE_RANGES = (
    re.compile(r"^_compile\.compile_inner\b"),
    re.compile(r"^entire_frame_compile\b"),
)
"""Ranges of which each compilation has one, by version of PyTorch."""


@dataclass(frozen=True)
class CompiledFrame:
    """One frame of code and the versions of it that ran in the window."""

    frame: int
    versions: int
    """Distinct ones."""
    highest: int
    """The highest N: this many compilations were discarded before."""
    first_seen: tuple[int, ...]
    """Step in which each version first ran (-1 outside steps), by N; at most 16."""


@dataclass(frozen=True)
class Recompiles:
    """Compiled code in the window's steps."""

    frames: tuple[CompiledFrame, ...]
    """Those with the most versions first."""
    compilations: int
    """Compilations that ran in the window."""
    steps_compiling: int
    """Steps in which one ran."""
    compiling_ns: int
    uncompiled_steps: int
    """Steps that look compiled code up, and neither run nor compile any."""
    events: tuple[EventReference, ...]


def recompiles(trace: TraceColumns, window: StepWindow | None = None) -> Recompiles:
    """The rank's compiled frames and its compilations."""
    window = window or window_of(trace)
    here = window.holds(trace)
    regions = _rows(trace, _REGION)
    regions = regions[here[regions]]
    ids = trace.rows_named(lambda name: _COMPILE_ID.search(name) is not None)
    compiling = _rows(trace, _COMPILING)
    compiling = compiling[here[compiling]]
    # One compilation shows as several kinds of ranges: count a single kind.
    counted = next(
        (matches for mark in _COMPILE_RANGES if len(matches := _matching(trace, compiling, mark))),
        compiling,
    )
    in_step = window.steps.of(trace.ts[counted])
    # Traces from before 2024 name no compiled regions: there nothing is known.
    ran = np.concatenate((regions, compiling))
    lookups = trace.rows_named(lambda name: name == LOOKUP)
    if not len(lookups) or "baseTimeNanoseconds" not in trace.header:
        uncompiled = 0
    else:
        lookup_steps = np.unique(window.steps.of(trace.ts[lookups]))
        uncompiled = int(
            (~np.isin(lookup_steps[lookup_steps >= 0], window.steps.of(trace.ts[ran]))).sum()
        )
    return Recompiles(
        frames=_frames(trace, _by_start(trace, regions, ids[here[ids]]), window),
        compilations=len(counted),
        steps_compiling=len(np.unique(in_step[in_step >= 0])),
        compiling_ns=window.time_in(trace.ts[compiling], trace.end[compiling]),
        uncompiled_steps=uncompiled,
        events=longest(
            trace, counted if len(counted) else _first_per_name(trace, regions), window.steps
        ),
    )


def _rows(trace: TraceColumns, pattern: re.Pattern[str]) -> Int64:
    host = ~trace.in_category("gpu_user_annotation")
    rows = trace.rows_named(lambda name: pattern.match(name) is not None)
    return np.asarray(rows[host[rows]], dtype=np.int64)


def _by_start(trace: TraceColumns, *rows: Int64) -> Int64:
    joined = np.concatenate(rows)
    return np.asarray(joined[np.argsort(trace.ts[joined], kind="stable")], dtype=np.int64)


def _matching(trace: TraceColumns, rows: Int64, pattern: re.Pattern[str]) -> Int64:
    keep = [pattern.match(trace.name_of(row)) is not None for row in rows.tolist()]
    return np.asarray(rows[np.asarray(keep, dtype=np.bool_)], dtype=np.int64)


def _first_per_name(trace: TraceColumns, rows: Int64) -> Int64:
    _, first = np.unique(trace.name[rows], return_index=True)
    return np.asarray(rows[first], dtype=np.int64)


def _frames(trace: TraceColumns, regions: Int64, window: StepWindow) -> tuple[CompiledFrame, ...]:
    first = _first_per_name(trace, regions)
    versions_by_frame: dict[int, dict[int, int]] = defaultdict(dict)
    for row, step in zip(first.tolist(), window.steps.of(trace.ts[first]).tolist(), strict=True):
        # A version shows where its region runs, or by the id of its compilation.
        match = _REGION.match(trace.name_of(row)) or _COMPILE_ID.search(trace.name_of(row))
        if match:
            versions_by_frame[int(match[1])].setdefault(int(match[2]), step)
    frames = [
        CompiledFrame(
            frame, len(versions), max(versions), tuple(versions[n] for n in sorted(versions))[:16]
        )
        for frame, versions in versions_by_frame.items()
    ]
    return tuple(sorted(frames, key=lambda f: (-f.versions, f.frame))[:MAX_FRAMES])


TABLE = RowTable(INT("frame", "versions", "highest"), INTS(first_seen_in_step="first_seen"))


def rows(trace: TraceColumns) -> Rows:
    """Compiled frames, as JSON rows."""
    return TABLE.rows(recompiles(trace).frames)

"""Two runs (or two steps of one) compared name by name: counts and times of operators and kernels.

Each trace becomes a side of a few hundred KB, so that many ranks can be joined into one; a sample
is one step of one rank. The table is HTA's `TraceDiff.compare_traces` with means and medians per
step, so that runs of different lengths compare. Whether a run got slower:
analysis/traces/comparison/trace_regressions.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import device_work
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import (
    BOOL,
    INT,
    TEXT,
    Column,
    Rows,
    RowTable,
    rounded,
)
from faultline.analysis.traces.columns.steps import StepColumns, is_step, steps_of
from faultline.analysis.traces.per_rank.call_stacks import call_stacks
from faultline.analysis.traces.per_rank.temporal import TemporalBreakdown, breakdowns

Change = Literal["added", "deleted", "increased", "decreased", "unchanged"]
"""As HTA's `ops_diff`; by the number of calls."""
Devices = Literal["all", "host", "device"]
STEP = "ProfilerStep"
"""Stands for the profiler's steps of all numbers."""
MEASURES = (
    "step time",
    "computation",
    "communication",
    "exposed communication",
    "copies and fills",
    "idle device",
)
_BRACKET = re.compile("[<(]")
OPENERS = {">": "<", ")": "("}
MAX_NAME = 20_000
"""Longest name that is shortened; longer ones stand as they are."""


@dataclass(frozen=True)
class Side:
    """One or more traces, reduced to what a comparison needs. Entries stand for one name in one
    sample."""

    names: tuple[str, ...]
    on_device: Bool
    """Of each name; a name on host and device is two."""
    name: Int64
    """Of each entry, its place in `names`."""
    sample: Int64
    count: Int64
    total_ns: Int64
    """Summed lengths; an operator's contain those of the operators it calls."""
    self_ns: Int64
    """The same without what it calls; equal for kernels."""
    samples: tuple[tuple[int, int], ...]
    """(rank, step); the step is -1 where a trace has none and counts as a whole."""
    measures: NDArray[np.int64]
    """One row per sample, one column per name of MEASURES; ns. Work on the device is that within
    the step's time."""
    peak_bytes: tuple[int, ...]
    """Highest allocated memory of a device by trace; -1 where not recorded."""
    run: Int64
    """Of each sample, which run of the job it is of, from 0."""

    def of_run(self, number: int) -> Side:
        """The same as this run's."""
        return replace(self, run=np.full(len(self.samples), number, dtype=np.int64))


@dataclass(frozen=True)
class Times:
    """Of one name on one side."""

    count: int
    total_ns: int
    count_per_step: float
    """Mean over the samples."""
    total_ns_per_step: float
    """Mean."""
    self_ns_median: float
    """Median of the own time per sample; samples without the name count as 0."""


@dataclass(frozen=True)
class NameDifference:
    """One operator or kernel."""

    name: str
    on_device: bool
    control: Times
    test: Times
    change: Change

    @property
    def growth_ns(self) -> float:
        """Of the own time per step."""
        return self.test.self_ns_median - self.control.self_ns_median


def side_of(
    trace: TraceColumns, steps: Collection[int] | None = None, *, short_names: bool = False
) -> Side:
    """One trace: all its steps, or those with these numbers. Rows outside all steps are left out,
    work on a device counts for the step that launched it. Raises EvidenceError where it has none of
    the steps asked for.
    """
    windows = _windows(trace, steps)
    stacks = call_stacks(trace)
    rows = np.flatnonzero(stacks.inside)
    host = np.where(trace.on_device[rows] & (stacks.parent[rows] >= 0), stacks.parent[rows], rows)
    sample = windows.position_of(trace.ts[host])
    rows, sample = rows[sample >= 0], sample[sample >= 0]
    names, which = _names(trace, short_names)
    # Two keys per name: even on the host, odd on the device.
    key = which[trace.name[rows]] * 2 + trace.on_device[rows]
    used, place = np.unique(key, return_inverse=True)
    pair, entry = np.unique(place * len(windows) + sample, return_inverse=True)
    total, self_ns = np.zeros((2, len(pair)), dtype=np.int64)
    np.add.at(total, entry, trace.dur[rows])
    np.add.at(self_ns, entry, stacks.self_ns[rows])
    # Device type 0 is the CPU; only accelerators' memory is compared.
    allocated = trace.memory.allocated[trace.memory.device_type != 0]
    return Side(
        tuple(names[k // 2] for k in used.tolist()),
        (used % 2).astype(np.bool_),
        pair // len(windows),
        pair % len(windows),
        np.bincount(entry, minlength=len(pair)).astype(np.int64),
        total,
        self_ns,
        tuple((trace.rank, number) for number in windows.number.tolist()),
        _measures(trace, windows),
        (int(allocated.max(initial=-1)),),
        np.zeros(len(windows), dtype=np.int64),
    )


def joined(sides: Sequence[Side]) -> Side:
    """Several ranks, or runs, as one side. Raises ValueError for none."""
    if not sides:
        raise ValueError("no sides to join")
    place_by_key: dict[tuple[str, bool], int] = {}
    parts, before = [], 0
    for side in sides:
        keys = zip(side.names, side.on_device.tolist(), strict=True)
        place = np.asarray(
            [place_by_key.setdefault(key, len(place_by_key)) for key in keys], dtype=np.int64
        )
        parts.append(replace(side, name=place[side.name], sample=side.sample + before))
        before += len(side.samples)
    columns = ("name", "sample", "count", "total_ns", "self_ns", "measures", "run")
    whole: dict[str, Any] = {
        c: np.concatenate([getattr(part, c) for part in parts]) for c in columns
    }
    return Side(
        names=tuple(name for name, _ in place_by_key),
        on_device=np.asarray([device for _, device in place_by_key], dtype=np.bool_),
        samples=tuple(sample for side in sides for sample in side.samples),
        peak_bytes=tuple(peak for side in sides for peak in side.peak_bytes),
        **whole,
    )


@dataclass(frozen=True)
class TraceDiff:
    """Two sides with one list of names."""

    control: Side
    test: Side

    @cached_property
    def differences(self) -> tuple[NameDifference, ...]:
        """Every name of either side, the most changed own time first."""
        both = joined([self.control, self.test])
        here = both.sample < len(self.control.samples)
        control = _times(both, here, len(self.control.samples))
        test = _times(both, ~here, len(self.test.samples))
        table = [
            NameDifference(
                name,
                device,
                a,
                b,
                _change(a.count, len(self.control.samples), b.count, len(self.test.samples)),
            )
            for name, device, a, b in zip(
                both.names, both.on_device.tolist(), control, test, strict=True
            )
        ]
        return tuple(sorted(table, key=lambda d: (-abs(d.growth_ns), d.name, d.on_device)))

    def of(self, devices: Devices = "all") -> list[NameDifference]:
        """Those on the host, on the device, or all."""
        return [
            d for d in self.differences if devices == "all" or d.on_device == (devices == "device")
        ]


def compared(control: Side, test: Side) -> TraceDiff:
    """Both sides; `test` is the newer one."""
    return TraceDiff(control, test)


def _columns_of(side: str) -> tuple[Column, ...]:
    columns = (
        *INT(calls="count"),
        *rounded(3, calls_per_step="count_per_step"),
        *INT("total_ns"),
        *rounded(0, total_per_step_ns="total_ns_per_step", own_per_step_ns="self_ns_median"),
    )
    return tuple(
        column._replace(name=f"{side}_{column.name}", path=f"{side}.{column.path}")
        for column in columns
    )


DIFFERENCES = RowTable(
    TEXT("name"),
    BOOL("on_device"),
    TEXT("change"),
    rounded(0, "growth_ns"),
    _columns_of("control"),
    _columns_of("test"),
)


def diff_rows(diff: TraceDiff, devices: Devices = "all") -> Rows:
    """The differences as JSON values, the most changed first."""
    return DIFFERENCES.rows(diff.of(devices))


def short_name(name: str) -> str:
    """A C++ function's name without arguments, template arguments and return type; other names as
    they are.

    HTA's `shorten_name`, without the double colons that an anonymous namespace leaves.
    """
    if (
        name.startswith(("Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"))
        or len(name) > MAX_NAME
        or not _BRACKET.search(name)
    ):
        return name
    characters: list[str] = []
    opened: list[tuple[str, int]] = []
    waiting = {"<": 0, "(": 0}
    # Drop arrows: the `>` of `->` closes no template.
    for character in name.replace("->", ""):
        opener = OPENERS.get(character, "")
        if waiting.get(opener):
            last = ""
            while last != opener:
                last, place = opened.pop()
                waiting[last] -= 1
            del characters[place:]
            continue
        if character in waiting:
            opened.append((character, len(characters)))
            waiting[character] += 1
        characters.append(character)
    # What precedes the last space is the return type.
    return "".join(characters).split(" ")[-1].replace("::::", "::") or name


def _windows(trace: TraceColumns, steps: Collection[int] | None) -> StepColumns:
    windows = steps_of(trace)
    if steps is not None:
        chosen = windows.only(set(steps))
        if not len(chosen):
            raise EvidenceError(
                trace.file, f"has none of the steps {', '.join(map(str, sorted(steps)[:10]))}"
            )
        return chosen
    if len(windows):
        return windows
    begin = int(trace.ts.min()) if len(trace) else 0
    end = int(trace.end.max()) if len(trace) else 0
    # Windows are half open, and an event may start at the very end: hence the + 1.
    number, start, stop = np.asarray([[-1], [begin], [end + 1]], dtype=np.int64)
    return StepColumns(number, start, stop)


def _names(trace: TraceColumns, short: bool) -> tuple[list[str], Int64]:
    """The names as compared, and the place of each of the trace's names among them."""
    place_by_name: dict[str, int] = {}
    written = (
        STEP if is_step(name) else short_name(name) if short else name for name in trace.names
    )
    place = np.asarray(
        [place_by_name.setdefault(name, len(place_by_name)) for name in written], dtype=np.int64
    )
    return list(place_by_name), place


def _measures(trace: TraceColumns, steps: StepColumns) -> NDArray[np.int64]:
    windows = list(zip(steps.start.tolist(), steps.end.tolist(), strict=True))
    work = device_work(trace)
    parts: Sequence[TemporalBreakdown | None] = (
        breakdowns(work, windows) if len(work) else [None] * len(windows)
    )
    table = [
        (
            end - begin,
            b.compute_ns,
            b.communication_ns,
            b.exposed_communication_ns,
            b.memory_ns,
            b.idle_ns,
        )
        if b
        else (end - begin, 0, 0, 0, 0, 0)
        for (begin, end), b in zip(windows, parts, strict=True)
    ]
    return np.asarray(table, dtype=np.int64).reshape(-1, len(MEASURES))


def _times(side: Side, keep: Bool, samples: int) -> list[Times]:
    name, count, total, self_ns = (
        side.name[keep],
        side.count[keep],
        side.total_ns[keep],
        side.self_ns[keep],
    )
    counts, totals = np.zeros((2, len(side.names)), dtype=np.int64)
    np.add.at(counts, name, count)
    np.add.at(totals, name, total)
    medians = _medians(name, self_ns, len(side.names), samples)
    return [
        Times(c, t, c / samples, t / samples, m)
        for c, t, m in zip(counts.tolist(), totals.tolist(), medians.tolist(), strict=True)
    ]


def _medians(name: Int64, values: Int64, names: int, samples: int) -> NDArray[np.float64]:
    """Median of each name's values, with a zero for every sample in which it is missing. Values are
    not negative."""
    order = np.lexsort((values, name))
    values, present = values[order], np.bincount(name, minlength=names)
    first, zeros = np.cumsum(present) - present, samples - present

    def at(place: int) -> NDArray[np.int64]:
        # Sorted, the zeros of the samples without the name come first.
        inside = place >= zeros
        place_values = np.zeros(names, dtype=np.int64)
        place_values[inside] = values[(first + place - zeros)[inside]]
        return place_values

    return np.asarray((at((samples - 1) // 2) + at(samples // 2)) / 2)


def _change(control: int, control_samples: int, test: int, test_samples: int) -> Change:
    """Calls per sample, compared without rounding."""
    # Cross-multiply: calls per sample then compare exactly.
    before, after = control * test_samples, test * control_samples
    if not before:
        return "added"
    if not after:
        return "deleted"
    return "unchanged" if before == after else "increased" if after > before else "decreased"

"""Training steps of one rank, and the phases inside them.

Steps are the profiler's `ProfilerStep#N` annotations. Without them they are numbered ranges that
training code names itself ("iteration 12", "step_3", as NVTX ranges often are), or what the user
names. A trace captured on demand (Dynolog, torch's debug server) has none of these: there a step
goes from the end of one `Optimizer.step#...` to the end of the next. Phases are found by the
annotations that PyTorch writes itself (data loader, optimizer, DDP forward) or that are common
(`## forward ##`).
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import cached_per_trace

PHASES: dict[str, re.Pattern[str]] = {
    "data loading": re.compile(
        r"^enumerate\(DataLoader\)#|^## ?data(?:_?loading)? ?##$", re.IGNORECASE
    ),
    "forward pass": re.compile(
        r"^## ?forward ?##$|^(?:Distributed|FullySharded)DataParallel\.forward$"
    ),
    "backward pass": re.compile(r"^## ?backward ?##$"),
    "optimizer": re.compile(r"^Optimizer\.step#|^## ?optimizer(?:_step)? ?##$", re.IGNORECASE),
}
AUTOGRAD = re.compile(r"^autograd::engine::evaluate_function")
"""Stands for the backward pass where it is not annotated."""

_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_STEP = re.compile(r"^ProfilerStep#(\d{1,12})$")
_ITERATION = re.compile(
    r"^(?:(?:train(?:ing)?|global)[ _-]?)?(?:step|iter(?:ation)?|batch)[ _#:=-]*(\d{1,12})$",
    re.IGNORECASE,
)
"""How training loops call their own numbered ranges."""
_NUMBER = re.compile(r"(\d{1,12})$")
_ON_HOST = ("user_annotation", "cpu_op")


@dataclass(frozen=True, eq=False)
class StepColumns:
    """The steps of one rank by number: `number`, `start` and `end` (ns), in order of start."""

    number: Int64
    start: Int64
    end: Int64
    inferred: bool = False
    """The trace has no step annotations: steps lie between optimizer steps, and are numbered from
    0."""

    def __len__(self) -> int:
        return len(self.number)

    @property
    def ms(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Length of each step in milliseconds."""
        return np.asarray((self.end - self.start) / 1e6)

    def at(self, time: int) -> int | None:
        """The number of the step in which the moment lies."""
        place = int(np.searchsorted(self.start, time, side="right")) - 1
        return int(self.number[place]) if place >= 0 and time < self.end[place] else None

    def of(self, times: Int64) -> Int64:
        """The number of the step in which each moment lies; -1 for none."""
        place = self.position_of(times)
        return np.where(place >= 0, self.number[np.maximum(place, 0)], -1) if len(self) else place

    def position_of(self, times: Int64) -> Int64:
        """The place in these columns of the step in which each moment lies; -1 for none."""
        if not len(self):
            return np.full(len(times), -1, dtype=np.int64)
        place = np.searchsorted(self.start, times, side="right") - 1
        inside = (place >= 0) & (times < self.end[np.maximum(place, 0)])
        return np.where(inside, place, -1).astype(np.int64)

    def first(self, count: int) -> StepColumns:
        """At most this many steps from the start."""
        return StepColumns(self.number[:count], self.start[:count], self.end[:count], self.inferred)

    def only(self, numbers: set[int]) -> StepColumns:
        """The steps with these numbers."""
        keep = np.isin(self.number, np.asarray(sorted(numbers), dtype=np.int64))
        return StepColumns(self.number[keep], self.start[keep], self.end[keep], self.inferred)


@cached_per_trace
def steps_of(trace: TraceColumns) -> StepColumns:
    """The rank's steps; a number that occurs twice (two threads, or a copy on the device) counts
    once."""
    if trace.step_name:
        return _of_ranges(trace, _pattern(trace.step_name))
    rows = trace.rows_named(is_step)
    if not len(rows):
        numbered = _of_ranges(trace, _ITERATION)
        # A single numbered range is no loop.
        return numbered if len(numbered) >= 2 else _between_optimizers(trace)
    cpu = ~trace.in_category("gpu_user_annotation")
    first: dict[int, int] = {}
    for row in rows.tolist():
        match = _STEP.match(trace.name_of(row))
        if match and cpu[row]:
            first.setdefault(int(match[1]), row)
    step_rows = np.asarray(list(first.values()), dtype=np.int64)
    return StepColumns(
        np.asarray(list(first), dtype=np.int64), trace.ts[step_rows], trace.end[step_rows]
    )


def _pattern(name: str) -> re.Pattern[str]:
    """`*` and `?` stand for any characters; a name without them may be followed by a number."""
    if re.search(r"[*?\[]", name):
        return re.compile(fnmatch.translate(name))
    return re.compile(rf"^{re.escape(name)}[ _#:=-]*\d{{0,12}}$")


def _of_ranges(trace: TraceColumns, pattern: re.Pattern[str]) -> StepColumns:
    """Ranges on the host that match, without those inside another; numbered by their names where
    each has a different number, else in order."""
    rows = trace.rows_named(lambda name: pattern.match(name) is not None)
    rows = rows[trace.in_category(*_ON_HOST)[rows]]
    remaining_rows: list[int] = []
    for row in rows.tolist():
        # Ranges come by start: one that begins before the last kept one ends lies inside it.
        if not remaining_rows or trace.ts[row] >= trace.end[remaining_rows[-1]]:
            remaining_rows.append(row)
    numbers = []
    for row in remaining_rows:
        match = _NUMBER.search(trace.name_of(row))
        if match is not None:
            numbers.append(int(match[1]))
    if len(set(numbers)) < len(remaining_rows):
        numbers = list(range(len(remaining_rows)))
    at = np.asarray(remaining_rows, dtype=np.int64)
    return StepColumns(np.asarray(numbers, dtype=np.int64), trace.ts[at], trace.end[at])


def _between_optimizers(trace: TraceColumns) -> StepColumns:
    rows = trace.rows_named(lambda name: _OPTIMIZER.match(name) is not None)
    rows = rows[~trace.in_category("gpu_user_annotation")[rows]]
    ends = (
        # A model may have several optimizers: the ends of one of them delimit the steps.
        np.sort(trace.end[rows[trace.name[rows] == trace.name[rows[0]]]])
        if len(rows)
        else trace.ts[rows]
    )
    count = max(len(ends) - 1, 0)
    return StepColumns(np.arange(count, dtype=np.int64), ends[:-1], ends[1:], inferred=count > 0)


def steps_on_device(steps: StepColumns, launched: Int64, ended: Int64) -> StepColumns:
    """The same steps as the accelerator worked them off: each ends with the last work that was
    launched in it.

    A host that reads nothing back runs steps ahead of its accelerator, so the annotations say when
    work was issued, not when it was done. `launched` and `ended` are when each piece of work was
    launched and done. A step begins where it begins on the host or where the one before ends,
    whichever is later (TensorBoard's plugin moves ends alike).
    """
    if not len(steps) or not len(launched):
        return steps
    place = steps.position_of(launched)
    done = steps.end.copy()
    np.maximum.at(done, place[place >= 0], ended[place >= 0])
    # Streams finish out of order: no step may end before the one that precedes it.
    done = np.maximum.accumulate(done)
    begun = np.maximum(steps.start, np.concatenate((steps.start[:1], done[:-1])))
    return StepColumns(steps.number, begun, np.maximum(done, begun), steps.inferred)


def is_step(name: str) -> bool:
    """Whether the event is the profiler's step annotation."""
    return _STEP.match(name) is not None


def phase_spans(trace: TraceColumns, phase: str) -> tuple[Int64, Int64]:
    """Starts and ends of a phase's annotations on the host."""
    on_host = ~trace.in_category("gpu_user_annotation")
    rows = trace.rows_named(lambda name: PHASES[phase].match(name) is not None)
    if phase == "backward pass" and not len(rows):
        rows = trace.rows_named(lambda name: AUTOGRAD.match(name) is not None)
    rows = rows[on_host[rows]]
    return trace.ts[rows], trace.end[rows]

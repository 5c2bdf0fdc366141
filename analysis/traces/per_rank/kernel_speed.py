"""How long each kernel of one rank takes, by name and shape of its launch: what speeds of ranks are
compared by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import Int32, Int64, TraceColumns
from faultline.analysis.traces.readable import distinct_name

MAX_KERNELS = 128
"""Kernels kept: those with the most time."""
MAX_NAME, MAX_SHAPE = 200, 40


@dataclass(frozen=True, eq=False)
class KernelSpeeds:
    """One row per kernel name and launch shape, by total time; ns."""

    names: tuple[str, ...]
    """Name, grid and block: two ranks run the same work where all three agree."""
    count: Int64
    total: Int64
    shortest: Int64
    median: Int64
    p95: Int64
    longest: Int64
    cut: int = 0
    """How many more there were."""
    cut_ns: int = 0
    """Their time."""

    def __len__(self) -> int:
        return len(self.names)


def no_kernels() -> KernelSpeeds:
    """Of a rank that ran none."""
    nothing = np.empty(0, dtype=np.int64)
    return KernelSpeeds((), nothing, nothing, nothing, nothing, nothing, nothing)


def kernel_speeds(
    trace: TraceColumns, kind: Int32, requested_kind: Kind = Kind.COMPUTATION
) -> KernelSpeeds:
    """Durations of kernels of one kind; `kind` of every row as `kinds` gives it. O(kernels log
    kernels)."""
    rows = np.flatnonzero(kind == requested_kind)
    grid, block = (
        trace.arguments.text(name).ids_at(rows).astype(np.int64) for name in ("grid", "block")
    )
    # + 1 and + 2 make room for -1, a missing grid or block.
    shape = np.unique((grid + 1) * (block.max(initial=-1) + 2) + block, return_inverse=True)[1]
    key = trace.name[rows] * (shape.max(initial=0) + 1) + shape
    _, example, place = np.unique(key, return_index=True, return_inverse=True)
    order = np.lexsort((trace.dur[rows], place))
    count = np.bincount(place, minlength=len(example))
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64) if len(count) else count
    dur = trace.dur[rows][order]
    total = np.add.reduceat(dur, first) if len(rows) else dur
    top = np.argsort(-total, kind="stable")[:MAX_KERNELS]
    at = first[top]
    last = count[top] - 1
    return KernelSpeeds(
        names=tuple(
            _named(trace, int(trace.name[rows[i]]), int(grid[i]), int(block[i]))
            for i in example[top].tolist()
        ),
        count=count[top].astype(np.int64),
        total=total[top],
        shortest=dur[at],
        # No interpolation: each quantile is a length that was measured.
        median=dur[at + last // 2],
        p95=dur[at + (last * 95) // 100],
        longest=dur[at + last],
        cut=len(total) - len(top),
        cut_ns=int(total.sum() - total[top].sum()),
    )


def _named(trace: TraceColumns, name: int, grid: int, block: int) -> str:
    texts = [trace.arguments.text("grid").texts[grid] if grid >= 0 else ""]
    texts += [trace.arguments.text("block").texts[block] if block >= 0 else ""]
    return " ".join(
        [distinct_name(trace.names[name], MAX_NAME), *[t[:MAX_SHAPE] for t in texts if t]]
    )

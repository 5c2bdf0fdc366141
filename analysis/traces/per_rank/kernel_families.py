"""Work on the device by family: library and kind of work, type and tile, as kernels' names say."""

from __future__ import annotations

from collections import Counter

import numpy as np

from faultline.analysis.traces.columns.device import device_work
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.kernel_families import KernelFamily, family_of
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded

MAX_NAME = 256


TABLE = RowTable(
    TEXT("library", "work", "dtype", "tile"),
    INT("kernels", "names", "total_ns"),
    rounded(2, "time_percent"),
    TEXT("top_kernel"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per family, the most time first. O(work + names)."""
    work = device_work(trace)
    if not len(work):
        return []
    names = trace.name[work.row]
    counts = np.bincount(names)
    totals = np.bincount(names, weights=(work.end - work.start).astype(np.float64))
    times: Counter[KernelFamily] = Counter()
    calls: Counter[KernelFamily] = Counter()
    distinct: Counter[KernelFamily] = Counter()
    longest: dict[KernelFamily, tuple[float, str]] = {}
    for number in np.flatnonzero(counts).tolist():
        name = trace.names[number]
        family = family_of(name)
        times[family] += int(totals[number])
        calls[family] += int(counts[number])
        distinct[family] += 1
        longest[family] = max(longest.get(family, (0.0, "")), (float(totals[number]), name))
    whole = max(sum(times.values()), 1)
    rows = []
    for family, total in times.most_common():
        kind = (family.library, family.work, family.dtype, family.tile)
        top = longest[family][1][:MAX_NAME]
        rows.append((*kind, calls[family], distinct[family], total, 100 * total / whole, top))
    return TABLE.of(rows)

"""Sequences of kernels that an operator launches again and again: candidates for fusing.

After HTA's `get_frequent_cuda_kernel_sequences`; where this differs:
docs/trace-engine/differences.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.distribution import distinct_sequences
from faultline.analysis.traces.columns.events import Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, TEXTS, Rows, RowTable
from faultline.analysis.traces.per_rank.call_stacks import CallStacks, call_stacks, outermost
from faultline.analysis.traces.per_rank.operators import OPERATOR_CATEGORIES

MIN_KERNELS = 3
"""Fewest kernels that make a sequence; HTA's default."""
MAX_NAMES = 64
"""Most sequences given as JSON, and most kernels named of each."""


@dataclass(frozen=True)
class KernelSequence:
    """Calls of one operator that launched the same kernels, copies and fills in the same order of
    their starts."""

    operator: str
    kernels: tuple[str, ...]
    calls: int
    kernel_ns: int
    """Summed length of the kernels of all calls."""
    host_ns: int
    """Summed length of the calls."""
    roots: Int32
    """Row of each call."""

    @property
    def name(self) -> str:
        """The operator and its kernels, as HTA writes it: "op|k1|k2"."""
        return "|".join((self.operator, *self.kernels))


def kernel_sequences(
    trace: TraceColumns,
    operator: str | None = None,
    *,
    min_kernels: int = MIN_KERNELS,
    stacks: CallStacks | None = None,
) -> list[KernelSequence]:
    """Sequences under every outermost call whose name contains `operator`, or, without one, under
    every outermost call of a PyTorch operator; most frequent first. O(n log n).
    """
    stacks = stacks or call_stacks(trace)
    kernels = np.flatnonzero(trace.on_device & (stacks.parent >= 0))
    calls = stacks.inside & ~trace.on_device
    if operator is None:
        call_mask = calls & trace.in_category(*OPERATOR_CATEGORIES)
    else:
        named = np.asarray([operator in name for name in trace.names], dtype=np.bool_)
        call_mask = calls & named[trace.name] if len(named) else calls
    root = outermost(stacks.parent, call_mask)[kernels]
    kernels, root = kernels[root >= 0], root[root >= 0]
    order = np.lexsort((trace.ts[kernels], root))
    kernels, root = kernels[order], root[order]
    begin = (
        np.flatnonzero(np.concatenate(([True], root[1:] != root[:-1])))
        if len(root)
        else np.empty(0, np.int64)
    )
    # Without sequences the last end has no beginning: cut it off.
    end = np.concatenate((begin[1:], [len(root)])).astype(np.int64)[: len(begin)]
    long = end - begin >= min_kernels
    return _grouped(trace, kernels, root, begin[long], end[long])


TABLE = RowTable(
    TEXT("operator"), TEXTS("kernels"), INT("kernels_per_call", "calls", "kernel_ns", "host_ns")
)


def rows(trace: TraceColumns) -> Rows:
    """The sequences of all operators as JSON values, those with most kernel time first."""
    sequences = sorted(kernel_sequences(trace), key=lambda s: (-s.kernel_ns, s.operator))
    return TABLE.of(
        (s.operator, s.kernels[:MAX_NAMES], len(s.kernels), s.calls, s.kernel_ns, s.host_ns)
        for s in sequences
    )


def _grouped(
    trace: TraceColumns, kernels: Int64, root: Int32, begin: Int64, end: Int64
) -> list[KernelSequence]:
    names = trace.name[kernels].astype(np.int32)
    # Prefix sums: the length of any sequence is a difference of two.
    length = np.concatenate(([0], np.cumsum(trace.dur[kernels])))
    calls = root[begin]
    first, kind = distinct_sequences(names, begin, end, trace.name[calls])
    places = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    sequences = []
    for index, members in zip(first.tolist(), places, strict=True) if len(first) else ():
        sequence = names[begin[index] : end[index]].tolist()
        sequences.append(
            KernelSequence(
                trace.name_of(int(calls[index])),
                tuple(trace.names[i] for i in sequence),
                len(members),
                int((length[end[members]] - length[begin[members]]).sum()),
                int(trace.dur[calls[members]].sum()),
                calls[members].astype(np.int32),
            )
        )
    return sorted(sequences, key=lambda s: (-s.calls, s.name))

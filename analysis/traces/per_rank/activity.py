"""What one rank did when: when it computed, communicated, copied, loaded data."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds, launched_by
from faultline.analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import (
    Spans,
    difference,
    nothing_in,
    union,
    union_of,
)
from faultline.analysis.traces.columns.row_table import cached_per_trace
from faultline.analysis.traces.columns.steps import PHASES, StepColumns, phase_spans
from faultline.analysis.traces.per_rank.collective_names import is_collective_on_host

DATA = "data loading"
FORWARD, BACKWARD = "forward pass", "backward pass"
BACKWARD_GAP_NS = 1_000_000
"""Nodes of one backward pass follow one another within this much time (our choice)."""
COMPUTING = ("backward pass", "optimizer", "forward pass")
_OPERATOR = re.compile(
    r"^(?!c10d|_c10d|autograd|torch::autograd|FSDP|nccl|gloo|profiler|record_)\w+::"
)
"""Operators that compute. Frames of autograd and of collectives contain waiting."""


@dataclass(frozen=True, eq=False)
class Activity:
    """What one rank did when: disjoint intervals in order."""

    computation: Spans
    communication: Spans
    copies: Spans
    annotated: dict[str, Spans]
    """The host's annotations of each phase."""
    launched: dict[str, Spans]
    """Computation on the accelerator that each phase launched."""
    accelerator: bool
    kind: Int32
    """`Kind` of every row of the trace."""
    launch: Int64
    """The call that launched each row (`launched_by`)."""

    @property
    def busy(self) -> Spans:
        """Any of computation, communication, copies."""
        return union_of(self.computation, self.communication, self.copies)


@cached_per_trace
def activity_of(trace: TraceColumns, steps: StepColumns) -> Activity:
    """What the rank did when. O(events log events)."""
    kind, launch = kinds(trace), launched_by(trace)
    rows = collective_rows(trace, kind)
    communication = union(trace.ts[rows], trace.end[rows])
    host = {phase: union(*phase_spans(trace, phase)) for phase in PHASES}
    if not len(host[FORWARD][0]):
        # The forward pass where nothing names it: what comes before the last backward pass of each
        # step.
        starts, ends = host[BACKWARD]
        last = np.searchsorted(starts, steps.end) - 1
        has_backward = (
            (last >= 0) & (starts[np.maximum(last, 0)] > steps.start)
            if len(starts)
            else np.zeros(len(steps), bool)
        )
        spans = union(steps.start[has_backward], starts[last[has_backward]])
        # Time that another phase claims is no forward pass.
        for taken in (host[DATA], host["optimizer"], union(starts, ends + BACKWARD_GAP_NS)):
            spans = difference(spans, taken)
        host[FORWARD] = spans
    if not (kind != Kind.OTHER).any():
        by_name = np.asarray(
            [_OPERATOR.match(name) is not None for name in trace.names], dtype=np.bool_
        )
        is_operator = by_name[trace.name] if len(by_name) else np.zeros(len(trace), dtype=np.bool_)
        is_operator &= trace.in_category("cpu_op", "operator")
        return Activity(
            union(trace.ts[is_operator], trace.end[is_operator]),
            communication,
            nothing_in(),
            host,
            {},
            False,
            kind,
            launch,
        )
    computing, copying = (
        np.flatnonzero(kind == Kind.COMPUTATION),
        np.flatnonzero(kind == Kind.MEMORY),
    )
    phases = _by_launch(trace, computing, launch[computing], host)
    computation, copies = (union(trace.ts[r], trace.end[r]) for r in (computing, copying))
    return Activity(computation, communication, copies, host, phases, True, kind, launch)


def collective_rows(trace: TraceColumns, kind: Int32) -> Int64:
    """Rows of collectives by start: communication kernels, and collectives that run on the host."""
    on_host = trace.rows_named(is_collective_on_host)
    on_host = on_host[~trace.in_category("gpu_user_annotation")[on_host]]
    rows = np.concatenate((on_host, np.flatnonzero(kind == Kind.COMMUNICATION)))
    return np.asarray(rows[np.argsort(trace.ts[rows], kind="stable")], dtype=np.int64)


def lies_in(spans: Spans, moments: Int64) -> Bool:
    """Mask of the moments that are in the disjoint `spans`."""
    begun, ended = (np.searchsorted(edge, moments, side="right") for edge in spans)
    return np.asarray(begun > ended)


def _by_launch(
    trace: TraceColumns, rows: Int64, launch: Int64, host: dict[str, Spans]
) -> dict[str, Spans]:
    rows, launch = rows[launch >= 0], launch[launch >= 0]
    by_phase = {}
    for phase in COMPUTING:
        inside = rows[lies_in(host[phase], trace.ts[launch])]
        by_phase[phase] = union(trace.ts[inside], trace.end[inside])
    return by_phase

"""What one rank did when: when it computed, communicated, copied, loaded data."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.device import Kind, kinds, launched_by
from analysis.traces.intervals import union
from analysis.traces.per_rank.collective_names import is_collective_on_host
from analysis.traces.spans import Spans, nothing_in, union_of
from analysis.traces.steps import PHASES, phase_spans

DATA = "data loading"
COMPUTING = ("backward pass", "optimizer", "forward pass")
_OPERATOR = re.compile(r"^(?!c10d|_c10d|autograd|torch::autograd|FSDP|nccl|gloo|profiler|record_)\w+::")
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

    @property
    def busy(self) -> Spans:
        """Any of computation, communication, copies."""
        return union_of(self.computation, self.communication, self.copies)


def activity_of(trace: TraceColumns) -> Activity:
    """What the rank did when. O(events log events)."""
    rows = collective_rows(trace)
    communication = union(trace.ts[rows], trace.end[rows])
    host = {phase: union(*phase_spans(trace, phase)) for phase in PHASES}
    kind = kinds(trace)
    if not (kind != Kind.OTHER).any():
        return Activity(_operators(trace), communication, nothing_in(), host, {}, False)
    spans = {k: union(trace.ts[kind == k], trace.end[kind == k]) for k in (Kind.COMPUTATION, Kind.MEMORY)}
    phases = _by_launch(trace, np.flatnonzero(kind == Kind.COMPUTATION), host)
    return Activity(spans[Kind.COMPUTATION], communication, spans[Kind.MEMORY], host, phases, True)


def collective_rows(trace: TraceColumns) -> Int64:
    """Rows of collectives by start: communication kernels, and collectives that run on the host."""
    on_host = trace.rows_named(is_collective_on_host)
    on_host = on_host[~trace.in_category("gpu_user_annotation")[on_host]]
    rows = np.concatenate((on_host, np.flatnonzero(kinds(trace) == Kind.COMMUNICATION)))
    return np.asarray(rows[np.argsort(trace.ts[rows], kind="stable")], dtype=np.int64)


def _by_launch(trace: TraceColumns, rows: Int64, host: dict[str, Spans]) -> dict[str, Spans]:
    launch = launched_by(trace)[rows]
    moment = np.where(launch >= 0, trace.ts[np.maximum(launch, 0)], np.iinfo(np.int64).min)
    found = {}
    for phase in COMPUTING:
        starts, ends = host[phase]
        place = np.searchsorted(starts, moment, side="right") - 1
        inside = (place >= 0) & (moment < ends[np.maximum(place, 0)]) if len(starts) else np.zeros(len(rows), bool)
        found[phase] = union(trace.ts[rows[inside]], trace.end[rows[inside]])
    return found


def _operators(trace: TraceColumns) -> Spans:
    by_name = np.asarray([_OPERATOR.match(name) is not None for name in trace.names], dtype=np.bool_)
    wanted = by_name[trace.name] if len(by_name) else np.zeros(len(trace), dtype=np.bool_)
    wanted &= trace.in_category("cpu_op", "operator")
    return union(trace.ts[wanted], trace.end[wanted])

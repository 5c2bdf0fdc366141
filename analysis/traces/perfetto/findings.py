"""What the doctor found, drawn into one rank's trace: a track for each diagnosis, and arrows from a
rank that came late to the collective in which this rank waited for it.

The tracks belong to two added processes, above those of the trace. Arrows are flow events
(Trace Event Format): they start in the late rank's slice and end in the collective.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.perfetto.augmented import Lane, Notes, microseconds, time_base

FINDINGS, LATE = 2_000_000_001, 2_000_000_002
"""Process ids of the added tracks: above the largest that Linux gives."""
LANES = 64
"""Tracks of one diagnosis at most."""
MAX_DIAGNOSES = 50
MAX_ARROWS = 500
"""Those with the longest waits."""
MIN_WAIT_NS = 50_000
"""Shorter waits are not drawn (our choice): kernels that start together differ by some us."""
MAX_TEXT = 1_000


@dataclass(frozen=True)
class LateArrival:
    """A collective in which this rank waited for another; ns on this rank's clock."""

    rank: int
    operation: str
    begin: int
    """When this rank began to wait."""
    end: int
    """When the late rank entered."""
    event: int
    """Number of this rank's event."""


def late_arrivals(compared: RankComparison, rank: int) -> list[LateArrival]:
    """By start; none where ranks cannot be compared."""
    if not compared.comparable:
        return []
    place = compared.job.place_of(rank)
    calls = compared.job.ranks[place].collectives
    arrivals = []
    for block, column in compared.matched.of(place):
        last = block.last_arrival
        wait = last - block.start[:, column]
        late = block.places[block.start.argmax(axis=1)]
        for i in np.flatnonzero(block.synchronising & (wait >= MIN_WAIT_NS)).tolist():
            row = int(block.row[i, column])
            begin = int(calls.start[row])
            arrival = LateArrival(
                rank=compared.job.ranks[int(late[i])].rank,
                operation=block.operations[int(block.operation[i])],
                begin=begin,
                end=begin + int(wait[i]),
                event=int(calls.event[row]),
            )
            arrivals.append(arrival)
    longest = sorted(arrivals, key=lambda a: a.begin - a.end)[:MAX_ARROWS]
    return sorted(longest, key=lambda a: a.begin)


def findings(
    trace: TraceColumns,
    summary: RankSummary,
    diagnoses: Sequence[JobDiagnosis],
    arrivals: Sequence[LateArrival],
) -> Notes:
    """What is to be added to the rank's trace."""
    numbers = np.asarray([a.event for a in arrivals], dtype=np.int64)
    rows = np.flatnonzero(np.isin(trace.event, numbers))
    base = time_base(trace)

    def texts(lanes: Mapping[int, Lane]) -> Iterator[bytes]:
        for event in _diagnoses(summary, diagnoses[:MAX_DIAGNOSES], base):
            yield json.dumps(event).encode()
        yield from _late(arrivals, lanes, base)

    return Notes(rows, texts)


def _diagnoses(
    summary: RankSummary, diagnoses: Sequence[JobDiagnosis], base: int
) -> Iterator[dict[str, object]]:
    if diagnoses:
        yield from _process(FINDINGS, "Faultline: findings", -2)
    for number, diagnosis in enumerate(diagnoses):
        ends: list[int] = []
        for begin, end, name in sorted(_windows(summary, diagnosis)):
            # Slices of one track must not overlap: each goes to the first that is free.
            lane = next((i for i, free in enumerate(ends) if free <= begin), len(ends))
            if lane == LANES:
                continue
            if lane == len(ends):
                ends.append(end)
                title = f"{diagnosis.severity}: {diagnosis.rule} ({diagnosis.subject})"
                yield from _thread(FINDINGS, number * LANES + lane, title)
            ends[lane] = end
            arguments = {
                "statement": diagnosis.statement[:MAX_TEXT],
                "fix": diagnosis.fix[:MAX_TEXT],
                "severity": diagnosis.severity,
            }
            yield {
                "ph": "X",
                "cat": "faultline",
                "name": f"{diagnosis.rule}: {name}"[:200],
                "pid": FINDINGS,
                "tid": number * LANES + lane,
                "ts": json.loads(microseconds(begin - base)),
                "dur": json.loads(microseconds(max(end - begin, 1))),
                "args": arguments,
            }


def _windows(summary: RankSummary, diagnosis: JobDiagnosis) -> list[tuple[int, int, str]]:
    """(begin, end, name): its events on this rank and its steps, else all of the trace."""
    windows = []
    for event in diagnosis.events:
        if event.file == summary.file:
            windows.append((event.start_ns, event.start_ns + event.duration_ns, event.name))
    steps = summary.steps
    for place in np.flatnonzero(np.isin(steps.number, diagnosis.steps)).tolist():
        name = f"step {int(steps.number[place])}"
        windows.append((int(steps.start[place]), int(steps.end[place]), name))
    return windows or [(summary.start_ns, summary.end_ns, diagnosis.subject)]


def _late(arrivals: Sequence[LateArrival], lanes: Mapping[int, Lane], base: int) -> Iterator[bytes]:
    if not arrivals:
        return
    events = list(_process(LATE, "Faultline: who came last", -1))
    for rank in sorted({a.rank for a in arrivals}):
        events += _thread(LATE, rank, f"rank {rank}")
    busy: dict[int, int] = {}
    for event in events:
        yield json.dumps(event).encode()
    for number, arrival in enumerate(arrivals):
        lane = lanes.get(arrival.event)
        # Slices of one track must not overlap: begin after the one before.
        begin = max(arrival.begin, busy.get(arrival.rank, arrival.begin))
        if lane is None or begin >= arrival.end:
            continue
        busy[arrival.rank] = arrival.end
        slice_ = {
            "ph": "X",
            "cat": "faultline",
            "name": f"rank {arrival.rank} is late for {arrival.operation}",
            "pid": LATE,
            "tid": arrival.rank,
            "ts": json.loads(microseconds(begin - base)),
            "dur": json.loads(microseconds(arrival.end - begin)),
        }
        yield json.dumps(slice_).encode()
        # The arrow leaves the slice a nanosecond before its end: at the end it is outside.
        leaves = microseconds(arrival.end - 1 - base)
        start = f'{{"ph": "s", "id": {number}, "cat": "faultline", "name": "late", "ts": {leaves}, '
        yield f'{start}"pid": {LATE}, "tid": {arrival.rank}}}'.encode()
        enters = microseconds(arrival.end - base)
        finish = f'{{"ph": "f", "bp": "e", "id": {number}, "cat": "faultline", "name": "late", '
        yield f'{finish}"ts": {enters}, "pid": '.encode() + lane[0] + b', "tid": ' + lane[1] + b"}"


def _process(pid: int, name: str, place: int) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": place}}


def _thread(pid: int, tid: int, name: str) -> Iterator[dict[str, object]]:
    named = {"name": name[:200]}
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": named}

"""What the doctor found, drawn into one rank's trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.traces.perfetto.findings import (
    FINDINGS,
    LANES,
    LateArrival,
    findings,
    late_arrivals,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.across_ranks.written_jobs import comparison_of
from tests.analysis.traces.written_traces import BASE_NS, document, event, job, write_trace

STEPS = [
    event("ProfilerStep#1", 100, 50, cat="user_annotation"),
    event("ProfilerStep#2", 200, 50, cat="user_annotation"),
]


def late(rank: int, begin: int, end: int, number: int) -> LateArrival:
    return LateArrival(rank, "all_reduce", BASE_NS + begin * 1000, BASE_NS + end * 1000, number)


def drawn(
    folder: Path, diagnoses: list[JobDiagnosis], arrivals: list[LateArrival]
) -> list[dict[str, Any]]:
    trace = read_trace(write_trace(folder / "rank0.json", document(STEPS)))
    notes = findings(trace, summarise(trace), diagnoses, arrivals)
    return [json.loads(text) for text in notes.texts({0: (b"1", b"7"), 1: (b"1", b"9")})]


def test_each_late_arrival_is_a_slice_of_its_rank_with_an_arrow_into_the_collective(
    tmp_path: Path,
) -> None:
    events = drawn(
        tmp_path,
        [],
        [
            late(3, 100, 200, 0),
            late(3, 150, 200, 1),  # Ends with the slice before it.
            late(3, 150, 260, 1),
            late(2, 150, 170, 1),
            late(1, 300, 400, 5),  # In an event of no lane.
        ],
    )
    slices = [(e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [(3, 100, 100), (3, 200, 60), (2, 150, 20)]
    starts = [(e["id"], e["ts"], e["tid"]) for e in events if e["ph"] == "s"]
    assert starts == [(0, 199.999, 3), (2, 259.999, 3), (3, 169.999, 2)]
    ends = [(e["id"], e["ts"], e["pid"], e["tid"]) for e in events if e["ph"] == "f"]
    assert ends == [(0, 200, 1, 7), (2, 260, 1, 9), (3, 170, 1, 9)]
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert names == ["rank 1", "rank 2", "rank 3"]


def diagnosis(**fields: Any) -> JobDiagnosis:
    return JobDiagnosis(
        rule="slow_step",
        severity="warning",
        subject="rank 0",
        statement="It is slow.",
        fix="Look.",
        source="?",
        numbers={},
        ranks=(0,),
        **fields,
    )


def moment(file: str, begin: int, length: int) -> EventReference:
    return EventReference(0, file, begin, "gap", BASE_NS + begin * 1000, length * 1000)


def test_a_diagnosis_is_drawn_over_its_steps_else_over_the_whole_trace(tmp_path: Path) -> None:
    events = drawn(tmp_path, [diagnosis(steps=(1, 2)), diagnosis()], [])
    slices = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [
        ("slow_step: step 1", 100, 50),
        ("slow_step: step 2", 200, 50),
        ("slow_step: rank 0", 100, 150),
    ]
    assert [e["tid"] for e in events if e["ph"] == "X"] == [0, 0, LANES]
    assert not [e for e in events if e["ph"] in "sf"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"].endswith("_name")}
    assert names == {
        (FINDINGS, "Faultline: findings"),
        (FINDINGS, "warning: slow_step (rank 0)"),
    }


def test_events_of_this_rank_that_overlap_are_drawn_on_tracks_of_their_own(
    tmp_path: Path,
) -> None:
    file = "rank0.json"
    shown = (moment(file, 100, 50), moment(file, 120, 60), moment(file, 150, 10))
    events = drawn(tmp_path, [diagnosis(events=(*shown, moment("rank1.json", 110, 5)))], [])
    slices = [(e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [(0, 100, 50), (1, 120, 60), (0, 150, 10)]
    threads = [e["tid"] for e in events if e["name"] == "thread_name"]
    assert threads == [0, 1]


def test_waits_of_a_rank_become_late_arrivals_in_the_order_of_time(tmp_path: Path) -> None:
    late_us = {(2, step): 6_000.0 for step in range(3)}
    compared = comparison_of(tmp_path, job(steps=3, late_us=late_us))
    arrivals = late_arrivals(compared, 0)
    assert {arrival.rank for arrival in arrivals} == {2}
    assert [arrival.begin for arrival in arrivals] == sorted(a.begin for a in arrivals)
    assert len(arrivals) == 3
    assert [round((a.end - a.begin) / 1e6) for a in arrivals] == [6, 6, 6]
    assert late_arrivals(compared, 2) == []

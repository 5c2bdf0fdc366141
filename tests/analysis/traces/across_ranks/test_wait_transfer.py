from __future__ import annotations

from pathlib import Path

import pytest

from analysis.traces.across_ranks.wait_transfer import bus_factor, rows_of
from tests.analysis.traces.across_ranks.written_jobs import REDUCE_US, comparison_of, gpu_job, nccl
from tests.analysis.traces.written_traces import event, job

US = 1_000


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("all_reduce", 1, 1.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation: str, ranks: int, factor: float) -> None:
    assert bus_factor(operation, ranks) == factor


def test_time_until_the_last_arrival_is_waiting_and_the_rest_is_transfer(tmp_path: Path) -> None:
    table = comparison_of(tmp_path, gpu_job(late_us={1: 8_000.0})).collectives
    (row,) = table.rows
    assert table.by == "arrival"
    assert (row.operation, row.group, row.ranks, row.bytes, row.count) == (
        "all_reduce",
        "default_pg",
        4,
        4_000_000,
        6,
    )
    assert row.transfer == 6 * REDUCE_US * US
    assert row.wait == 6 * 8_000 * US * 3 // 4
    assert row.worst_wait == 6 * 8_000 * US
    assert row.algorithm_bandwidth == pytest.approx(2.0)  # 4 MB in 2 ms
    assert row.bus_bandwidth == pytest.approx(3.0)
    assert not row.at_least


def test_ranks_whose_clocks_do_not_agree_are_split_by_the_shortest_duration(tmp_path: Path) -> None:
    late = {(2, step): 6_000.0 for step in range(8)}
    table = comparison_of(tmp_path, job(late_us=late, clock_us={3: 8_000.0})).collectives
    assert table.by == "shortest duration"
    (row,) = table.rows
    assert row.transfer == 8 * 1_000 * US
    assert row.worst_wait == 8 * 6_002 * US


def test_one_rank_alone_shows_durations_and_bandwidths_that_are_lower_bounds(
    tmp_path: Path,
) -> None:
    table = comparison_of(tmp_path, gpu_job(ranks=1)).collectives
    assert table.by == "duration"
    assert table.rows[0].at_least
    assert rows_of(table)[0]["transfer_ns"] == 6 * REDUCE_US * US


def test_who_is_not_there_may_have_come_last(tmp_path: Path) -> None:
    table = comparison_of(tmp_path, gpu_job(ranks=3), world=4).collectives
    assert not table.rows[0].at_least  # the group is said to have three ranks
    told = {"Process Group Name": "0", "Group size": 4, "Seq": 1}
    traces = [[nccl("AllReduce", 10.0, 20.0, 1, **told)] for _ in range(3)]
    assert comparison_of(tmp_path / "partial", traces, world=4).collectives.rows[0].at_least


def test_the_output_of_an_all_gather_is_its_size(tmp_path: Path) -> None:
    note = {"Input Dims": [[1000]], "Input type": ["float"]}
    traces = [
        [event("gloo:all_gather", 10.0 + r, 90.0, cat="user_annotation", **note)] for r in range(4)
    ]
    header = comparison_of(tmp_path, traces).collectives.rows[0]
    assert (header.operation, header.ranks) == ("all_gather", 4)
    assert header.bytes == 4 * 4000


def test_a_broadcast_is_no_meeting_point(tmp_path: Path) -> None:
    traces = [
        [event("gloo:broadcast", 10.0 + 50 * r, 90.0 - 10 * r, cat="user_annotation")]
        for r in range(3)
    ]
    found = comparison_of(tmp_path, traces)
    (row,) = found.collectives.rows
    assert (row.wait, row.transfer) == (10 * US, 70 * US)
    assert all(b.blame_ns == 0 for b in found.blame.ranks)


def test_exposed_is_what_no_computation_hides(tmp_path: Path) -> None:
    traces = gpu_job()
    hidden = [e for e in traces[0] if e["name"].startswith("nccl")]
    traces[0] += [
        event(
            "gemm_beside",
            e["ts"] + 500.0,
            1_000.0,
            cat="kernel",
            tid=7,
            stream=7,
            correlation=7_000 + i,
        )
        for i, e in enumerate(hidden)
    ]
    found = comparison_of(tmp_path, traces)
    (first,), (second,) = found.exposures[0], found.exposures[1]
    assert (first.total, first.exposed) == (2_000 * US, 1_000 * US)
    assert first.hidden_percent == pytest.approx(50.0)
    assert second.hidden_percent == 0.0
    assert second.step_share == pytest.approx(0.1)


def test_collectives_in_flight_at_once_are_exposed_once(tmp_path: Path) -> None:
    traces = job()
    for events in traces:
        events += [
            dict(e, tid=3, args={"Input Dims": [[32]]})
            for e in events
            if e["name"] == "gloo:all_reduce"
        ]
    found = comparison_of(tmp_path, traces)
    (own,) = found.exposures[3]
    assert own.count == 16
    assert own.total == 1_000 * US

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.across_ranks.comparison import RankComparison, compare
from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.per_rank.collective_bandwidth import OF_ALL_RANKS, bus_factor, rows
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.across_ranks.written_jobs import REDUCE_US, comparison_of, gpu_job, nccl
from tests.analysis.traces.written_traces import document, event, job, write_trace

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
    assert table.rows[0].transfer == 6 * REDUCE_US * US


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


H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}] * 8}


def on_h100(
    folder: Path, traces: list[list[dict[str, Any]]], hosts: Sequence[str] = ("node-a",) * 8
) -> RankComparison:
    summaries = []
    for rank, events in enumerate(traces):
        written = document(events, rank, len(traces), hosts[rank]) | H100
        summaries.append(summarise(read_trace(write_trace(folder / f"rank{rank}.json", written))))
    return compare(summaries)


def test_within_a_host_bandwidth_is_held_against_the_link(tmp_path: Path) -> None:
    # 1 GB in 2 ms: 500 GB/s, 750 GB/s on the bus of four ranks.
    (row,) = on_h100(tmp_path, gpu_job(elements=250_000_000)).collectives.rows
    assert (row.link.name, row.link.peak_gb_per_s) == ("NVLink", 450)
    assert row.link_percent == pytest.approx(100 * 750 / 450)


def test_between_hosts_the_link_is_not_known(tmp_path: Path) -> None:
    hosts = ["node-a", "node-a", "node-b", "node-b"]
    (row,) = OF_ALL_RANKS.rows(on_h100(tmp_path, gpu_job(), hosts).collectives.rows)
    assert (row["link"], row["link_gb_per_s"], row["link_percent"]) == ("not known", None, None)
    assert row["bus_gb_per_s"] == pytest.approx(3.0)


def test_sizes_are_summed_up_by_powers_of_two(tmp_path: Path) -> None:
    traces = []
    for _ in range(2):
        events = []
        for i, elements in enumerate([1_000, 1_020, 5_000]):
            told = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
            told |= {"Process Group Name": "0", "Group size": 2, "Seq": i}
            events.append(nccl("AllReduce", 100.0 * i, 100.0 * i + 40.0, i, **told))
        traces.append(events)
    rows = comparison_of(tmp_path, traces).collectives.rows
    assert [(r.count, r.bytes) for r in rows] == [(2, 4_040), (1, 20_000)]


def test_exposed_time_is_awaited_where_the_next_computation_was_launched(tmp_path: Path) -> None:
    """The optimizer's kernel is launched while the backward pass runs: it waits for all of it."""
    (row,) = comparison_of(tmp_path, gpu_job()).collectives.rows
    assert row.exposed == row.awaited == 6 * REDUCE_US * US
    assert row.hidden == 0


def test_exposed_time_is_not_awaited_where_nothing_was_launched(tmp_path: Path) -> None:
    traces = gpu_job()
    for events in traces:
        late = {e["args"]["correlation"]: e["ts"] for e in events if e["name"] == "adam_kernel"}
        for one in events:
            if one["name"] == "cudaLaunchKernel" and one["args"]["correlation"] in late:
                one["ts"] = late[one["args"]["correlation"]] - 10.0
    (row,) = comparison_of(tmp_path, traces).collectives.rows
    assert row.exposed == 6 * REDUCE_US * US
    assert row.awaited == 6 * 10 * US


def test_one_rank_lists_its_sends_and_receives(tmp_path: Path) -> None:
    told = {"In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "Float"}
    told |= {"Process Group Name": "pp", "Group size": 2}
    events = [nccl("SendRecv", 10.0, 1_010.0, 1, **{"Collective name": "send", **told})]
    file = write_trace(tmp_path / "rank0.json", document(events, 0, 2) | H100)
    (row,) = rows(read_trace(file))
    assert (row["operation"], row["bytes"], row["at_least"]) == ("send", 4_000_000, True)
    assert row["bus_gb_per_s"] == row["algorithm_gb_per_s"] == pytest.approx(4.0)
    assert row["link_percent"] == pytest.approx(100 * 4.0 / 450)

"""A link that large messages use badly is named; small ones, hidden ones and stragglers are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.across_ranks.written_jobs import REDUCE_US, gpu_job
from tests.analysis.traces.device_traces import NCCL, kernel, launch
from tests.analysis.traces.doctor.written_ranks import (
    accused,
    gpu_steps,
    one_rank,
    quoted_numbers_are_given,
    the,
)
from tests.analysis.traces.written_traces import document, event, write_trace

MB_128 = 33_554_432
"""Elements of four bytes: 134 MB in 2 ms are 67 GB/s, 101 GB/s on the bus of four ranks: 22 % of an
H100's NVLink."""


def job_on(
    folder: Path,
    traces: Sequence[list[dict[str, Any]]],
    *,
    device: str = "NVIDIA H100 80GB HBM3",
    hosts: Mapping[int, str] | None = None,
) -> TrainingJob:
    devices = {"deviceProperties": [{"id": 0, "name": device}]}
    summaries = []
    for rank, events in enumerate(traces):
        written = document(events, rank, len(traces), (hosts or {}).get(rank, "node-a")) | devices
        summaries.append(summarise(read_trace(write_trace(folder / f"rank{rank}.json", written))))
    return job_of(summaries)


def test_a_large_message_at_a_fifth_of_the_peak_is_a_slow_link(tmp_path: Path) -> None:
    found = the("slow_link", job_on(tmp_path, gpu_job(elements=MB_128)))
    assert found.severity == "warning"
    assert found.statement == (
        "all_reduce of `default_pg` of 4 ranks reaches 22 % of the NVLink peak at 134 MB messages "
        "(101 of 450 GB/s), and no computation hides 2 ms of it in each 20 ms step"
    )
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))
    assert found.cost_ns is not None
    assert found.cost_ns < REDUCE_US * 1_000


def test_it_says_more_than_that_transfer_takes_long(tmp_path: Path) -> None:
    assert accused(job_on(tmp_path, gpu_job(elements=MB_128))) == [
        "no_overlap",
        "slow_link",
    ]


def test_small_messages_are_bound_by_latency(tmp_path: Path) -> None:
    assert "slow_link" not in accused(job_on(tmp_path, gpu_job(elements=1_000_000)))


def test_beyond_a_host_nothing_is_said_of_the_link(tmp_path: Path) -> None:
    traces = gpu_job(elements=MB_128)
    assert "slow_link" not in accused(job_on(tmp_path, traces, hosts={2: "node-b", 3: "node-b"}))


def test_a_card_that_may_have_no_bridge_is_not_judged(tmp_path: Path) -> None:
    traces = gpu_job(elements=MB_128)
    assert "slow_link" not in accused(job_on(tmp_path, traces, device="NVIDIA H100 PCIe"))


def test_a_link_that_reaches_half_of_its_peak_is_left_alone(tmp_path: Path) -> None:
    assert "slow_link" not in accused(job_on(tmp_path, gpu_job(elements=3 * MB_128)))


def test_a_straggler_is_no_slow_link(tmp_path: Path) -> None:
    traces = gpu_job(elements=3 * MB_128, late_us={2: 9_000.0})
    assert accused(job_on(tmp_path, traces)) == ["straggler"]


def test_a_transfer_that_computation_hides_costs_nothing(tmp_path: Path) -> None:
    traces = gpu_job(elements=MB_128)
    for events in traces:
        for i, one in enumerate([e for e in events if e["name"].startswith("nccl")]):
            events.append(
                kernel("gemm", one["ts"], one["dur"], stream=9, correlation=900_000 + i)
                | {"pid": 1}
            )
    assert "slow_link" not in accused(job_on(tmp_path, traces))


def test_findings_are_ranked_by_what_they_cost(tmp_path: Path) -> None:
    """The dearer one is said first, whichever it is."""

    def dearer(compiling_us: float, reducing_us: float) -> list[str]:
        def extra(step: int, at: float) -> list[dict[str, Any]]:
            name = "_compile.compile_inner (dynamo_timed)"
            compiling = event(name, at + 100.0, compiling_us, cat="user_annotation") | {"pid": 100}
            reduced = kernel(NCCL, at + 5_500.0, reducing_us, stream=20, correlation=700_000 + step)
            return [compiling, launch(at + 200.0, 3.0, 700_000 + step), reduced]

        found = accused(one_rank(tmp_path, gpu_steps(extra, busy_us=5_000.0)))
        return [rule for rule in found if rule in ("recompiles", "communication_bound")]

    assert dearer(1_000.0, 4_400.0) == ["communication_bound", "recompiles"]
    assert dearer(4_900.0, 4_400.0) == ["recompiles", "communication_bound"]

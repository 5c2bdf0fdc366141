from __future__ import annotations

from pathlib import Path

from tests.analysis.traces.across_ranks.written_jobs import comparison_of, gpu_job
from tests.analysis.traces.written_traces import event


def test_a_pause_of_all_ranks_is_found_with_what_the_hosts_did(tmp_path: Path) -> None:
    idle = comparison_of(tmp_path, gpu_job(pause_us={3: 600_000.0})).idle
    longest = max(idle.intervals, key=lambda i: i.length_ns)
    assert 600_000_000 <= longest.length_ns < 612_000_000
    assert longest.host.startswith("enumerate(DataLoader)#")
    assert longest.hosts_alike == 4
    assert longest.step == 2  # idle begins when the work of the step before is done
    assert idle.total_ns >= longest.length_ns
    assert idle.share > 0.8


def test_while_one_rank_works_or_communicates_the_ranks_are_not_idle_together(
    tmp_path: Path,
) -> None:
    traces = gpu_job(pause_us={3: 600_000.0})
    at = next(e for e in traces[1] if e["name"] == "ProfilerStep#3")["ts"]
    traces[1].append(
        event("gemm_alone", at, 600_000.0, cat="kernel", tid=7, stream=7, correlation=77)
    )
    idle = comparison_of(tmp_path, traces).idle
    assert max(i.length_ns for i in idle.intervals) < 20_000_000


def test_clocks_are_aligned_first(tmp_path: Path) -> None:
    traces = gpu_job(pause_us={3: 600_000.0})
    traces[1] = [dict(e, ts=e["ts"] + 900_000.0) for e in traces[1]]
    hosts = ["node-a", "node-b", "node-a", "node-a"]
    idle = comparison_of(tmp_path, traces, hosts).idle
    assert max(i.length_ns for i in idle.intervals) >= 600_000_000


def test_ranks_that_are_busy_at_all_times_have_none(tmp_path: Path) -> None:
    traces = gpu_job(ranks=2)
    for events in traces:
        events.append(
            event("gemm_long", 1_000.0, 200_000.0, cat="kernel", tid=9, stream=9, correlation=7)
        )
    idle = comparison_of(tmp_path, traces).idle
    assert (idle.intervals, idle.total_ns, idle.share) == ((), 0, 0.0)

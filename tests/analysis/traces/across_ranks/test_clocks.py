from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from faultline.analysis.traces.across_ranks.comparison import compare
from tests.analysis.traces.across_ranks.written_jobs import comparison_of, gpu_job, summaries_of
from tests.analysis.traces.written_traces import event, job

LATE = {(2, step): 6_000.0 for step in range(8)}


def test_clocks_of_other_hosts_are_aligned_by_the_ends_of_collectives(tmp_path: Path) -> None:
    traces = job(late_us=LATE, clock_us={0: 0.0, 1: 0.0, 2: -250_000.0, 3: -250_000.0})
    found = comparison_of(tmp_path, traces, ["node-a", "node-a", "node-b", "node-b"])
    assert found.clocks.offset.tolist() == [0, 0, -250_000_000, -250_000_000]
    assert found.clocks.by == "host"
    assert [b.rank for b in found.stragglers] == [2]
    assert found.blame.ranks[2].blame_ns == 8 * 5_999_000
    assert found.steps[0].ms("communication wait") > 5.9


def test_clocks_that_disagree_within_one_host_accuse_nobody(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, job(late_us=LATE, clock_us={3: 8_000.0}))
    assert found.clocks.impossible == 1.0
    assert not found.clocks.agree
    assert found.stragglers == ()
    assert found.why_not is not None
    assert found.why_not.numbers["percent"] == 100.0
    assert found.collectives.by == "shortest duration"
    assert [round(s.ms("communication wait")) for s in found.steps] == [6, 6, 0, 6]


def test_ranks_of_unnamed_hosts_get_clocks_of_their_own_where_their_times_contradict_one(
    tmp_path: Path,
) -> None:
    traces = job(late_us=LATE, clock_us={3: 80_000.0})
    summaries = summaries_of(tmp_path, traces, hosts=["", "", "", ""])
    unnamed = [replace(s, host=None) for s in summaries]
    found = compare(unnamed)
    assert found.clocks.by == "rank"
    assert found.clocks.offset.tolist() == [0, 0, 0, 80_000_000]
    assert [b.rank for b in found.stragglers] == [2]


def test_hosts_that_share_no_group_with_the_first_are_reached_through_others(
    tmp_path: Path,
) -> None:
    traces = gpu_job(ranks=3)
    groups = {0: ["a"], 1: ["a", "b"], 2: ["b"]}
    shift = [0.0, 5_000.0, -7_000.0]
    for rank, events in enumerate(traces):
        kernels = [e for e in events if e["name"].startswith("nccl")]
        kept = [e for e in events if e not in kernels]
        for e in kernels:
            for name in groups[rank]:
                kept.append(dict(e, args=e["args"] | {"Process Group Name": name, "Group size": 2}))
        traces[rank] = [dict(e, ts=e["ts"] + shift[rank]) for e in kept]
    found = comparison_of(tmp_path, traces, ["node-a", "node-b", "node-c"])
    assert found.clocks.offset.tolist() == [0, 5_000_000, -7_000_000]


def test_a_job_without_collectives_keeps_its_clocks(tmp_path: Path) -> None:
    traces = [[event("aten::mm", 10.0, 5.0)] for _ in range(2)]
    found = comparison_of(tmp_path, traces, ["node-a", "node-b"])
    assert found.clocks.offset.tolist() == [0, 0]
    assert found.collectives.rows == ()

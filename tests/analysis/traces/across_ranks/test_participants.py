from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faultline.analysis.traces.across_ranks.comparison import compare, participants
from tests.analysis.traces.across_ranks.written_jobs import gpu_job, summaries_of
from tests.analysis.traces.written_traces import job


def test_missing_ranks_are_counted_and_named(tmp_path: Path) -> None:
    summaries = summaries_of(tmp_path, job(), world=6)
    found = participants([summaries[0], summaries[3]])
    assert (found.world_size, found.missing_count, found.missing) == (6, 4, (1, 2, 4, 5))
    assert found.numbers == (0, 3)


def test_a_world_of_any_size_is_listed_only_in_part(tmp_path: Path) -> None:
    (first, *_) = summaries_of(tmp_path, job())
    found = participants([replace(first, world_size=2_000_000)])
    assert found.missing_count == 1_999_999
    assert len(found.missing) == 1_000


def test_of_two_files_of_one_rank_the_later_counts(tmp_path: Path) -> None:
    summaries = summaries_of(tmp_path, job())
    older = replace(summaries[1], file="old.json", start_ns=summaries[1].start_ns - 5)
    found = participants([*summaries, older])
    assert [s.file for s in found.left_out] == ["old.json"]
    assert found.numbers == (0, 1, 2, 3)


def test_ranks_that_recorded_other_steps_are_told(tmp_path: Path) -> None:
    traces = job()
    traces[1] = [e for e in traces[1] if e["name"] != "ProfilerStep#0"]
    found = participants(summaries_of(tmp_path, traces))
    assert found.steps == tuple(range(1, 8))
    assert [(d.rank, d.missing, d.extra) for d in found.different_steps] == [(1, (0,), ())]


def test_steps_between_optimizers_are_numbered_alike(tmp_path: Path) -> None:
    traces = [
        [e for e in events if not e["name"].startswith("ProfilerStep")]
        for events in gpu_job(late_us={1: 8e3})
    ]
    optimizers = sorted(e["ts"] for e in traces[0] if e["name"].startswith("Optimizer.step"))
    traces[0] = [e for e in traces[0] if e["ts"] > optimizers[0] + 1_000.0]
    summaries = summaries_of(tmp_path, traces)
    assert [len(s.steps) for s in summaries] == [4, 5, 5, 5]
    assert all(s.steps.inferred for s in summaries)
    found = compare(summaries)
    assert found.job.steps == (1, 2, 3, 4)
    assert [b.rank for b in found.stragglers] == [1]


def test_ranks_captured_at_other_times_have_no_step_in_common(tmp_path: Path) -> None:
    traces = [
        [e for e in events if not e["name"].startswith("ProfilerStep")]
        for events in gpu_job(ranks=2)
    ]
    traces[1] = [dict(e, ts=e["ts"] + 5e6) for e in traces[1]]
    found = compare(summaries_of(tmp_path, traces))
    assert found.job.steps == ()
    assert found.why_not is not None
    assert found.why_not.numbers["steps"] == 0.0


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no summaries"):
        compare([])

"""Recorded jobs, most of them with a label that says what was done to them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from faultline.analysis.traces.across_ranks.comparison import RankComparison, compare
from faultline.analysis.traces.across_ranks.rank_summary import from_json, summarise, to_json
from faultline.analysis.traces.reading.kineto import read_traces

CASES = Path(__file__).resolve().parents[4] / "demo" / "cases"
PERSISTENT = ("straggler", "straggler_compute")


@cache
def compared(folder: Path) -> RankComparison:
    """The comparison of a job, made once for all that is asked of it."""
    files = sorted(
        p
        for p in folder.iterdir()
        if p.name.endswith((".json", ".json.gz")) and p.name != "label.json"
    )
    traces, errors = read_traces(files)
    assert not errors
    return compare(from_json(to_json(summarise(t))) for t in traces)


def labelled(shared: Path) -> list[tuple[dict[str, object], Path]]:
    folders = [p.parent for p in sorted((shared / "traces" / "generated").glob("*/label.json"))]
    with_traces = [f for f in folders if any(f.glob("*.pt.trace.json.gz"))]
    return [(json.loads((f / "label.json").read_text()), f) for f in with_traces]


def test_the_labelled_culprits_are_blamed_and_nobody_else(shared: Path) -> None:
    seen = 0
    for label, folder in labelled(shared):
        found = compared(folder)
        assert found.comparable, folder.name
        culprits = label["culprit_ranks"] or []
        stragglers = [b.rank for b in found.stragglers]
        paused = [s.rank for s in found.slow_steps]
        if str(label["cause"]).startswith("straggler"):
            assert stragglers == culprits, folder.name
        elif label["cause"] in ("checkpoint", "gc"):
            assert (stragglers, paused) == ([], culprits), folder.name
        else:
            assert (stragglers, paused) == ([], []), folder.name
        seen += 1
    assert seen >= 9


def test_only_the_job_without_overlap_reduces_after_the_backward_pass(shared: Path) -> None:
    for label, folder in labelled(shared):
        overlaps = compared(folder).all_reduce
        told = all(o is not None and o.none_overlaps for o in overlaps)
        assert told == (label["scenario"] == "no_overlap"), folder.name


def test_every_recorded_step_adds_up(shared: Path) -> None:
    for _, folder in labelled(shared):
        for own in compared(folder).steps:
            assert sum(own.parts.values()).tolist() == own.length.tolist()


def test_the_checkpoint_of_one_rank_is_named(shared: Path) -> None:
    (slow,) = compared(shared / "traces" / "generated" / "checkpoint_stall").slow_steps
    assert (slow.rank, slow.step) == (0, 11)
    assert slow.operation is not None
    assert slow.operation.name == "## save_checkpoint ##"
    assert slow.idle_host == "## save_checkpoint ##"


def test_fully_sharded_jobs_are_told_by_their_gathers(shared: Path) -> None:
    told = {folder.name for _, folder in labelled(shared) if compared(folder).fsdp}
    assert told == {"fsdp_healthy"}


def test_one_step_of_eight_gpus_is_mostly_waiting_and_accuses_nobody(shared: Path) -> None:
    found = compared(shared / "traces" / "param" / "dlrm_kineto_8rank")
    assert found.stragglers == ()
    assert found.why_not is not None
    assert found.why_not.numbers == {"steps": 1.0, "steps_needed": 3.0}
    assert (len(found.matched), found.matched.unmatched) == (8, 0)
    assert found.clocks.impossible == 0.0
    assert sum(r.wait for r in found.collectives.rows) > 20 * sum(
        r.transfer for r in found.collectives.rows
    )
    biggest = next(
        r for r in found.collectives.rows if r.operation == "all_reduce" and r.bytes == 4 * 394241
    )
    assert biggest.bus_bandwidth == pytest.approx(
        30, abs=10
    )  # NVLink of a V100: 2 x 6 x 25 GB/s at best
    assert max(found.blame.ranks, key=lambda b: b.last_arrivals).rank == 7
    assert found.slow_devices == ()


def test_two_of_128_ranks_show_their_own_times_only(shared: Path) -> None:
    found = compared(shared / "traces" / "hta" / "trace_filter")
    assert found.job.missing_count == 126
    assert found.why_not is not None
    assert found.why_not.numbers == {"ranks": 2.0, "world_size": 128.0}
    assert all(row.at_least and row.ranks == 128 for row in found.collectives.rows)
    assert [s.ms("idle") > 300 for s in found.steps] == [True, True]


def test_profiles_taken_on_demand_have_steps_between_optimizers(shared: Path) -> None:
    found = compared(shared / "traces" / "debug_server")
    assert len(found.job.steps) == 14
    assert found.comparable
    part = found.extra_part(1)
    assert part is not None
    assert part.name == "other"


@pytest.mark.skipif(not CASES.is_dir(), reason="the recorded demo cases are not there")
def test_the_recorded_demo_cases_are_read_as_they_were_made() -> None:
    slow = compared(CASES / "slow-rank" / "traces")
    assert [b.rank for b in slow.stragglers] == [2]
    part = slow.extra_part(2)
    assert part is not None
    assert part.name == "data loading"
    healthy = compared(CASES / "healthy-training" / "traces")
    assert healthy.comparable
    assert (healthy.stragglers, healthy.slow_steps) == ((), ())

"""Hundreds of simulated jobs with tensor, data and pipeline parallelism: the culprits, and nobody
else."""

from __future__ import annotations

import pytest

from faultline.analysis.traces.flight_recorder.entries import dump_of
from faultline.analysis.traces.flight_recorder.hang import HangAnalysis, hang_analysis
from faultline.analysis.traces.flight_recorder.job_state import job_state
from tests.analysis.traces.flight_recorder.simulated_job import SimulatedJob, hanging_job

SEEDS = range(40)


def _analysed(
    job: SimulatedJob, *, only_active: bool = True, without: int | None = None
) -> HangAnalysis:
    written = [w for w in job.recorders() if w.rank != without]
    dumps = [
        dump_of(w.dump(only_active=only_active), w.rank, "order", str(w.rank), "pickle", False)
        for w in written
    ]
    return hang_analysis(job_state([d for d in dumps if d is not None]))


@pytest.mark.parametrize("only_active", [True, False])
def test_a_host_that_is_stuck_is_always_named_alone(only_active: bool) -> None:
    for seed in SEEDS:
        job, culprits = hanging_job(seed, "host")
        found = _analysed(job, only_active=only_active)
        assert (seed, found.kind, set(found.culprits)) == (seed, "outside", culprits)


def test_a_device_that_failed_is_named_wherever_a_collective_ended_elsewhere_and_nobody_else_ever_is() -> (  # noqa: E501
    None
):
    named = 0
    for seed in SEEDS:
        job, culprits = hanging_job(seed, "device")
        found = _analysed(job)
        assert set(found.culprits) <= culprits, seed
        named += set(found.culprits) == culprits
    assert named >= 0.85 * len(SEEDS)


@pytest.mark.parametrize("kind", ["host", "device"])
def test_of_two_ranks_at_fault_no_victim_is_named(kind: str) -> None:
    for seed in SEEDS:
        job, culprits = hanging_job(seed, kind, faults=2)
        assert set(_analysed(job).culprits) <= culprits, seed


def test_a_rank_that_died_without_a_dump_is_named_alone() -> None:
    for seed in SEEDS:
        job, culprits = hanging_job(seed, "host")
        dead = min(culprits)
        found = _analysed(job, without=dead)
        assert (seed, found.kind, found.culprits) == (seed, "absent", (dead,))


def test_a_job_that_ends_hangs_nowhere() -> None:
    job = SimulatedJob(2, 2, 2)
    job.run(ahead=10)
    assert _analysed(job, only_active=False).kind == ""

"""What the doctor says of simulated jobs on several GPUs: the fault that was put in, its culprit,
and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.rules import diagnose
from tests.analysis.traces.doctor.simulated_jobs import (
    GB,
    Floats,
    Recording,
    SimulatedJob,
    simulate,
)
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given

SHAPES = ("ddp", "fsdp", "tensor")
CULPRIT = 2


def small(shape: str, **values: Any) -> SimulatedJob:
    chosen: dict[str, Any] = {"shape": shape, "ranks": 4, "tensor": 2, "steps": 5, "layers": 3}
    return SimulatedJob(**(chosen | values))


def seen(
    job: SimulatedJob, folder: Path
) -> tuple[list[JobDiagnosis], list[JobDiagnosis], Recording]:
    """What accuses, what informs, and the truth."""
    recording = simulate(job)
    found = diagnose(recording.job(folder))
    for d in found:
        assert quoted_numbers_are_given(d.statement, dict(d.numbers)), d.statement
    accused = [d for d in found if d.severity != "info"]
    return accused, [d for d in found if d.severity == "info"], recording


def lost_ms(job: SimulatedJob, recording: Recording) -> float:
    """What the faults cost: mean milliseconds per step beside the same job without them."""
    values = {name: one for name, one in vars(job).items() if not isinstance(one, np.ndarray)}
    healthy_us = healthy_steps(tuple(values.items()))
    return float((recording.step_us - healthy_us).mean() / 1e3)


@cache
def healthy_steps(values: tuple[tuple[str, Any], ...]) -> Floats:
    """How long each step takes of the job with these values and no fault, in microseconds."""
    return simulate(SimulatedJob(**dict(values))).step_us


HEALTHY: dict[str, dict[str, Any]] = {
    "usual": {},
    "nothing read back, the host steps ahead": {"reads": 0},
    "two hosts, clocks 50 ms apart": {"hosts_of": 2, "clock_us": 50_000.0},
    "durations that vary by 8 %": {"jitter": 0.08, "seed": 3},
    "compiled once": {"recompiled": 1},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", HEALTHY)
def test_a_healthy_job_is_left_alone(shape: str, kind: str, tmp_path: Path) -> None:
    accused, informed, _ = seen(small(shape, **HEALTHY[kind]), tmp_path)
    assert [d.rule for d in accused + informed] == []


def slow_device(job: SimulatedJob) -> None:
    job.kernel_factor[:, CULPRIT] = 1.5


def slow_input(job: SimulatedJob) -> None:
    job.data_us[:, CULPRIT] = 30_000.0


def slow_host(job: SimulatedJob) -> None:
    job.host_factor[:, CULPRIT] = 40.0


STRAGGLERS: dict[str, Callable[[SimulatedJob], None]] = {
    "device": slow_device,
    "input": slow_input,
    "host": slow_host,
}


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cause", STRAGGLERS)
def test_a_straggler_is_named_with_its_cause_and_what_it_costs(
    shape: str, cause: str, reads: int, tmp_path: Path
) -> None:
    job = small(shape, reads=reads, hosts_of=2, clock_us=20_000.0)
    STRAGGLERS[cause](job)
    accused, _, recording = seen(job, tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [("straggler", (CULPRIT,))]
    assert accused[0].numbers["wait_ms_per_step"] == pytest.approx(
        lost_ms(job, recording), rel=0.25
    )
    assert accused[0].details["cause"] == cause


@pytest.mark.parametrize("shape", ["ddp", "fsdp"])
@pytest.mark.parametrize("cause", ["device", "input"])
def test_two_ranks_that_are_late_at_once_are_named_together(
    shape: str, cause: str, tmp_path: Path
) -> None:
    job = small(shape, ranks=8, hosts_of=4)
    for rank in (1, 6):
        job.kernel_factor[:, rank] = 1.5 if cause == "device" else 1.0
        job.data_us[:, rank] = 30_000.0 if cause == "input" else 200.0
    accused, _, recording = seen(job, tmp_path)
    assert [(d.rule, d.ranks, d.details["cause"]) for d in accused] == [
        ("straggler", (1, 6), cause)
    ]
    assert accused[0].numbers["wait_ms_per_step"] == pytest.approx(
        lost_ms(job, recording), rel=0.25
    )


def test_the_heat_of_a_whole_host_is_told_once_and_against_the_other_host(tmp_path: Path) -> None:
    job = small("ddp", ranks=8, hosts_of=4)
    job.kernel_factor[:, 4:] = 1.4
    accused, _, _ = seen(job, tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [("slow_kernels", (4, 5, 6, 7))]
    assert accused[0].numbers["ratio"] == pytest.approx(1.4, abs=0.03)


@pytest.mark.parametrize("shape", SHAPES)
def test_slow_ranks_that_take_turns_are_no_stragglers(shape: str, tmp_path: Path) -> None:
    job = small(shape, steps=8)
    for step in range(job.steps):
        job.kernel_factor[step, step % job.ranks] = 1.6
    accused, _, _ = seen(job, tmp_path)
    assert [d.rule for d in accused] == []


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_pause_is_no_straggler(shape: str, reads: int, tmp_path: Path) -> None:
    job = small(shape, reads=reads, pause_name="torch.save")
    job.pause[3, CULPRIT] = 400_000.0
    accused, _, _ = seen(job, tmp_path)
    assert [(d.rule, d.ranks, d.steps) for d in accused] == [("slow_step", (CULPRIT,), (13,))]
    assert "`torch.save` took 400 ms" in accused[0].statement


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pause_of_all_ranks_is_nobodys(shape: str, tmp_path: Path) -> None:
    job = small(shape)
    job.pause[3, :] = 700_000.0
    accused, _, _ = seen(job, tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [("slow_step_everywhere", ())]


def waiting_for_input(job: SimulatedJob) -> None:
    job.data_us[:] = np.random.default_rng(job.seed).lognormal(
        np.log(15_000.0), 0.3, job.data_us.shape
    )


CAUSES: dict[str, dict[str, Any]] = {
    "tiny_kernels": {"unit_us": 5.0, "layers": 12, "copy_us": 5.0},
    "pageable_copies": {"pinned": False, "copy_us": 3_000.0},
    "allocator_calls": {"mallocs": 4},
    "host_syncs": {"unit_us": 150.0, "reads": 60},
    "recompiles": {"recompiled": 5, "compile_us": 30_000.0},
    "memory_growth": {"held_bytes": 30 * 2**20},
    "memory_pressure": {"reserved_bytes": int(78.5 * GB)},
}


@pytest.mark.parametrize("rule", CAUSES)
def test_what_all_ranks_share_is_said_once(rule: str, tmp_path: Path) -> None:
    accused, _, _ = seen(small(SHAPES[len(rule) % 3], **CAUSES[rule]), tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [(rule, ())]


@pytest.mark.parametrize("shape", SHAPES)
def test_loaders_that_all_wait_for_are_no_straggler(shape: str, tmp_path: Path) -> None:
    job = small(shape)
    waiting_for_input(job)
    accused, _, _ = seen(job, tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [("dataloader_stall", ())]


COMMUNICATION: dict[str, tuple[str, dict[str, Any]]] = {
    "no_overlap": ("ddp", {"overlap": False, "transfer": 1.5}),
    "fsdp_exposed": ("fsdp", {"prefetch": False}),
    "communication": ("ddp", {"transfer": 8.0}),
}


@pytest.mark.parametrize("rule", COMMUNICATION)
def test_communication_that_costs_time_is_named(rule: str, tmp_path: Path) -> None:
    shape, values = COMMUNICATION[rule]
    accused, _, _ = seen(small(shape, **values), tmp_path)
    assert [(d.rule, d.ranks) for d in accused] == [(rule, ())]


def test_matrix_products_without_tensor_cores_are_information(tmp_path: Path) -> None:
    accused, informed, _ = seen(small("ddp", tensor_cores=False), tmp_path)
    assert ([d.rule for d in accused], [d.rule for d in informed]) == ([], ["tensor_cores_unused"])


def test_a_full_launch_queue_is_information(tmp_path: Path) -> None:
    accused, informed, _ = seen(small("ddp", ranks=2, steps=4, layers=60, reads=0), tmp_path)
    assert ([d.rule for d in accused], [d.rule for d in informed]) == ([], ["launch_queue_full"])


def captured(
    job: SimulatedJob, folder: Path, change: Callable[[list[dict[str, Any]]], object]
) -> list[tuple[str, str]]:
    recording = simulate(job)
    change(recording.documents)
    return [(d.rule, d.severity) for d in diagnose(recording.job(folder))]


def test_a_rank_without_a_trace_limits_what_is_said(tmp_path: Path) -> None:
    job = small("ddp")
    slow_device(job)
    found = captured(job, tmp_path, lambda documents: documents.pop(0))
    assert found == [("straggler", "critical"), ("capture_limited", "info")]


def test_ranks_that_recorded_one_step_are_not_compared(tmp_path: Path) -> None:
    job = small("ddp", steps=1)
    slow_input(job)
    found = captured(job, tmp_path, lambda documents: None)
    assert ("capture_limited", "info") in found
    assert all(severity == "info" for _, severity in found)


def test_lost_events_accuse_nobody(tmp_path: Path) -> None:
    """One in ten of the events of one rank is gone."""

    def lose(documents: list[dict[str, Any]]) -> None:
        random = np.random.default_rng(0)
        kept = random.random(len(documents[1]["traceEvents"])) > 0.1
        events = documents[1]["traceEvents"]
        documents[1]["traceEvents"] = [
            e
            for e, keep in zip(events, kept, strict=True)
            if keep or e["name"].startswith("ProfilerStep")
        ]

    assert all(severity == "info" for _, severity in captured(small("ddp"), tmp_path, lose))

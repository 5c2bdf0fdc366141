"""A job that communicates for much of its time is never called well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.analysis.traces.device_traces import NCCL, kernel, launch
from tests.analysis.traces.doctor.written_ranks import (
    accused,
    gpu_steps,
    job_from,
    one_rank,
    quoted_numbers_are_given,
    the,
)
from tests.analysis.traces.written_traces import event, job


def reduces(us: float) -> Any:
    """An all_reduce after the computation of each step."""

    def extra(step: int, at: float) -> list[dict[str, Any]]:
        correlation = 500_000 + step
        return [
            launch(at + 200, 3, correlation),
            kernel(NCCL, at + 4_500, us, stream=20, correlation=correlation),
        ]

    return extra


def test_a_single_rank_of_a_job_shows_it_too(tmp_path: Path) -> None:
    bound = the("communication_bound", one_rank(tmp_path, gpu_steps(reduces(5_000), busy_us=4_000)))
    assert bound.severity == "warning"
    assert bound.statement == (
        "rank 0 spends 51 % of the time in communication that no computation hides; for 100 % of "
        "it the host has launched nothing to overlap with"
    )
    assert quoted_numbers_are_given(bound.statement, dict(bound.numbers))


def test_below_two_fifths_it_is_not_said(tmp_path: Path) -> None:
    events = gpu_steps(reduces(3_000), busy_us=4_000)
    assert "communication_bound" not in accused(one_rank(tmp_path, events))


def test_communication_beside_computation_costs_nothing(tmp_path: Path) -> None:
    assert accused(one_rank(tmp_path, gpu_steps(reduces(4_500), busy_us=9_000))) == []


def test_on_a_cpu_waiting_and_transfer_are_told_apart(tmp_path: Path) -> None:
    ranks = job(ranks=2, steps=8)
    for events in ranks:
        for one in events:
            if one["name"] == "gloo:all_reduce":
                # It takes until the end of the step, and nothing runs beside it.
                one["dur"] = 6_500.0
    found = the("communication_bound", job_from(tmp_path, ranks))
    assert found.statement.startswith("all 2 ranks spend 65 % of the time in communication")
    assert "wait for the other ranks and" in found.statement
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_who_waits_for_input_is_not_called_bound_by_communication(tmp_path: Path) -> None:
    def loading(step: int, at: float) -> list[dict[str, Any]]:
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        load = event(name, at + 1_300, 3_000, cat="user_annotation") | {"pid": 100}
        return [load, *reduces(5_000)(step, at)]

    found = accused(one_rank(tmp_path, gpu_steps(loading, busy_us=900)))
    assert "dataloader_stall" in found
    assert "communication_bound" not in found

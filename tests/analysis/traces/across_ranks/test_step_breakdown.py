from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.across_ranks.step_breakdown import PARTS
from tests.analysis.traces.across_ranks.written_jobs import comparison_of, gpu_job
from tests.analysis.traces.written_traces import job

LATE = {(2, step): 6_000.0 for step in range(8)}


def test_the_parts_of_every_step_add_up_to_it(tmp_path: Path) -> None:
    for name, traces in {
        "host": job(late_us=LATE),
        "device": gpu_job(late_us={1: 3_000.0}),
    }.items():
        for own in comparison_of(tmp_path / name, traces).steps:
            assert tuple(own.parts) == PARTS
            assert sum(own.parts.values()).tolist() == own.length.tolist()
            assert all((ns >= 0).all() for ns in own.parts.values())


def test_waiting_and_transfer_are_taken_out_of_the_phases(tmp_path: Path) -> None:
    steps = comparison_of(tmp_path, job(late_us=LATE)).steps
    assert [round(s.ms("forward pass"), 1) for s in steps] == [2.0, 2.0, 8.0, 2.0]
    assert [round(s.ms("backward pass"), 1) for s in steps] == [0.0] * 4
    assert [round(s.ms("communication wait")) for s in steps] == [6, 6, 0, 6]
    assert [round(s.ms("communication transfer"), 1) for s in steps] == [1.0] * 4
    assert [round(s.data_share, 3) for s in steps] == [0.05] * 4


def test_on_an_accelerator_computation_belongs_to_the_phase_that_launched_it(
    tmp_path: Path,
) -> None:
    own = comparison_of(tmp_path, gpu_job(late_us={1: 3_000.0})).steps[0]
    told = {part: round(own.ms(part), 3) for part in PARTS}
    assert told == {
        "data loading": 0.2,
        "forward pass": 3.0,
        "backward pass": 4.0,
        "optimizer": 0.5,
        "communication wait": 3.0,
        "communication transfer": 2.0,
        "copies": 0.0,
        "idle": 7.3,
        "other": 0.0,
    }
    assert own.step_ms == pytest.approx(20.0)


def test_the_breakdown_of_one_rank_alone_holds_waiting_in_transfer(tmp_path: Path) -> None:
    found = comparison_of(tmp_path, gpu_job(ranks=1))
    assert found.steps[0].ms("communication wait") == 0.0
    assert found.steps[0].ms("communication transfer") == pytest.approx(2.0)

"""Sentences, header, table and bar speak of one step: the mean one, as all times per step are
means."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.across_ranks.step_breakdown import PARTS
from faultline.analysis.traces.doctor.nothing_wrong import nothing_wrong
from tests.analysis.traces.across_ranks.written_jobs import gpu_job
from tests.analysis.traces.doctor.written_ranks import gpu_steps, job_from, the
from tests.analysis.traces.written_traces import job

ONE_LONG_STEP = {(rank, 3): 40_000.0 for rank in range(4)}


def test_a_step_is_as_long_as_its_parts_together(tmp_path: Path) -> None:
    found = job_from(tmp_path, job(late_us=ONE_LONG_STEP))
    parts = [sum(s.ms(part) for part in PARTS) for s in found.steps_of_ranks]
    assert found.step_ns / 1e6 == pytest.approx(sum(parts) / len(parts))
    assert nothing_wrong(found).startswith("nothing wrong: 8 steps of 14 ms")


def test_what_is_exposed_is_told_of_the_step_that_it_is_a_part_of(tmp_path: Path) -> None:
    found = job_from(tmp_path, gpu_job(after_backward=True))
    told = the("no_overlap", found).numbers
    assert told["step_ms"] == round(found.step_ns / 1e6, 1 if found.step_ns < 1e7 else 0)
    assert told["exposed_ms"] <= told["step_ms"]


def test_what_is_told_of_several_ranks_is_no_single_ranks_number(tmp_path: Path) -> None:
    traces = [gpu_steps(busy_us=2.0 * count, kernels=count) for count in (200, 300)]
    found = the("tiny_kernels", job_from(tmp_path, traces))
    assert found.statement.startswith("all 2 ranks launch 250 kernels per step")

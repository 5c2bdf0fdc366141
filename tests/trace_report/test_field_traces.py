"""Profiler traces with conditions that people reported in public, made again, and what is right to
say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trace_report.command import trace

TRACES = Path(__file__).parents[1] / "data" / "field" / "traces"


def read(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(trace("--json", TRACES / f"{name}.json.gz").stdout)
    return result


def first_line(name: str) -> str:
    """The line under the title: what the report says first."""
    return trace(TRACES / f"{name}.json.gz").stdout.split("\n\n")[1]


def test_events_without_a_time_are_counted_as_dropped() -> None:
    """pytorch#188481: `ts` and `dur` of half of the events are 0."""
    dropped = read("half_of_events_at_zero")["dropped"]["events"]
    assert dropped == {
        "half_of_events_at_zero.json.gz": {"events with a time outside the trace": 190}
    }


@pytest.mark.xfail(strict=True, reason="a loss of half of the events is noted at the end alone")
def test_a_trace_that_lost_half_of_its_events_is_not_said_to_be_fine() -> None:
    """pytorch#188481."""
    said = first_line("half_of_events_at_zero")
    assert "Nothing wrong" not in said
    assert "190" in said


@pytest.mark.xfail(strict=True, reason="durations are taken as they are")
def test_a_kernel_that_would_run_over_the_next_ones_of_its_stream_makes_no_long_step() -> None:
    """TraceLens#669: kernels of one stream run one after the other."""
    result = read("impossible_durations")
    assert result["summary"]["mean_step_ms"] == pytest.approx(90, rel=0.02)
    assert result["dropped"]["events"]


@pytest.mark.xfail(strict=True, reason="only `correlation` links a kernel with its launch")
def test_kernels_are_linked_by_their_external_id_where_there_is_no_correlation() -> None:
    """chakra#128."""
    (launches, *_) = read("no_correlation")["analyses"]["launches"]
    assert (launches["count"], launches["work_without_launch"]) == (126, 0)


@pytest.mark.xfail(strict=True, reason="only their numbers tell steps apart")
def test_steps_whose_numbers_come_again_are_steps_too() -> None:
    """A schedule that repeats begins to count again."""
    assert read("repeated_step_numbers")["summary"]["steps"] == 12


@pytest.mark.xfail(strict=True, reason="the work of the GPU is spread over all steps")
def test_a_recording_of_the_gpu_that_ends_early_is_said_to_end() -> None:
    """TraceLens#972: 30 of 32 steps have no event of the GPU."""
    said = first_line("steps_without_gpu")
    assert "busy 92 %" not in said
    assert "2 of 32 steps" in said

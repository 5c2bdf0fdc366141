"""Ranks written by the tests for the doctor: a few steps on a GPU whose times are known, plus what
a test adds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.device_traces import GEMM, kernel, launch
from tests.analysis.traces.written_traces import document, event, write_trace

STEPS, STEP_US = 6, 10_000.0
Extra = Callable[[int, float], list[dict[str, Any]]]
"""What a test adds to a step: its number and start in us."""


def gpu_steps(
    extra: Extra = lambda step, at: [],
    *,
    steps: int = STEPS,
    busy_us: float = 9_000.0,
    kernels: int = 20,
) -> list[dict[str, Any]]:
    """Steps of 10 ms in which the GPU runs `kernels` matrix products of `busy_us` in all, one after
    another."""
    events: list[dict[str, Any]] = []
    for step in range(steps):
        at = 1_000.0 + step * STEP_US
        events.append(
            event(f"ProfilerStep#{step}", at, STEP_US, cat="user_annotation") | {"pid": 100}
        )
        each = busy_us / kernels
        for i in range(kernels):
            correlation = 1_000 * (step + 1) + i
            events.append(launch(at + 5.0 * i, 3.0, correlation))
            events.append(kernel(GEMM, at + 200.0 + i * each, each, correlation=correlation))
        events += extra(step, at)
    return events


def read(
    folder: Path, events: list[dict[str, Any]], header: dict[str, Any] | None = None
) -> TraceColumns:
    """The events as one rank's trace."""
    return read_trace(
        write_trace(folder / "rank0.json", document(events, world=1) | (header or {}))
    )


def one_rank(
    folder: Path, events: list[dict[str, Any]], header: dict[str, Any] | None = None
) -> TrainingJob:
    """A job of this one rank."""
    return job_of([summarise(read(folder, events, header))])


def job_from(
    folder: Path, traces: list[list[dict[str, Any]]], world: int | None = None
) -> TrainingJob:
    """A job of one trace per rank."""
    paths = [
        write_trace(folder / f"rank{rank}.json", document(events, rank, world or len(traces)))
        for rank, events in enumerate(traces)
    ]
    return job_of([summarise(read_trace(p)) for p in paths])


def accused(job: TrainingJob) -> list[str]:
    """The rules that accuse."""
    return [d.rule for d in diagnose(job) if d.severity != "info"]


def informed(job: TrainingJob) -> list[str]:
    """The rules that inform."""
    return [d.rule for d in diagnose(job) if d.severity == "info"]


def the(rule: str, job: TrainingJob) -> JobDiagnosis:
    """The one diagnosis of a rule."""
    (found,) = [d for d in diagnose(job) if d.rule == rule]
    return found


def quoted_numbers_are_given(sentence: str, numbers: dict[str, float]) -> bool:
    """Every number of the sentence, names of operations aside, is among the numbers."""
    said = re.sub(r"`[^`]*`", "", sentence)
    return all(
        float(n) in numbers.values()
        for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?", said)
    )

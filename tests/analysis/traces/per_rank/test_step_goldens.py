"""Profiler steps and their times as HTA gives them, on every set."""

from __future__ import annotations

import pytest

from faultline.analysis.traces.columns.steps import steps_of
from tests.analysis.traces.goldens import golden, sets_with, views_of


@pytest.mark.parametrize("set_name", sets_with("profiler_steps"))
def test_step_numbers_are_those_of_hta(set_name: str) -> None:
    """Where a trace has no step annotations we infer steps between optimizer steps; HTA has
    none."""
    found = [steps_of(view) for view in views_of(set_name).values()]
    numbers = {n for steps in found if not steps.inferred for n in steps.number.tolist()}
    assert sorted(numbers) == golden(set_name, "profiler_steps")


@pytest.mark.parametrize("set_name", sets_with("iteration_info"))
def test_step_times_are_those_of_hta(set_name: str) -> None:
    """HTA takes a step's copy on the device for another one of the same number; we take the
    host's."""
    views = views_of(set_name)
    origin = min(int(view.ts.min()) for view in views.values())
    said: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in golden(set_name, "iteration_info"):
        said.setdefault((row["rank"], row["iter"]), []).append(
            (row["ts"] * 1000, row["dur"] * 1000)
        )
    found = {
        (rank, number): (start - origin, end - start)
        for rank, view in views.items()
        if not (steps := steps_of(view)).inferred
        for number, start, end in zip(
            steps.number.tolist(), steps.start.tolist(), steps.end.tolist(), strict=True
        )
    }
    assert set(found) == set(said)
    for key, times in found.items():
        assert times in said[key]

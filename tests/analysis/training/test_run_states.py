from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.training.run_states import run_states
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case


def ended(folder: Path, state: str, minute: float = 5) -> list[Finding]:
    """The findings of a case with a run that ended so; the incident lasts half an hour."""
    run = {"monitor": "training run r1", "service": "llm", "state": state, "since": at(minute)}
    return run_states(write_case(folder, monitors=[run]))


def test_a_run_that_was_stopped_accuses_less_than_one_that_broke(tmp_path: Path) -> None:
    strength = {}
    for state in ("crashed", "failed", "silent", "killed"):
        (finding,) = ended(tmp_path / state, state)
        strength[state] = finding.strength
    assert strength["crashed"] == strength["failed"] > strength["silent"] > strength["killed"]
    assert strength["killed"] > strength["crashed"] / 2


@pytest.mark.parametrize(("minutes_after", "belongs"), [(8, True), (12, False)])
def test_a_run_may_be_called_crashed_some_minutes_after_the_incident(
    tmp_path: Path, minutes_after: float, *, belongs: bool
) -> None:
    assert bool(ended(tmp_path, "crashed", 30 + minutes_after)) is belongs

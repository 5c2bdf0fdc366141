"""Real jobs of four processes that hang: PyTorch writes the dumps, we name the rank."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.torch_python import torch_python

JOB = Path(__file__).with_name("hanging_job.py")
SCENARIOS = [
    ("exit", "dead_rank", 1, ""),
    ("subgroup", "flight_recorder_missing_rank", 2, "branch_without_collective (hanging_job.py:"),
    ("left_out", "flight_recorder_missing_rank", 3, "has left out all_reduce 6 of dp_1"),
    (
        "wrong_operation",
        "flight_recorder_mismatch",
        0,
        "calls broadcast at collective 6 of default_pg",
    ),
]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each scenario, of jobs that hung side by side."""
    folder = tmp_path_factory.mktemp("jobs")
    command = [torch_python(), str(JOB), str(folder), *(scenario for scenario, *_ in SCENARIOS)]
    subprocess.run(command, timeout=240, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("scenario", "rule", "culprit", "words"), SCENARIOS)
def test_a_real_job_that_hangs_names_its_culprit(
    jobs: Path, scenario: str, rule: str, culprit: int, words: str
) -> None:
    found = [d for d in hang_diagnoses(sort_job_files([jobs / scenario])) if d.severity != "info"]
    assert [(d.rule, d.ranks) for d in found] == [(rule, (culprit,))]
    assert words in found[0].statement

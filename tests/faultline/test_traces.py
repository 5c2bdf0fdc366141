"""`faultline.traces`: a job's analyses as data frames."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import faultline.traces
from faultline import EvidenceError, SettingsError

TRACES = Path(__file__).parents[2] / "demo" / "cases" / "slow-rank" / "traces"


def test_a_job_is_diagnosed_and_its_tables_are_frames() -> None:
    job = faultline.traces.open(TRACES, analyses=["kernels", "operators"], processes=1)
    assert job.ranks == (0, 1, 2, 3)
    assert job.verdict == "something_wrong"
    assert job.diagnoses[0].ranks == (2,)
    assert job.unread == ()
    operators = job.table("operators")
    assert isinstance(operators, pl.DataFrame)
    assert set(operators["rank"].to_list()) == {0, 1, 2, 3}
    assert job.to_dict()["analyses"]["operators"] == operators.to_dicts()


def test_an_unknown_analysis_or_table_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="kernels"):
        faultline.traces.open(TRACES, analyses=["kernel"])
    job = faultline.traces.open(TRACES, analyses=["idle"], processes=1)
    with pytest.raises(SettingsError, match="idle"):
        job.table("kernels")


def test_files_that_hold_no_trace_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(EvidenceError):
        faultline.traces.open(tmp_path)

"""Without the compiled library everything works, and one line says why it takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

import faultline.traces as ft
from faultline.analysis.traces.native import lane
from tests.trace_report.command import trace, write_job

SLOW = "traces are read in Python, many times slower: there is no compiled library"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lane, "EDITABLE_FOLDER", "no_such_folder")
    return write_job(tmp_path / "job", ranks=1)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_report_says_so_on_standard_error(job: Path, options: list[str]) -> None:
    done = trace(job, *options)
    assert done.returncode == 0
    assert done.stderr.startswith(f"faultline: {SLOW}")
    assert done.stderr.count("\n") == 1


def test_so_does_a_comparison(job: Path) -> None:
    done = trace("diff", job, job)
    assert done.stderr.startswith(f"faultline: {SLOW}")
    assert done.stderr.count("\n") == 1


def test_the_python_library_warns(job: Path) -> None:
    with pytest.warns(RuntimeWarning, match=SLOW):
        assert ft.open(job).ranks == (0,)

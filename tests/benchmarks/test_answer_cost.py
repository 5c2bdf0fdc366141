"""The arithmetic of the benchmark of one answer's cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.answer_cost import analysis_alone, by_name, print_folder
from benchmarks.idle_cost import Usage
from tests.scenarios.small_case import write_small_case


def test_processes_of_one_name_are_added_and_new_ones_count_whole() -> None:
    before = {1: Usage("web", 2.0, 0.0, 0), 2: Usage("nursery", 1.0, 1.0, 0)}
    after = {
        1: Usage("web", 2.5, 0.0, 0),
        2: Usage("nursery", 1.0, 3.0, 0),
        3: Usage("nursery", 0.25, 0.0, 0),
    }
    assert by_name(before, after) == pytest.approx({"web": 0.5, "nursery": 2.25})


def test_the_floor_is_a_whole_analysis(tmp_path: Path) -> None:
    assert 0 < analysis_alone(write_small_case(tmp_path / "case"), tmp_path) < 10
    assert (tmp_path / "alone" / "findings.json").exists()


def test_a_folder_counts_what_it_takes_on_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "a.png").write_bytes(bytes(5000))
    (tmp_path / "b.json").write_bytes(b"{}")
    print_folder(tmp_path)
    first, _, total = capsys.readouterr().out.splitlines()
    assert first.split() == ["8,192", "charts/a.png"]
    assert total.startswith("case folder: 12,288 bytes")

"""What the benchmark of verified answers counts, on a case of which all is known."""

from __future__ import annotations

from pathlib import Path

from benchmarks.verified_answers import counted
from tests.bot.investigation.test_verifying import Errors, World, answered, slow_since_onset


def test_the_same_rows_confirm_and_calm_rows_do_not(tmp_path: Path) -> None:
    case, _ = answered(tmp_path, World(slow_since_onset), Errors())
    found = counted(case.path)
    assert found["confirmed"] == found["asked again"] > 1
    assert found["over"] == found["measured now"] > 1
    assert found["calm"] > 1
    assert found["confirmed where calm"] == 0

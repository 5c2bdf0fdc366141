"""How failing lines are counted, and which names in them are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.suspects.error_lines import error_lines
from tests.analysis.cases import at, logs, write_case


@pytest.mark.parametrize(("minutes", "step_s"), [(1, 15), (5, 30), (30, 60)])
def test_an_incident_has_ten_steps_of_a_quarter_of_a_minute_to_a_minute(
    tmp_path: Path, minutes: float, step_s: float
) -> None:
    rows = logs("api", "out of memory", [m / 10 for m in range(300)], level="error")
    windows = {"incident": [at(0), at(minutes)], "baseline": [[at(-60), at(0)]]}
    (found,) = error_lines(write_case(tmp_path, logs=rows, scope=windows), {"api"})
    assert float(np.median(np.diff(found.course.times))) / 1e9 == step_s


def test_a_name_of_two_letters_is_in_too_many_words(tmp_path: Path) -> None:
    minutes = [m / 2 for m in range(60)]
    rows = logs("web", "could not read db/orders", minutes, level="error")
    rows += logs("web", "could not read api/orders", minutes, level="error")
    found = error_lines(write_case(tmp_path, logs=rows), {"web", "db", "api"})
    assert {one.names for one in found} == {None, "api"}

"""What `--json` prints can be read back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.evaluation.as_json import as_json, read_results
from faultline.evaluation.labels import CaseSetting, Grade
from faultline.evaluation.running import code_hash
from tests.evaluation.test_page_tables import RIGHT, WRONG

SET = replace(
    RIGHT,
    setting=CaseSetting(("web", "cart"), "1 call away", "service", (("logs", "yes"),)),
    path_shown=True,
    baselines={"BARO": ("web", "cart")},
)


def test_grades_come_back_as_they_were(tmp_path: Path) -> None:
    grades = [SET, WRONG, Grade("shop-3", "shop", problem="not graded")]
    file = tmp_path / "run.json"
    file.write_text(json.dumps(as_json(grades, ["logs"], weights="left_out.json")))
    found = read_results(file)
    assert list(found.grades) == grades
    assert (found.code, found.without, found.weights) == (code_hash(), ("logs",), "left_out.json")


def test_figures_stand_by_distance_telemetry_and_method() -> None:
    printed = as_json([SET, WRONG])
    assert printed["distance"]["1 call away"]["path"] == 1.0
    assert printed["culprit_kind"]["service"]["ac1"] == 1.0
    assert printed["telemetry"]["logs: yes"]["n"] == 1
    assert printed["baselines"]["BARO"]["ours_less_its"]["difference"] == 1.0
    assert set(printed["overall"]["intervals"]["ac1"]) == {"low", "high"}


def test_another_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"cases": [{}]}')
    with pytest.raises(EvidenceError, match="faultline eval --json"):
        read_results(file)
    with pytest.raises(EvidenceError, match="cannot be read"):
        read_results(tmp_path / "absent.json")

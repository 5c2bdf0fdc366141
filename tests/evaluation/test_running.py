"""A folder of cases, some of them broken: every one is reported, none stops the others."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.evaluation.as_json import as_json
from faultline.evaluation.labels import Grade
from faultline.evaluation.running import (
    BY_REPLAY,
    GradingOptions,
    case_folders,
    evaluate,
    evaluate_folders,
    grade_folder,
)
from tests.scenarios.small_case import write_small_case

KILLER = "shop-2"


def labelled_case(folder: Path, **label: object) -> Path:
    write_small_case(folder)
    if label:
        (folder / "label.json").write_text(json.dumps(label))
    return folder


def ends_its_process(folder: Path, options: GradingOptions) -> Grade:
    """Grades like any, but for one case."""
    if folder.name == KILLER:
        os._exit(3)
    return grade_folder(folder, options)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("cases")
    labelled_case(tmp_path / "shop-1", subject="checkout", change="4f2a9c1", fault="slow")
    labelled_case(tmp_path / "shop-2", subject="cart", fault="slow")
    labelled_case(tmp_path / "shop-3")
    labelled_case(tmp_path / "shop-4", verdict="no_active_incident")
    unreadable = labelled_case(tmp_path / "shop-5", subject="cart")
    (unreadable / "metrics.csv").write_text("time,service\n")
    (unreadable / "changes.csv").unlink()
    (labelled_case(tmp_path / "shop-6", subject="cart") / "label.json").write_text("{")
    labelled_case(tmp_path / "shop-7", origin="somewhere")
    (tmp_path / "shop-8").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "MANIFEST.md").write_text("eight cases")
    return tmp_path


@pytest.fixture(scope="module")
def graded(cases: Path) -> list[Grade]:
    """What is said of each case, by one process."""
    return evaluate(cases, workers=1)


def without_times(grades: Sequence[Grade]) -> str:
    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if not k.startswith("cpu")}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return json.dumps(strip(as_json(grades)))


def test_every_case_is_graded_or_told_why_not(graded: list[Grade]) -> None:
    found = {g.case: g for g in graded}
    assert list(found) == [f"shop-{n}" for n in range(1, 9)]
    assert (found["shop-1"].rank, found["shop-1"].change_rank, found["shop-1"].problem) == (
        1,
        1,
        None,
    )
    assert found["shop-2"].right is False
    assert "not graded" in (found["shop-3"].problem or "")
    assert found["shop-4"].verdict_right is False
    assert "metrics.csv" in (found["shop-5"].problem or "")
    assert found["shop-5"].subject == "cart"
    assert "label.json" in (found["shop-6"].problem or "")
    assert "not graded" in (found["shop-7"].problem or "")
    assert "alert.json is missing" in (found["shop-8"].problem or "")


def test_the_figures_count_what_has_a_truth(graded: list[Grade]) -> None:
    printed = as_json(graded)
    shop = printed["systems"]["shop"]
    assert {"n", "ac1", "ac3", "ac5", "avg5", "change1", "decoys", "ece", "cpu_s"} <= set(shop)
    assert (shop["n"], shop["ac1"], shop["change1"], shop["failed"]) == (3, 0.3333, 1.0, 3)
    assert [c["case"] for c in printed["cases"]] == [f"shop-{n}" for n in range(1, 9)]


def test_one_that_ends_its_process_is_told_of_and_the_others_get_the_same_bytes(
    cases: Path, graded: list[Grade]
) -> None:
    found = evaluate_folders(case_folders(cases), workers=2, grader=ends_its_process)
    killer = found.pop(1)
    assert "process" in (killer.problem or "")
    assert (killer.case, killer.subject, killer.rank) == (KILLER, "cart", None)
    assert without_times(found) == without_times([g for g in graded if g.case != KILLER])


def test_a_hidden_table_plays_no_part(cases: Path) -> None:
    first = evaluate(cases, GradingOptions(hidden=("changes",)), workers=1)[0]
    assert (first.rank, first.change, first.change_rank) == (1, "none", None)


def test_a_case_that_has_a_replay_is_compared_with_it(tmp_path: Path) -> None:
    truth = {"named_by_replay": ["cart", "checkout"]}
    with_replay = labelled_case(tmp_path / "shop-1", subject="checkout")
    (with_replay / "truth.json").write_text(json.dumps(truth))
    labelled_case(tmp_path / "shop-2", subject="checkout")
    first, second = evaluate(tmp_path, GradingOptions(baselines=True), workers=1)
    assert first.baselines[BY_REPLAY] == ("cart", "checkout")
    assert BY_REPLAY not in second.baselines


def test_one_case_folder_is_graded_by_itself(cases: Path) -> None:
    (only,) = evaluate(cases / "shop-1")
    assert (only.case, only.system, only.rank) == ("shop-1", "shop", 1)


def test_a_folder_without_cases_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no case folders"):
        evaluate(tmp_path)
    with pytest.raises(EvidenceError, match="no such directory"):
        evaluate(tmp_path / "absent")

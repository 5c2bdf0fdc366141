"""docs/accuracy.md says of every table with which code it was measured, and all of them can be
written again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import accuracy_page
from benchmarks.accuracy_page import (
    PAGE,
    STEPS,
    TABLES,
    MeasuringRun,
    check,
    measure,
    measure_live,
    measure_worlds,
    write,
)
from faultline.evaluation.as_json import as_json
from faultline.evaluation.page_tables import NOT_MEASURED, fill, measured_with
from faultline.evaluation.running import code_hash
from tests.evaluation.test_page_tables import RIGHT, WRONG
from tests.evaluation.test_running import labelled_case

HASH = re.compile(r"[0-9a-f]{12}")


def test_every_table_says_with_which_code_it_was_measured_or_that_it_was_not() -> None:
    page = PAGE.read_text()
    measured = measured_with(page)
    silent = [name for name, code in measured.items() if not HASH.fullmatch(code)]
    assert page.count(f"-->\n{NOT_MEASURED}\n<!--") == len(silent), silent


def test_the_page_has_a_place_for_every_table_and_for_no_other() -> None:
    assert sorted(measured_with(PAGE.read_text())) == sorted(TABLES)


def test_a_table_is_told_to_be_older_than_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "accuracy.md"
    tables = dict.fromkeys(TABLES, "| figures |\n")
    page.write_text(fill(PAGE.read_text(), tables, "0123456789ab"))
    assert check(page, "0123456789ab") == 0
    page.write_text(fill(page.read_text(), {"worlds": "| figures |\n"}, "ba9876543210"))
    assert check(page, "0123456789ab") == 1
    said = capsys.readouterr().out
    assert "worlds: measured with ba9876543210, the code is 0123456789ab" in said
    assert f"1 of {len(TABLES)} tables are older" in said


def test_the_command_on_the_page_compares_with_the_code_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/accuracy_page.py", "check"],
        cwd=PAGE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "python benchmarks/accuracy_page.py check" in PAGE.read_text()
    older = [name for name, code in measured_with(PAGE.read_text()).items() if code != code_hash()]
    assert done.returncode == (1 if older else 0), done.stderr
    assert f"{len(older)} of {len(TABLES)} tables" in done.stdout


def test_what_was_measured_is_written_with_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "accuracy.md"
    shutil.copy(PAGE, page)
    monkeypatch.setattr(accuracy_page, "PAGE", page)
    run = MeasuringRun(tmp_path, None, (), None, (), None, None, "0123456789ab")
    for step in STEPS:
        run.keep(step, [RIGHT, WRONG])
    write(run)
    assert set(measured_with(page.read_text()).values()) == {"0123456789ab"}
    assert as_json([RIGHT])["code"] == code_hash()


def test_a_step_is_repeated_only_for_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = []

    def step(run: MeasuringRun) -> None:
        taken.append(run.code)
        run.keep("worlds", [RIGHT])

    monkeypatch.setattr(accuracy_page, "STEPS", {"worlds": step, "live": measure_live})
    for code in ("0123456789ab", "0123456789ab", "ba9876543210"):
        measure(MeasuringRun(tmp_path, None, (), None, (), None, None, code), ["worlds", "live"])
    assert taken == ["0123456789ab", "ba9876543210"]
    said = capsys.readouterr().out
    assert "worlds: measured already" in said
    assert "live: left out: --live: is not given" in said


def test_an_interrupted_run_over_worlds_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds, results = tmp_path / "worlds", tmp_path / "results"
    for number in (1, 2, 3):
        labelled_case(worlds / f"shop-{number}", subject="checkout")
    results.mkdir()
    monkeypatch.setattr(accuracy_page, "PART", 2)
    run = MeasuringRun(results, None, (), worlds, (), None, 1, "0123456789ab")
    measure_worlds(run)
    known = results / "worlds-from-0.json"
    marked = json.loads(known.read_text())
    marked["cases"][0]["answer_why"] = "kept from before"
    known.write_text(json.dumps(marked))
    measure_worlds(run)
    found = run.result("worlds")
    assert found is not None
    assert [grade.case for grade in found.grades] == ["shop-1", "shop-2", "shop-3"]
    assert found.grades[0].answer_why == "kept from before"


def test_a_headline_of_two_versions_of_the_code_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "accuracy.md"
    page.write_text(fill(PAGE.read_text(), {"headline": "| old |\n"}, "ffffffffffff"))
    monkeypatch.setattr(accuracy_page, "PAGE", page)
    for step, code in (("worlds", "0123456789ab"), ("live", "ba9876543210")):
        run = MeasuringRun(tmp_path, None, (), None, (), None, None, code)
        run.keep(step, [RIGHT, WRONG])
    write(run)
    found = measured_with(page.read_text())
    assert (found["headline"], found["worlds"]) == ("ffffffffffff", "0123456789ab")

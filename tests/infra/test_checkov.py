"""checkov finds nothing in the modules but what is explained, and finds the defects that are its to
find."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.checks.checkov import PASSED_OVER, failed_checks
from infra.checks.defects import TERRAFORM
from infra.checks.terraform import MODULES, change
from infra.checks.tools import NotHere


def checked(folder: Path, checks: list[str] | None = None) -> dict[str, list[str]]:
    try:
        return failed_checks(folder, checks)
    except NotHere as reason:
        pytest.skip(str(reason))


def copied(target: Path) -> Path:
    shutil.copytree(MODULES, target, ignore=shutil.ignore_patterns("examples", ".terraform*"))
    return target


def test_what_it_finds_is_explained_and_what_is_explained_is_found(tmp_path: Path) -> None:
    found = checked(copied(tmp_path / "good"))
    assert {check: where for check, where in found.items() if check not in PASSED_OVER} == {}
    assert sorted(found) == sorted(PASSED_OVER)


def test_planted_defects_are_found(tmp_path: Path) -> None:
    planted = [defect for defect in TERRAFORM if defect.check == "checkov"]
    folder = copied(tmp_path / "bad")
    for defect in planted:
        change(folder / defect.file, defect.old, defect.new)
    found = checked(folder / "modules", [defect.says for defect in planted])
    assert sorted(found) == sorted(defect.says for defect in planted)

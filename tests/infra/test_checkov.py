"""checkov finds nothing in the modules, the manifests and what the chart renders but what is
explained, and finds the defects that are its to find."""

from __future__ import annotations

import shutil

import pytest
import yaml

from infra.checks.checkov import PASSED_OVER, failed_checks
from infra.checks.defects import TERRAFORM, Defect
from infra.checks.helm import helm
from infra.checks.terraform import MODULES, change
from infra.checks.tools import ROOT, NotHere
from tests.infra.chart_values import INSTALLATIONS

WRITABLE = ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false")
Found = dict[str, list[str]]


@pytest.fixture(scope="module")
def planted() -> list[Defect]:
    """The defects that are checkov's to find."""
    return [defect for defect in TERRAFORM if defect.check == "checkov"]


@pytest.fixture(scope="module")
def found(planted: list[Defect], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What it finds in the modules and in a copy with the defects: one run, as starting it takes
    longer than its checks."""
    folder = tmp_path_factory.mktemp("checkov")
    without = shutil.ignore_patterns("examples", ".terraform*")
    bad = folder / "bad"
    shutil.copytree(MODULES, folder / "good", ignore=without)
    shutil.copytree(MODULES / "modules", bad / "modules", ignore=without)
    for defect in planted:
        change(bad / defect.file, defect.old, defect.new)
    manifest = (ROOT / "infra/kubernetes/faultline.yaml").read_text()
    (folder / "good/faultline.yaml").write_text(manifest)
    (bad / "faultline.yaml").write_text(manifest.replace(*WRITABLE))
    try:
        for number, values in enumerate(INSTALLATIONS.values()):
            objects = helm("4").render(values)
            (folder / f"good/chart-{number}.yaml").write_text(yaml.safe_dump_all(objects))
        failed = failed_checks(folder)
    except NotHere as reason:
        pytest.skip(str(reason))
    return {part: _in(failed, f"/{part}/") for part in ("good", "bad")}


def _in(failed: Found, part: str) -> Found:
    found: Found = {}
    for check, where in failed.items():
        if there := [one for one in where if one.startswith(part)]:
            found[check] = there
    return found


def test_what_it_finds_is_explained_and_what_is_explained_is_found(found: dict[str, Found]) -> None:
    good = found["good"]
    assert {check: where for check, where in good.items() if check not in PASSED_OVER} == {}
    assert sorted(good) == sorted(PASSED_OVER)


def test_planted_defects_are_found(found: dict[str, Found], planted: list[Defect]) -> None:
    new = {check for check in found["bad"] if check not in PASSED_OVER}
    assert new >= {defect.says for defect in planted} | {"CKV_K8S_22"}

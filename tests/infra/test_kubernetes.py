"""infra/kubernetes: the API server would take it, "restricted" would admit it, and the checks that
say so can fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from faultline.bot.settings import load_settings
from infra.checks.defects import KUBERNETES, Defect
from infra.checks.kubernetes import documents, insecure, misfits
from infra.checks.terraform import change
from infra.checks.tools import NotHere

ROOM = Path(__file__).parents[2] / "infra/kubernetes"


def refused(file: Path) -> list[str]:
    try:
        return misfits(file)
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", ["faultline.yaml", "read-only-rbac.yaml"])
def test_manifests_fit_the_schemas_and_their_pods_are_restricted(name: str) -> None:
    assert insecure(documents(ROOM / name)) == []
    assert refused(ROOM / name) == []


@pytest.mark.parametrize("defect", KUBERNETES, ids=lambda d: d.name)
def test_planted_defects_are_found(defect: Defect, tmp_path: Path) -> None:
    copy = Path(shutil.copy(ROOM / defect.file, tmp_path))
    change(copy, defect.old, defect.new)
    said = refused(copy) if defect.check == "kubernetes schema" else insecure(documents(copy))
    assert any(defect.says in line for line in said), said


def test_the_settings_file_within_is_one_that_the_bot_reads(tmp_path: Path) -> None:
    (map_,) = [one for one in documents(ROOM / "faultline.yaml") if one["kind"] == "ConfigMap"]
    file = tmp_path / "faultline.toml"
    file.write_text(map_["data"]["faultline.toml"])
    environ = {
        one["name"]: one["value"]
        for pod in documents(ROOM / "faultline.yaml")
        if pod["kind"] == "Deployment"
        for one in pod["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert load_settings(file, environ).slack.channel == "C0123456789"


def test_each_process_gets_a_secret_of_its_own() -> None:
    named = {
        one["metadata"]["name"]: [
            source["secretRef"]["name"]
            for source in one["spec"]["template"]["spec"]["containers"][0]["envFrom"]
        ]
        for one in documents(ROOM / "faultline.yaml")
        if one["kind"] == "Deployment"
    }
    assert named == {
        "faultline-server": ["faultline-server-secrets"],
        "faultline-worker": ["faultline-worker-secrets"],
    }

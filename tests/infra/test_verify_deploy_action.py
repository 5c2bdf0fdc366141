"""The GitHub Action of `faultline verify-deploy` is what GitHub takes, and its inputs never become
a part of its scripts."""

from __future__ import annotations

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tests.infra.test_release_workflow import checked, zizmor_says

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "infra/github/verify-deploy/action.yml"


def schema_says(file: Path) -> int:
    from infra.checks.tools import CHECK_JSONSCHEMA

    done = checked(CHECK_JSONSCHEMA, "--builtin-schema", "vendor.github-actions", str(file))
    return done.returncode


def test_it_fits_the_schema_of_actions(tmp_path: Path) -> None:
    assert schema_says(ACTION) == 0
    bad = tmp_path / "action.yml"
    bad.write_text(ACTION.read_text().replace("shell: bash", "shel: bash"))
    assert schema_says(bad) == 1


def test_it_follows_the_rules_of_zizmor(tmp_path: Path) -> None:
    folder = tmp_path / "action"
    folder.mkdir()
    file = folder / "action.yml"
    file.write_text(ACTION.read_text())
    said = zizmor_says(file)
    assert said.returncode == 0, said.stdout
    file.write_text(
        ACTION.read_text().replace('run: exit "$CODE"', "run: exit ${{ inputs.service }}")
    )
    assert "template-injection" in zizmor_says(file).stdout


def test_no_input_stands_in_a_script_and_each_is_used() -> None:
    action = yaml.safe_load(ACTION.read_text())
    steps = action["runs"]["steps"]
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []
    used = set(re.findall(r"inputs\.([a-z-]+)", str(steps)))
    assert used == set(action["inputs"])

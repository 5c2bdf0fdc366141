"""The workflows are what GitHub takes, follow zizmor's rules, and pin what they use. So does what
`./run` installs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from infra.checks.tools import CHECK_JSONSCHEMA, ZIZMOR, NotHere, tool
from infra.release.version import NotThisVersion, notes_of

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github/workflows/release.yml"
OF_CHANGES = WORKFLOW.with_name("test.yml")
TOOLS = ROOT / "infra/release/tools"
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def checked(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        command = [str(tool(program)), *arguments]
    except NotHere as reason:
        pytest.skip(str(reason))
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def schema_says(file: Path) -> subprocess.CompletedProcess[str]:
    return checked(CHECK_JSONSCHEMA, "--builtin-schema", "vendor.github-workflows", str(file))


def zizmor_says(file: Path) -> subprocess.CompletedProcess[str]:
    return checked(ZIZMOR, "--offline", "--no-config", "--persona", "pedantic", str(file))


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = WORKFLOW.read_text()
    assert old in text
    file = tmp_path / "release.yml"
    file.write_text(text.replace(old, new))
    return file


def test_it_fits_the_schema_of_workflows(tmp_path: Path) -> None:
    assert schema_says(WORKFLOW).returncode == 0
    assert schema_says(OF_CHANGES).returncode == 0
    bad = changed(
        tmp_path, "runs-on: ubuntu-24.04\n    timeout", "runs_on: ubuntu-24.04\n    timeout"
    )
    assert schema_says(bad).returncode == 1


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8", "checkout@v5", "unpinned-uses"),
        ("persist-credentials: false", "fetch-depth: 1", "artipacked"),
        ('"$GITHUB_REF_NAME" --notes', "${{ github.ref_name }} --notes", "template-injection"),
        ("permissions: {}", "permissions: write-all", "excessive-permissions"),
    ],
)
def test_zizmor_finds_nothing_and_would_find_something(
    tmp_path: Path, old: str, new: str, rule: str
) -> None:
    for workflow in (WORKFLOW, OF_CHANGES):
        clean = zizmor_says(workflow)
        assert clean.returncode == 0, clean.stdout
    assert f"[{rule}]" in zizmor_says(changed(tmp_path, old, new)).stdout


def test_every_action_is_pinned_by_commit_and_says_its_version() -> None:
    both = WORKFLOW.read_text() + OF_CHANGES.read_text()
    lines = [line for line in both.splitlines() if "uses:" in line]
    assert len(lines) > 5
    assert [line for line in lines if not PINNED.search(line)] == []


def test_each_change_is_checked_where_the_scanner_can_be_fuzzed_under_sanitizers() -> None:
    text = OF_CHANGES.read_text()
    assert "  pull_request:\n" in text
    # Without both runtimes tests/fuzz/test_native_scanner.py would skip, and nobody would see it.
    assert text.index("-fsanitize=address,undefined") < text.index("- run: ./run test")


def test_every_file_of_a_tool_from_pypi_has_its_hash() -> None:
    lists = [*TOOLS.glob("*.txt"), ROOT / "infra/release/uv.txt"]
    assert len(lists) > 3
    for file in lists:
        for requirement in file.read_text().replace("\\\n", " ").splitlines():
            assert "==" in requirement, f"{file.name}: {requirement[:60]}"
            assert "--hash=sha256:" in requirement, f"{file.name}: {requirement[:60]}"


def test_every_package_of_a_tool_from_npm_has_its_hash() -> None:
    locks = list(TOOLS.glob("*/package-lock.json"))
    assert len(locks) == 4
    for file in locks:
        packages = json.loads(file.read_text())["packages"]
        without = [name for name, one in packages.items() if name and "integrity" not in one]
        assert without == [], file


def test_run_installs_nothing_without_a_hash_but_the_build_of_pytorch_that_is_only_tried() -> None:
    script = (ROOT / "run").read_text()
    installs = re.findall(r".*\b(?:pip install|pip download|npm install|npm ci)\b.*", script)
    loose = [line for line in installs if "--require-hashes" not in line and "npm ci" not in line]
    assert [line for line in loose if "torch==" not in line] == []


def project(folder: Path, changelog: str) -> Path:
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    (folder / "CHANGELOG.md").write_text(changelog)
    return folder


def test_a_tag_is_released_with_its_section_of_the_changelog(tmp_path: Path) -> None:
    root = project(
        tmp_path, "# Changelog\n\n## Unreleased\n\n## 1.2.3\n\n- new\n\n## 1.2.2\n\n- old\n"
    )
    assert notes_of("v1.2.3", root) == "- new\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "problem"),
    [
        ("v1.2.4", "## 1.2.3\n\n- new\n", "the tag is v1.2.4, pyproject.toml says 1.2.3"),
        ("v1.2.3", "## Unreleased\n\n## 1.2.30\n", "CHANGELOG.md has no section for 1.2.3"),
    ],
)
def test_a_tag_that_does_not_fit_stops_the_release(
    tmp_path: Path, tag: str, changelog: str, problem: str
) -> None:
    with pytest.raises(NotThisVersion, match=re.escape(problem)):
        notes_of(tag, project(tmp_path, changelog))

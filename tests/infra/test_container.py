"""infra/container: the Dockerfile is clean by hadolint, and builds what the manifests and task
definitions rely on."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from infra.checks.tools import HADOLINT, NotHere, tool
from infra.container.dry_run import instructions

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "infra/container"


def test_hadolint_finds_nothing_and_would_find_something(tmp_path: Path) -> None:
    try:
        program = str(tool(HADOLINT))
    except NotHere as reason:
        pytest.skip(str(reason))
    text = (ROOM / "Dockerfile").read_text()
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(text)
    bad.write_text(
        text.replace("USER 10001:10001", "USER root").replace(
            "python:3.13-slim-bookworm\n", "python\n"
        )
    )
    assert subprocess.run([program, str(good)], capture_output=True, check=False).stdout == b""
    said = subprocess.run([program, str(bad)], capture_output=True, text=True, check=False).stdout
    assert "DL3002" in said


def test_it_runs_as_nobody_in_particular_and_gets_its_signals() -> None:
    steps = list(instructions())
    assert [rest for word, rest in steps if word == "USER"] == ["10001:10001"]
    (entry,) = [json.loads(rest) for word, rest in steps if word == "ENTRYPOINT"]
    assert entry == ["/usr/bin/tini", "--", "/app/.venv/bin/faultline"]
    assert ("STOPSIGNAL", "SIGTERM") in steps
    final = [word for word, _ in steps][::-1].index("FROM")
    assert not [
        rest for word, rest in steps[-final:] if word == "RUN" and ("gcc" in rest or "pip " in rest)
    ]


def test_every_package_of_ours_is_copied_and_none_is_ignored() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    copied = {rest.split()[0] for word, rest in instructions() if word == "COPY"}
    kept = {
        line.removeprefix("!")
        for line in (ROOM / "Dockerfile.dockerignore").read_text().splitlines()
    }
    for package in wheel["packages"]:
        assert package in copied
        assert package in kept


def test_terraform_and_kubernetes_name_the_same_user_folders_and_program() -> None:
    services = (ROOT / "infra/terraform/services.tf").read_text()
    manifest = (ROOT / "infra/kubernetes/faultline.yaml").read_text()
    assert '"10001:10001"' in services
    assert "runAsUser: 10001" in manifest
    for folder in ("/tmp", "/state", "/config"):
        assert f'containerPath = "{folder}"' in services
        assert f"mountPath: {folder}" in manifest
    assert '"/app/healthy.py"' in services

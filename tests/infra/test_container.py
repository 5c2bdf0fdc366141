"""infra/container: the Dockerfile is clean by hadolint, and builds what the manifests and task
definitions rely on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from faultline.connectors.vendors.aws.operations import ACTIONS
from infra.checks.tools import HADOLINT, NotHere, tool
from infra.container.dry_run import instructions
from infra.container.slim import (
    DATADOG,
    OUR_PACKAGES,
    compile_packages,
    unasked_services,
    unreached_modules,
    without_unused_files,
)

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
    bad.write_text(text.replace("USER 10001:10001", "USER root"))
    assert subprocess.run([program, str(good)], capture_output=True, check=False).stdout == b""
    said = subprocess.run([program, str(bad)], capture_output=True, text=True, check=False).stdout
    assert "DL3002" in said


def test_it_runs_as_nobody_in_particular_and_gets_its_signals() -> None:
    steps = list(instructions())
    # The second image is the shop's, infra/compose.
    assert [rest for word, rest in steps if word == "USER"] == ["10001:10001"] * 2
    _, entry = [json.loads(rest) for word, rest in steps if word == "ENTRYPOINT"]
    assert entry == ["/usr/bin/tini", "--", "/app/.venv/bin/faultline"]
    assert ("STOPSIGNAL", "SIGTERM") in steps
    # The result is put together in the stage before it, so it has no shell to run anything with.
    final = [word for word, _ in steps][::-1].index("FROM")
    assert "RUN" not in [word for word, _ in steps[-final:]]


def test_the_base_is_pinned_by_digest_and_uv_and_the_builds_tools_by_hash() -> None:
    steps = list(instructions())
    bases = [rest for word, rest in steps if word == "FROM"]
    assert bases == ["${DEBIAN_IMAGE} AS build", "build AS lab", "scratch"]
    (image,) = [rest for word, rest in steps if rest.startswith("DEBIAN_IMAGE=")]
    assert re.fullmatch(r"DEBIAN_IMAGE=debian:trixie-slim@sha256:[0-9a-f]{64}", image)
    commands = " ".join(rest for word, rest in steps if word == "RUN")
    assert "pip install --require-hashes -r infra/release/uv.txt" in commands
    assert "--require-build-hashes --build-constraints infra/release/build-constraints" in commands
    assert "uv sync --frozen" in commands


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
    # Of these the image keeps the sources.
    assert set(OUR_PACKAGES) == set(wheel["packages"])


def test_terraform_and_kubernetes_name_the_same_user_folders_and_program() -> None:
    services = (ROOT / "infra/terraform/services.tf").read_text()
    manifest = (ROOT / "infra/kubernetes/faultline.yaml").read_text()
    assert '"10001:10001"' in services
    assert "runAsUser: 10001" in manifest
    for folder in ("/tmp", "/state", "/config"):
        assert f'containerPath = "{folder}"' in services
        assert f"mountPath: {folder}" in manifest
    assert '"/app/healthy.py"' in services


SITE = Path(sysconfig.get_path("purelib"))
CALLS = """
import importlib
import datadog_api_client
from faultline.connectors.vendors.datadog import calls
assert datadog_api_client.__file__.startswith({site!r}), datadog_api_client.__file__
for one in vars(calls).values():
    if isinstance(one, calls.Call):
        module, _, api = one.api.rpartition(".")
        found = importlib.import_module(f"datadog_api_client.{{module.replace('.', '.api.', 1)}}")
        getattr(getattr(found, api), one.name)
"""


def test_what_is_left_of_datadogs_client_makes_every_call_of_ours(tmp_path: Path) -> None:
    shutil.copytree(SITE / DATADOG, tmp_path / DATADOG, ignore=shutil.ignore_patterns("*.pyc"))
    modules = len(list(tmp_path.rglob("*.py")))
    for file in list(unreached_modules(tmp_path)):
        file.unlink()
    assert 20 < len(list(tmp_path.rglob("*.py"))) < modules / 5
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += CALLS.format(site=str(tmp_path))
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_descriptions_of_the_services_that_are_asked_stay() -> None:
    described = {folder.name for folder in (SITE / "botocore/data").iterdir() if folder.is_dir()}
    gone = {folder.name for folder in unasked_services(SITE)}
    left = described - gone
    assert {service for service, _ in ACTIONS} <= left
    assert len(left) < len(described) / 5


def test_files_for_compilers_go_and_packages_named_like_tests_stay(tmp_path: Path) -> None:
    kept = ["numpy/testing/__init__.py", "one/__init__.py", "one/data.json"]
    gone = ["one/tests/test_it.py", "one/core.pyi", "one/core.h", "one-1.dist-info/RECORD"]
    gone.append("rapidfuzz/distance/metrics_cpp_avx2.cpython-313-x86_64-linux-gnu.so")
    for name in [*kept, *gone]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for place in list(without_unused_files(tmp_path)):
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == set(kept)


def test_our_sources_stay_and_others_run_without_theirs(tmp_path: Path) -> None:
    for package in ("bot", "other"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"name = {package!r}\n")
    compile_packages(tmp_path, sys.executable, ["bot"])
    assert (tmp_path / "bot/__init__.py").exists()
    assert list((tmp_path / "bot/__pycache__").glob("*.pyc"))
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["__init__.pyc"]
    program = "import bot, other; print(bot.name, other.name)"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout == "bot other\n"

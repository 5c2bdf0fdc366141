"""The bill of materials of the real lock: a hash for each component, and its licence as an SPDX
expression."""

from __future__ import annotations

import json
import subprocess
from email.message import Message
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.licenses import canonicalize_license_expression

from infra.release import sbom
from infra.release.audit import extras_of, installed_by, locked, refused
from infra.release.sbom import ELSEWHERE, IDENTIFIERS, IN_ITS_FILES, NAMES, complete, licence_of

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools/uv/bin/uv"
NEEDS_UV = pytest.mark.skipif(not UV.exists(), reason="./run has not fetched uv")


@cache
def exported() -> str:
    """What uv says of the lock."""
    command = [str(UV), "export", "-q", "--frozen", "--no-dev", "--extra", "all"]
    command += ["--preview-features", "sbom-export", "--format", "cyclonedx1.5"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def components() -> list[dict[str, Any]]:
    """Those of the bill, and that none is without a licence."""
    document = json.loads(exported())
    assert complete(document) == []
    assert document["specVersion"] == "1.6"
    found: list[dict[str, Any]] = document["components"]
    assert len(found) > 50
    return found


@NEEDS_UV
def test_each_component_has_hashes_and_one_licence_that_is_allowed() -> None:
    for component in components():
        files = component["externalReferences"]
        assert files
        assert all(one["hashes"][0]["alg"] == "SHA-256" for one in files), component["name"]
        [licence] = component["licenses"]
        expression = licence["expression"]
        assert canonicalize_license_expression(expression) == expression, component["name"]
        assert refused(expression) is None, component["name"]


@NEEDS_UV
def test_a_component_that_nothing_tells_of_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ELSEWHERE, "colorama")
    monkeypatch.delitem(IN_ITS_FILES, "jinja2")
    document = json.loads(exported())
    assert sorted(complete(document)) == ["colorama", "jinja2"]


@NEEDS_UV
def test_every_exception_is_a_component_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {one["name"] for one in components()}
    assert set(ELSEWHERE) <= names, "an exception for what is not installed"
    assert set(IN_ITS_FILES) <= names | installed_by(locked(), *extras_of(locked()))
    for table in (ELSEWHERE, IN_ITS_FILES):
        for name, told in table.items():
            assert canonicalize_license_expression(told.expression) == told.expression, name
            assert len(told.because.split()) > 2, f"{name}: say why"
    given = dict(IN_ITS_FILES)
    monkeypatch.setattr(sbom, "IN_ITS_FILES", {})
    for name, told in given.items():
        assert licence_of(name, version(name)) != told.expression, f"{name} tells it by itself"


def test_identifiers_are_those_of_spdx() -> None:
    for one in {*IDENTIFIERS, *NAMES.values()}:
        assert canonicalize_license_expression(one) == one


def test_a_licence_is_told_only_of_the_version_that_is_installed() -> None:
    assert licence_of("httpx", version("httpx")) == "BSD-3-Clause"
    assert licence_of("httpx", "0.0.1") is None
    assert licence_of("no-such-package", "1") is None


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({"License-Expression": "MIT AND ISC"}, "MIT AND ISC"),
        ({"License": "MIT OR Apache-2.0"}, "MIT OR Apache-2.0"),
        ({"License": "Apache 2.0"}, "Apache-2.0"),
        ({"License": "Copyright 2026 by all", "Classifier": "License :: MIT License"}, "MIT"),
        ({"License": "BSD", "Classifier": "License :: OSI Approved :: BSD License"}, None),
        ({"License": "MIT, mostly"}, None),
        ({}, None),
    ],
)
def test_only_a_whole_expression_or_an_unambiguous_name_is_a_licence(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], expression: str | None
) -> None:
    told = Message()
    for name, value in {"Version": "1", **fields}.items():
        told[name] = value
    monkeypatch.setattr(sbom, "metadata", lambda _name: told)
    assert licence_of("one", "1") == expression

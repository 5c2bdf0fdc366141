"""The bill of materials of the real lock: a hash for each component, and a licence where the
installed package names one."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.release.sbom import complete, licences_of

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools/uv/bin/uv"


@pytest.mark.skipif(not UV.exists(), reason="./run has not fetched uv")
def test_each_component_has_hashes_and_nearly_each_a_licence() -> None:
    command = [str(UV), "export", "-q", "--frozen", "--no-dev", "--extra", "all"]
    command += ["--preview-features", "sbom-export", "--format", "cyclonedx1.5"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    document = json.loads(said)
    without = complete(document)
    assert document["specVersion"] == "1.6"
    assert len(document["components"]) > 50
    for component in document["components"]:
        files = component["externalReferences"]
        assert files
        assert all(one["hashes"][0]["alg"] == "SHA-256" for one in files), component["name"]
    assert len(without) < len(document["components"]) / 10


def test_a_licence_is_told_only_of_the_version_that_is_installed() -> None:
    assert licences_of("httpx", version("httpx")) != []
    assert licences_of("httpx", "0.0.1") == []

"""What the release workflow must do before anything is published: provenance of what was built, its
bill of materials, and signatures, each with the permissions it takes and by pinned actions.

Source: docs.github.com, "Using artifact attestations to establish provenance for builds";
docs.pypi.org, "Producing attestations"; docs.docker.com, "Build attestations with GitHub Actions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github/workflows/release.yml"
PROVENANCE = "actions/attest-build-provenance"
SBOM = "actions/attest"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")
DIST = {"pattern": "dist-*", "merge-multiple": True, "path": "dist"}
PUBLISH = ("pypi", "image-index", "github")
"""Jobs after which strangers can install it."""
PERMISSIONS: dict[str, dict[str, str]] = {
    "check": {"contents": "read"},
    "build": {"contents": "read"},
    "attest": {"id-token": "write", "attestations": "write"},
    "pypi": {"id-token": "write"},
    "image": {"contents": "read", "packages": "write"},
    "image-index": {"packages": "write", "id-token": "write", "attestations": "write"},
    "github": {"contents": "write"},
}
Step = dict[str, Any]


class Workflow:
    """A workflow, as far as the rules below ask."""

    def __init__(self, text: str) -> None:
        self._all = yaml.safe_load(text)
        self.jobs: dict[str, dict[str, Any]] = self._all["jobs"]

    def problems(self) -> list[str]:
        """What is missing or loose; empty for a workflow that may release."""
        return [*self._permissions(), *self._order(), *self._wheel(), *self._image(), *self._pypi()]

    def _permissions(self) -> Iterator[str]:
        if self._all["permissions"] != {}:
            yield "every job gets permissions"
        for name, job in self.jobs.items():
            if job.get("permissions") != PERMISSIONS.get(name):
                yield f"{name}: permissions {job.get('permissions')}"
            if "secrets." in str(job):
                yield f"{name}: a long-lived secret"
            for step in job["steps"]:
                if "uses" in step and not PINNED.fullmatch(step["uses"]):
                    yield f"{name}: {step['uses']} is not pinned"

    def _order(self) -> Iterator[str]:
        for name in PUBLISH:
            needed = self._needed_by(name)
            if not {"check", "build", "attest"} <= needed:
                yield f"{name} does not wait for the attestations: {sorted(needed)}"
        for name, job in self.jobs.items():
            steps = [job, *job["steps"]]
            if any("continue-on-error" in one for one in steps) or "if" in job:
                yield f"{name} can be passed over"

    def _needed_by(self, name: str) -> set[str]:
        given = self.jobs[name].get("needs", [])
        needed = {given} if isinstance(given, str) else set(given)
        return needed.union(*map(self._needed_by, needed))

    def _wheel(self) -> Iterator[str]:
        yield from self._holds("attest", "actions/download-artifact", DIST)
        yield from self._holds("attest", PROVENANCE, {"subject-path": "dist/*"})
        bill = {"subject-path": "dist/*.whl", "sbom-path": "dist/faultline.cdx.json"}
        yield from self._holds("attest", SBOM, bill)
        upload = {"path": "dist/faultline*", "if-no-files-found": "error"}
        yield from self._holds("build", "actions/upload-artifact", upload)
        runs = " ".join(step.get("run", "") for step in self.jobs["build"]["steps"])
        if not {"build", "audit"} <= set(re.findall(r"\./run (\w+)", runs)):
            yield "build: no wheel, or no bill of materials"

    def _image(self) -> Iterator[str]:
        made = {"sbom": True, "provenance": "mode=max", "push": True}
        yield from self._holds("image", "docker/build-push-action", made)
        signed = {
            "subject-name": "ghcr.io/${{ github.repository }}",
            "subject-digest": "${{ steps.index.outputs.digest }}",
            "push-to-registry": True,
        }
        yield from self._holds("image-index", PROVENANCE, signed)

    def _pypi(self) -> Iterator[str]:
        yield from self._holds("pypi", "pypa/gh-action-pypi-publish", {"attestations": True})
        if self.jobs["pypi"].get("environment", {}).get("name") != "pypi":
            yield "pypi: not in the environment that PyPI trusts"
        for step in self.jobs["pypi"]["steps"]:
            if "password" in step.get("with", {}):
                yield "pypi: a password"

    def _holds(self, job: str, action: str, given: dict[str, Any]) -> Iterator[str]:
        """Nothing where a step of the job always runs the action with these inputs."""
        for step in self.jobs[job]["steps"]:
            named = str(step.get("uses", "")).partition("@")[0]
            if named == action and "if" not in step and given.items() <= step["with"].items():
                return
        yield f"{job}: no step runs {action} with {given}"


def test_nothing_is_published_without_provenance_a_bill_of_materials_and_signatures() -> None:
    assert Workflow(WORKFLOW.read_text()).problems() == []


SIGNED = "          subject-path: dist/*\n"
IDENTITY = "      id-token: write # sigstore signs for this workflow's identity\n"
CHANGES = {
    "no provenance": (PROVENANCE + "@", "actions/upload-artifact@"),
    "of some files": (SIGNED, "          subject-path: dist/*.whl\n"),
    "a step that may not run": ("      - name: SLSA", "      - if: false\n        name: SLSA"),
    "a job that may fail": ("    name: Provenance\n", "    continue-on-error: true\n"),
    "no bill of materials": ("          sbom-path: dist/faultline.cdx.json\n", ""),
    "none is made": (" && ./run audit", ""),
    "none of the image": ("          sbom: true\n", ""),
    "no provenance of the image": ("provenance: mode=max", "provenance: false"),
    "a signature that stays": ("push-to-registry: true", "push-to-registry: false"),
    "a signature of a name": ("${{ steps.index.outputs.digest }}", "sha256:0"),
    "nothing signed for PyPI": ("attestations: true", "attestations: false"),
    "nobody to sign for": (
        "      id-token: write # sigstore signs for this workflow's identity\n",
        "",
    ),
    "nowhere to keep it": ("      attestations: write # they are kept with the repository\n", ""),
    "published too early": ("needs: attest\n", "needs: build\n"),
    "an image too early": ("needs: [image, attest]", "needs: image"),
    "a release too early": ("needs: [pypi, image-index]", "needs: check"),
    "a tag in place of a commit": ("@a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32", "@v4.1.0"),
    "rights for all": ("permissions: {}", "permissions: write-all"),
    "a password": ("          print-hash: true\n", "          password: ${{ secrets.PYPI }}\n"),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES.keys())
def test_a_workflow_that_lost_one_of_them_is_found(old: str, new: str) -> None:
    text = WORKFLOW.read_text()
    assert old in text
    assert Workflow(text.replace(old, new)).problems() != []

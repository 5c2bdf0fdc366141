"""Terraform itself as a check, without a network: `fmt`, `validate` and `test` of a copy of the
modules.

The provider is `schema_provider`: it knows what every resource takes, and nothing happens in it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from infra.checks.tools import PYTHON, ROOT, bindings, terraform, tool

MODULES = ROOT / "infra/terraform"
HERE = Path(__file__).parent
TIMEOUT_S = 900
LEFT_OUT = shutil.ignore_patterns(".terraform*", "*.tfstate*")
SECURITY = "tests/security.tftest.hcl"
ASSERTED = 'run "installation" {'
"""How those assertions begin."""
VALIDATED = (
    ".",
    "modules/case-store",
    "modules/read-only-role",
    "examples/complete",
    "examples/other-account",
)
"""`modules/database-password` is validated with the module that uses it: alone it would hand out an
ephemeral value."""


class Terraform:
    """Terraform in its own folder, with one provider for all its runs. Raises NotHere where a
    tool is missing."""

    def __init__(self, folder: Path) -> None:
        self._program = terraform()
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        schemas, answer = folder / "schemas.json", folder / "answer"
        python = str(tool(PYTHON))
        for command in (
            [
                python,
                str(HERE / "provider_schemas.py"),
                str(bindings()),
                str(MODULES),
                str(schemas),
            ],
            [python, str(HERE / "schema_provider.py"), str(schemas), str(answer)],
        ):
            subprocess.run(command, check=True, timeout=TIMEOUT_S)
        plugin = folder / "plugin/terraform-provider-aws"
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text(
            f'#!/bin/sh\nexec "{python}" "{HERE}/schema_provider.py"\n', encoding="utf-8"
        )
        plugin.chmod(0o755)
        settings = folder / "terraformrc"
        override = f'dev_overrides {{\n    "hashicorp/aws" = "{plugin.parent}"\n  }}'
        settings.write_text(
            f"provider_installation {{\n  {override}\n  direct {{}}\n}}\n", encoding="utf-8"
        )
        self._environ = dict(os.environ) | {
            "TF_CLI_CONFIG_FILE": str(settings),
            "TF_DISABLE_PLUGIN_TLS": "1",
            "CHECKPOINT_DISABLE": "1",
            "FAULTLINE_SCHEMAS": str(answer),
            # Collecting garbage at the usual rate is a quarter of the time of `terraform test`.
            "GOGC": "400",
        }
        # Terraform would start it some forty times, which takes longer than what it is asked.
        self._provider = subprocess.Popen(
            [python, str(HERE / "schema_provider.py")],
            env=self._environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._provider.stdout is not None
        where = _address(self._provider.stdout.readline(), self._provider.pid)
        self._environ["TF_REATTACH_PROVIDERS"] = json.dumps({"hashicorp/aws": where})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the provider."""
        with self._provider:
            self._provider.terminate()

    def copy(self, name: str, changes: Mapping[str, tuple[str, str]] | None = None) -> Path:
        """A copy of the modules, with texts of its files replaced."""
        target = self._folder / name
        shutil.copytree(MODULES, target, ignore=LEFT_OUT)
        for file, (old, new) in (changes or {}).items():
            change(target / file, old, new)
        return target

    def unformatted(self, folder: Path) -> list[str]:
        """Files that `terraform fmt` would change."""
        return self._run(folder, "fmt", "-check", "-recursive", ".").stdout.split()

    def problems(self, folder: Path, modules: Iterable[str] = VALIDATED) -> list[str]:
        """What `terraform validate` finds, one line each."""
        problems = []
        for module in modules:
            self._run(folder / module, "get")
            report = json.loads(self._run(folder / module, "validate", "-json").stdout)
            problems += [
                f"{module}: {diagnostic['summary']}: {diagnostic.get('detail', '')}"
                for diagnostic in report["diagnostics"]
                if diagnostic["severity"] == "error"
            ]
        return problems

    def failures(self, folder: Path, assertions: Iterable[str] = ()) -> list[str]:
        """What `terraform test` finds with all files of assertions, or with these: the messages of
        assertions that fail, and errors. Empty when all hold."""
        stand_in = folder / "modules/database-password"
        for file in (HERE / "database-password").glob("*.tf"):
            shutil.copyfile(file, stand_in / file.name)
        self._run(folder, "get")
        files = [f"-filter=tests/{name}.tftest.hcl" for name in assertions]
        ran = self._run(folder, "test", "-json", *files)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        failures = [
            f"{line['diagnostic']['summary']}: {line['diagnostic'].get('detail', '')} "
            f"{line['diagnostic'].get('snippet')}"
            for line in lines
            if line.get("@level") == "error" and "diagnostic" in line
        ]
        if ran.returncode and not failures:
            failures.append(ran.stdout[-2000:] + ran.stderr[-2000:])
        return failures

    def _run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            cwd=folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def _address(handshake: str, pid: int) -> dict[str, object]:
    """Where a running provider is, from the line with which a plugin greets Terraform; see
    developer.hashicorp.com/terraform/plugin/debugging. `Test`: Terraform leaves it running."""
    _, version, network, address, protocol = handshake.strip().split("|")
    return {
        "Protocol": protocol,
        "ProtocolVersion": int(version),
        "Pid": pid,
        "Test": True,
        "Addr": {"Network": network, "String": address},
    }


def change(file: Path, old: str, new: str) -> None:
    """Replace a text that is there exactly once."""
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"{file.name} holds {old!r} {text.count(old)} times, not once")
    file.write_text(text.replace(old, new), encoding="utf-8")

"""A connector of another package: installed as a wheel, found by its entry point, used by name."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from faultline.loopback.preloaded import run_preloaded
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.plugin_programs import collect, refusals
from tests.docs.test_extending import example
from tests.forked import ForkedProcess

ROOT = Path(__file__).resolve().parents[2]
STATUS_PAGE = example("A connector")
TOKEN = "st4tus-t0ken"
INCIDENT = {
    "name": "Elevated errors",
    "status": "investigating",
    "created_at": "2026-03-02T11:40:00Z",
}


class Machine:
    """A place with its own packages beside Faultline, and a settings file."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "packages"
        self.settings = folder / "faultline.toml"
        self.state = folder / "state"

    def install(
        self, package: str, module: str, code: str, entry_points: Mapping[str, str]
    ) -> None:
        """Build a wheel and unpack it, which is all that installing a pure one does (PEP 427)."""
        info = f"{package.replace('-', '_')}-1.2.dist-info"
        declared = "\n".join(f"{name} = {target}" for name, target in entry_points.items())
        files = {
            f"{module}.py": code,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[faultline.connectors]\n{declared}\n",
            f"{info}/RECORD": "",
        }
        self.packages.mkdir(exist_ok=True)
        wheel = self.packages.parent / f"{package}-1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.packages)

    def environ(self, **environ: str) -> dict[str, str]:
        """That of a program that sees Faultline and these packages."""
        given = {
            **os.environ,
            "PYTHONPATH": f"{self.packages}{os.pathsep}{ROOT}",
            "FAULTLINE_STORE__DIRECTORY": str(self.state),
            **environ,
        }
        if self.settings.exists():
            given["FAULTLINE_CONFIG"] = str(self.settings)
        return given

    def run(self, function: Callable[..., None], argument: object) -> Any:
        """What the function says in a process that sees them."""
        forked = ForkedProcess(function, self.environ(), self.packages.parent, argument)
        forked.kill()
        return forked.said

    def check(self, **environ: str) -> subprocess.CompletedProcess[str]:
        """`faultline check`."""
        return run_preloaded(["check"], env=self.environ(**environ), cwd=self.packages.parent)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with the page's connector installed."""
    made = Machine(tmp_path)
    target = "faultline_statuspage:CONNECTOR"
    made.install(
        "faultline-statuspage", "faultline_statuspage", STATUS_PAGE, {"statuspage": target}
    )
    return made


def test_an_installed_connector_collects_and_is_checked(machine: Machine) -> None:
    with LocalServer() as server:
        server.on("/api/v2/incidents.json", Reply({"incidents": [INCIDENT]}))
        machine.settings.write_text(f'[statuspage]\nurl = "{server.url}"\n')
        collected = machine.run(collect, server.url)
        machine.install("broken", "broken", "import not_installed", {"broken": "broken:CONNECTOR"})
        machine.install("shadow", "shadow", STATUS_PAGE, {"loki": "shadow:CONNECTOR"})
        checked = machine.check(FAULTLINE_STATUSPAGE__TOKEN=TOKEN)
        assert server.methods == {"GET"}
        assert server.asked[-1].headers["Authorization"] == f"Bearer {TOKEN}"
    assert collected == [("statuspage", ["Elevated errors"])] * 2
    assert checked.stderr == ""
    assert TOKEN not in checked.stdout
    lines = [" ".join(line.split()) for line in checked.stdout.splitlines()]
    assert "ok statuspage 1 incidents can be read; there is nothing to write" in lines
    assert any("faultline-statuspage 1.2 brings monitors" in line for line in lines)
    assert any(line.startswith("FAIL plug-in broken broken: cannot load") for line in lines)
    assert any("Faultline already has a section [loki]" in line for line in lines)


SECTIONS = {
    '[statuspage]\nurl = "http://x"\n': "taken",
    '[statuspage]\nurl = "ftp://x"\n': "statuspage.url: must begin with http:// or https://",
    '[statuspage]\naddress = "x"\n': "statuspage.address: no such setting",
    f'[statuspage]\nurl = "http://x"\ntoken = "{TOKEN}"\n': "statuspage.token: ",
    '[statuspge]\nurl = "http://x"\n': "statuspge: no such section of the settings",
    'statuspage = "x"\n': "statuspage: input should be a valid dictionary or instance of",
}
PACKAGES = {
    "missing": ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
    "failing": ("raise RuntimeError('first\\nsecond')", "RuntimeError: first second"),
    "empty": ("OTHER = 1", "AttributeError: module 'empty' has no attribute 'CONNECTOR'"),
    "number": ("CONNECTOR = 7", "is a int, not a ConnectorType"),
    "renamed": (STATUS_PAGE, "declares it under the name 'statuspage'"),
}


def test_its_settings_are_validated_and_a_broken_plug_in_is_one_clear_line(
    machine: Machine,
) -> None:
    for name, (code, _) in PACKAGES.items():
        machine.install(f"faultline-{name}", name, code, {name: f"{name}:CONNECTOR"})
    files = [*SECTIONS, *(f'[{name}]\nurl = "http://x"\n' for name in PACKAGES)]
    said = machine.run(refusals, files)
    for one, expected in zip(said, SECTIONS.values(), strict=False):
        assert one.startswith(expected)
        assert TOKEN not in one
    for one, (name, (_, expected)) in zip(said[len(SECTIONS) :], PACKAGES.items(), strict=True):
        assert one.startswith(f"{name}: ")
        assert f"faultline-{name} 1.2" in one
        assert expected in one
        assert "\n" not in one


def test_the_program_says_so_in_one_line(machine: Machine) -> None:
    target = "another_statuspage:CONNECTOR"
    machine.install("another", "another_statuspage", STATUS_PAGE, {"statuspage": target})
    machine.settings.write_text('[statuspage]\nurl = "http://x"\n')
    refused = machine.check()
    assert refused.returncode != 0
    assert refused.stderr.startswith("faultline: statuspage: is declared by ")
    assert "another 1.2" in refused.stderr
    assert refused.stderr.count("\n") == 1

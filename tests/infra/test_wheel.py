"""The wheel, installed into empty environments with some of its extras, from what uv has fetched
already."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools/uv/bin/uv"
CASE = ROOT / "demo/cases/slow-rank"
OFFLINE = {"UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}

pytestmark = pytest.mark.skipif(not UV.exists(), reason="./run has not fetched uv")


def uv(*words: str, **environ: str) -> None:
    done = subprocess.run(
        [str(UV), *words],
        cwd=ROOT,
        env={**os.environ, **OFFLINE, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel and nothing of this checkout."""

    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command as a shell would find it, in a folder that is not the checkout."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("FAULTLINE", "PYTHON"))}
        program = str(self.folder / "bin" / words[0])
        return subprocess.run(
            [program, *words[1:]],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def has(self, module: str) -> bool:
        found = (
            f"import sys; from importlib.util import find_spec; sys.exit(not find_spec('{module}'))"
        )
        return self.run("python", "-c", found).returncode == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    constraints = "infra/release/build-constraints.txt"
    uv("build", "-q", "--wheel", "--require-build-hashes", "-b", constraints, "-o", str(folder))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Makes an environment with some extras."""

    def install(*extras: str) -> Installed:
        folder = tmp_path_factory.mktemp("installed") / "venv"
        asked = [word for extra in extras for word in ("--extra", extra)]
        uv("venv", "-q", "--python", sys.executable, str(folder))
        # The lock says where each file is, so that no index is needed.
        words = ("sync", "-q", "--frozen", "--no-dev", "--no-install-project", *asked)
        uv(*words, UV_PROJECT_ENVIRONMENT=str(folder))
        uv("pip", "install", "-q", "--python", str(folder), "--no-deps", str(wheel))
        uv("pip", "check", "-q", "--python", str(folder))
        return Installed(folder)

    return install


@pytest.fixture(scope="module")
def light(installed: Callable[..., Installed]) -> Installed:
    return installed("traces")


def test_it_holds_every_package_with_its_data_and_no_test(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert any(name.startswith(f"{package}/") for name in names), package
    assert any(name.startswith("faultline/analysis/traces/native/traces.") for name in names)
    assert any(name.endswith(".parquet") for name in names)
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]


def test_the_traces_alone_bring_neither_slack_nor_aws_nor_the_engine(light: Installed) -> None:
    for module in ("slack_sdk", "slack_bolt", "boto3", "dbos", "sqlalchemy", "openai"):
        assert not light.has(module), module
    assert light.has("obstore")


def test_with_them_a_job_is_diagnosed_and_a_case_replayed(light: Installed, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = light.run("faultline", "trace", str(CASE / "traces"), "--html", str(page))
    assert "critical rank 2" in said.stdout, said.stderr
    replayed = light.run("faultline", "investigate", str(CASE))
    assert "rank 2's data" in replayed.stdout, replayed.stderr


@pytest.mark.parametrize("command", ["ask", "demo", "serve", "worker", "check", "doctor", "lab"])
def test_every_command_that_needs_the_bot_says_so_in_one_line(
    light: Installed, command: str
) -> None:
    words = ["faultline", command, *(["x is slow"] if command == "ask" else [])]
    said = light.run(*words)
    assert said.returncode == 2
    needed = f"faultline {command} needs an extra that is not installed"
    assert said.stderr == f'{needed}: pip install "faultline-bot[bot]"\n'


def test_help_and_version_load_nothing_large(light: Installed) -> None:
    large = "{'pydantic', 'polars', 'numpy', 'msgspec', 'jinja2'}"
    program = f"import sys, faultline.bot.cli.main; sys.exit(bool({large} & set(sys.modules)))"
    assert light.run("python", "-c", program).returncode == 0
    assert light.run("faultline", "--help").returncode == 0
    assert light.run("faultline", "--version").stdout.startswith("faultline ")


def test_the_bot_alone_plays_the_demo(installed: Callable[..., Installed]) -> None:
    bot = installed("bot")
    assert not bot.has("boto3")
    played = bot.run("faultline", "demo", "--exit")
    assert played.returncode == 0, played.stderr
    assert "rank 2" in played.stdout


def test_it_installs_a_single_package(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"faultline"}


def test_it_runs_beside_folders_that_are_called_as_its_rooms(
    light: Installed, tmp_path: Path
) -> None:
    for name in ("analysis", "bot", "demo", "prompts", "connectors"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')\n")
    program = (
        "import faultline, faultline.traces; "
        f"print(faultline.investigate({str(CASE)!r}).verdict); "
        f"print(bool(faultline.traces.open({str(CASE / 'traces')!r}).diagnoses))"
    )
    python = light.folder / "bin/python"
    done = subprocess.run(
        [str(python), "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["cause_found", "True"], done.stderr
